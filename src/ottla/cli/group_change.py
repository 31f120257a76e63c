"""`ottla group delete`, `delete-offsets` and `reset`: what changes a consumer group from outside."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.failure import CommandError, report
from ottla.cli.output import print_json, print_table
from ottla.cli.partition_selection import Selection, parse_selection, partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.cli.offset_reset import OffsetReset
    from ottla.client.cluster import Cluster
    from ottla.client.errors import BrokerError, ClientError
    from ottla.model.topic_partition import TopicPartition

_INT64_MAX = (1 << 63) - 1


@click.command("delete")
@bootstrap_option
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the groups that were deleted.")
def delete_groups(bootstrap: str, names: tuple[str, ...], as_json: bool) -> None:
    """Delete consumer groups and the offsets they have committed, without asking.

    A group that has members is refused: stop them first. The others that were named are deleted all the same.

    \b
    Example:
      ottla group delete billing reports
    """

    async def action(cluster: "Cluster") -> "tuple[list[str], list[ClientError | CommandError]]":
        from ottla.client.errors import BrokerError
        from ottla.client.group_admin import GroupAdmin
        from ottla.model.error_code import ErrorCode

        deleted: list[str] = []
        failures: list[ClientError | CommandError] = []
        for name in dict.fromkeys(names):
            try:
                await GroupAdmin(cluster).delete_group(name)
            except BrokerError as error:
                has_members = error.code == ErrorCode.NON_EMPTY_GROUP
                failures.append(_has_members(name, "was not deleted") if has_members else error)
            else:
                deleted.append(name)
                if not as_json:
                    click.echo(f"deleted group {name}")
        return deleted, failures

    deleted, failures = with_cluster(bootstrap, action)
    if as_json:
        print_json(deleted)
    for failure in failures[:-1]:
        report(failure, debug=False)
    if failures:
        raise failures[-1]


@click.command("delete-offsets")
@bootstrap_option
@click.argument("group_id", metavar="GROUP")
@click.argument("places", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def delete_offsets(bootstrap: str, group_id: str, places: tuple[str, ...], as_json: bool) -> None:
    """Forget what a consumer group has committed for topics or partitions.

    Topics that members of the group read now are refused. Where a group has no offset, its consumers begin where they
    are configured to.

    \b
    Example:
      ottla group delete-offsets billing events:0,4-6 orders
    """
    selections = [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> "Mapping[TopicPartition, BrokerError | None]":
        from ottla.client.group_admin import GroupAdmin

        partitions = await partitions_of(cluster, selections)
        return await GroupAdmin(cluster).delete_offsets(group_id, partitions)

    outcomes = with_cluster(bootstrap, action)
    if as_json:
        print_json(
            [
                {"topic": topic, "partition": number, "error": error.code.name if error is not None else None}
                for (topic, number), error in outcomes.items()
            ]
        )
    else:
        rows = [(*place, error.code.name if error is not None else "deleted") for place, error in outcomes.items()]
        print_table(["TOPIC", "PARTITION", "STATUS"], rows, right=["PARTITION"])
    failed = next((error for error in outcomes.values() if error is not None), None)
    if failed is not None:
        raise _subscribed(group_id, failed)


def _subscribed(group_id: str, error: "BrokerError") -> "BrokerError | CommandError":
    from ottla.model.error_code import ErrorCode

    if error.code != ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return error
    return CommandError(f"{error}; stop the members that read it first, `ottla group describe {group_id}` shows them")


def _has_members(group_id: str, what: str) -> CommandError:
    return CommandError(
        f"group {group_id!r} {what}: it has members; stop them first, `ottla group describe {group_id}` shows them"
    )


@click.command("reset")
@bootstrap_option
@click.argument("group_id", metavar="GROUP")
@click.argument("places", metavar="[TOPIC[:PARTITION,...]]...", nargs=-1)
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the first record that is there.")
@click.option("--to-latest", is_flag=True, help="To the end: only what comes from now on.")
@click.option("--to-offset", metavar="N", type=click.IntRange(0, _INT64_MAX), help="To this offset.")
@click.option("--to-datetime", metavar="TIME", help="To the first record at or after it; ISO 8601, UTC if not said.")
@click.option("--by-duration", metavar="DURATION", help="The same, so long ago: 15m (s, m, h, d) or P1DT2H30M.")
@click.option("--shift-by", metavar="N", type=click.IntRange(-_INT64_MAX, _INT64_MAX), help="On by N, or back by -N.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def reset(
    bootstrap: str,
    group_id: str,
    places: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move a consumer group to other offsets, also while it is running.

    Members are not stopped: they lose their place in the group, so that nothing they have read until then is committed
    any more, join it again by themselves and go on from the new offsets.

    An offset that is not in the log is put to the nearer end of it, with a warning. All partitions are decided before
    the first is written. A group that does not exist is made.

    \b
    Examples:
      ottla group reset billing events --to-earliest --dry-run
      ottla group reset billing events:0,4-6 --to-datetime 2026-11-20T08:00:00Z
      ottla group reset billing --all-topics --shift-by -100
    """
    if bool(places) == all_topics:
        raise click.UsageError("say which topics: TOPIC[:PARTITION,...], or --all-topics, not both")
    wanted = _wanted(to_earliest, to_latest, to_offset, to_datetime, by_duration, shift_by)
    selections = None if all_topics else [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> list[dict[str, Any]]:
        return await move_group(cluster, group_id, selections, lambda _: wanted, dry_run=dry_run)

    show_moved(with_cluster(bootstrap, action), as_json=as_json)


def show_moved(moved: list[dict[str, Any]], *, as_json: bool) -> None:
    """What `move_group` gave."""
    if as_json:
        print_json(moved)
    else:
        columns = ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "NEW-OFFSET"]
        print_table(columns, [tuple(each.values()) for each in moved], right=columns[2:])


def _wanted(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
) -> "OffsetReset":
    from ottla.cli.offset_reset import OffsetReset, ResetTo, parse_datetime_ms, parse_duration_ms
    from ottla.runtime.clock import SystemClock

    said: list[OffsetReset] = []
    if to_earliest:
        said.append(OffsetReset(ResetTo.EARLIEST))
    if to_latest:
        said.append(OffsetReset(ResetTo.LATEST))
    if to_offset is not None:
        said.append(OffsetReset(ResetTo.OFFSET, to_offset))
    if to_datetime is not None:
        said.append(OffsetReset(ResetTo.TIMESTAMP, parse_datetime_ms(to_datetime)))
    if by_duration is not None:
        at_ms = max(SystemClock().now_ms() - parse_duration_ms(by_duration), 0)
        said.append(OffsetReset(ResetTo.TIMESTAMP, at_ms))
    if shift_by is not None:
        said.append(OffsetReset(ResetTo.SHIFT, shift_by))
    if len(said) != 1:
        raise click.UsageError(
            "say where to with one of --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration, --shift-by"
        )
    return said[0]


async def move_group(
    cluster: "Cluster",
    group_id: str,
    selections: list[Selection] | None,
    wanted: "Callable[[TopicPartition], OffsetReset]",
    *,
    dry_run: bool,
) -> list[dict[str, Any]]:
    """Decide for all partitions, with None for those the group has committed, say what is not as asked for, commit."""
    from ottla.cli.offset_reset import NoCommittedOffsetError, PartitionNow, ResetTo, new_offset
    from ottla.client.admin import Admin
    from ottla.client.errors import BrokerError
    from ottla.client.group_admin import GroupAdmin
    from ottla.client.offsets import OffsetAt
    from ottla.model.error_code import ErrorCode

    groups, admin = GroupAdmin(cluster), Admin(cluster)
    if not dry_run and (count := await groups.send_members_away(group_id)):
        what = "member is" if count == 1 else "members are"
        click.echo(f"{count} {what} moved along: they join group {group_id} again and go on from there", err=True)
    committed = await groups.committed(group_id)
    if selections is None and not committed:
        raise CommandError(f"group {group_id!r} has committed nothing: name the topics instead of --all-topics")
    partitions = sorted(committed) if selections is None else await partitions_of(cluster, selections)
    starts = await admin.list_offsets(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
    resets = {place: wanted(place) for place in partitions}
    by_time = {place: each.number for place, each in resets.items() if each.to is ResetTo.TIMESTAMP}
    at_time = await admin.list_offsets(by_time)

    offsets: dict[TopicPartition, int] = {}
    for place in partitions:
        at = at_time[place].offset if place in at_time else -1
        now = PartitionNow(starts[place].offset, ends[place].offset, committed.get(place), at)
        try:
            decided = new_offset(resets[place], now)
        except NoCommittedOffsetError:
            raise CommandError(
                f"group {group_id!r} has committed nothing for {place}, so there is nothing to shift: "
                "use --to-earliest, --to-latest or --to-offset"
            ) from None
        offsets[place] = decided.offset
        if decided.note is not None:
            click.echo(f"warning: {place}: {decided.note}", err=True)
    if not dry_run:
        try:
            await groups.set_offsets(group_id, offsets)
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                raise _has_members(group_id, "was not moved") from error
            raise
    return [
        {
            "group": group_id,
            "topic": place.topic,
            "partition": place.partition,
            "committed_offset": committed.get(place),
            "new_offset": offset,
        }
        for place, offset in offsets.items()
    ]
