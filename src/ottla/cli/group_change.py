"""`ottla group delete`, `delete-offsets` and `reset`: what changes a consumer group from outside."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.failure import CommandError, report
from ottla.cli.offset_reset import (
    NoCommittedOffsetError,
    OffsetReset,
    PartitionNow,
    ResetTo,
    new_offset,
    parse_datetime_ms,
    parse_duration_ms,
)
from ottla.cli.output import print_json, print_table
from ottla.cli.partition_selection import Selection, parse_selection, partitions_of
from ottla.client.admin.admin import Admin
from ottla.client.admin.group_admin import GroupAdmin
from ottla.client.admin.group_members import DEAD
from ottla.client.admin.share_group_admin import ShareGroupAdmin
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import BrokerError, ClientError
from ottla.model.error_code import ErrorCode
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.io.cluster import Cluster
    from ottla.model.topic_partition import TopicPartition

_INT64_MAX = (1 << 63) - 1

type_option = click.option(
    "--type",
    "wanted_type",
    type=click.Choice(("consumer", "share")),
    help="The kind of group; one that does not exist is created as this.  [that of the group; a new one: consumer]",
)
"""Of the commands that move a group."""


@click.command("delete")
@bootstrap_option
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the groups that were deleted.")
def delete_groups(bootstrap: str, names: tuple[str, ...], as_json: bool) -> None:
    """Delete groups and their committed offsets, without confirmation. Share groups lose what they have in flight.

    A group with members is refused: stop them first. Other named groups are still deleted.

    \b
    Example:
      ottla group delete billing reports
    """

    async def action(cluster: "Cluster") -> "tuple[list[str], list[ClientError | CommandError]]":
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
    """Delete committed offsets of a consumer group.

    Topics that members are subscribed to are refused. Without a committed offset, consumers start by their
    auto.offset.reset. A share group must be empty and loses whole topics; it starts by its share.auto.offset.reset.

    \b
    Example:
      ottla group delete-offsets billing events:0,4-6 orders
    """
    selections = [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> "Mapping[TopicPartition, BrokerError | None]":
        partitions = await partitions_of(cluster, selections)
        share = ShareGroupAdmin(cluster)
        if not await share.is_share_group(group_id):
            return await GroupAdmin(cluster).delete_offsets(group_id, partitions)
        if any(each.partitions is not None for each in selections):
            raise CommandError(f"group {group_id!r} is a share group, which loses whole topics: name no partitions")
        topics = await share.delete_topics(group_id, tuple({each.topic: None for each in partitions}))
        return {each: topics.get(each.topic) for each in partitions}

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
    if error.code != ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return error
    return CommandError(f"{error}; stop the members that read it first, `ottla group describe {group_id}` shows them")


def _has_members(group_id: str, what: str) -> CommandError:
    return CommandError(
        f"group {group_id!r} {what}: it has members; stop them first, `ottla group describe {group_id}` shows them"
    )


def _is_read(group_id: str) -> CommandError:
    return CommandError(
        f"group {group_id!r} was not moved: it has members, or clients of NSQ or Redis read it; stop them first, "
        f"`ottla group describe {group_id}` shows members, `/stats` NSQ clients, XINFO CONSUMERS those of Redis"
    )


@click.command("reset")
@bootstrap_option
@click.argument("group_id", metavar="GROUP")
@click.argument("places", metavar="[TOPIC[:PARTITION,...]]...", nargs=-1)
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end: only new records.")
@click.option("--to-offset", metavar="N", type=click.IntRange(0, _INT64_MAX), help="To this offset.")
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record at or after this time; ISO 8601, UTC by default."
)
@click.option(
    "--by-duration", metavar="DURATION", help="To the first record after this long ago: 15m (s, m, h, d) or P1DT2H30M."
)
@click.option(
    "--shift-by", metavar="N", type=click.IntRange(-_INT64_MAX, _INT64_MAX), help="Forward by N, or back by -N."
)
@type_option
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
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
    wanted_type: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move a group to other offsets, even while it runs.

    Members keep running: they are removed from the group, so that they cannot commit older offsets, rejoin
    automatically and continue from the new offsets.

    An offset outside of the log moves to the nearer end, with a warning. All offsets are computed before the first
    is written. A missing group is created, as a consumer group unless --type says otherwise. A share group delivers
    everything from there on, also what was accepted before.

    \b
    Examples:
      ottla group reset billing events --to-earliest --dry-run
      ottla group reset billing events:0,4-6 --to-datetime 2026-11-20T08:00:00Z
      ottla group reset billing --all-topics --shift-by -100
      ottla group reset workers jobs --type share --to-latest
    """
    if bool(places) == all_topics:
        raise click.UsageError("give either TOPIC[:PARTITION,...] or --all-topics")
    wanted = _wanted(to_earliest, to_latest, to_offset, to_datetime, by_duration, shift_by)
    selections = None if all_topics else [parse_selection(text) for text in places]

    async def action(cluster: "Cluster") -> list[dict[str, Any]]:
        return await move_group(cluster, group_id, selections, lambda _: wanted, wanted_type, dry_run=dry_run)

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
            "give one of --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration and --shift-by"
        )
    return said[0]


async def _groups_of(
    cluster: "Cluster", group_id: str, wanted_type: str | None
) -> tuple[GroupAdmin | ShareGroupAdmin, str | None]:
    """What moves groups of the kind that this one has, or is to have where there is none; and what to say of that.

    Raises CommandError when it is of another kind.
    """
    share, consumer = ShareGroupAdmin(cluster), GroupAdmin(cluster)
    if await share.is_share_group(group_id):
        if wanted_type == "consumer":
            raise CommandError(f"group {group_id!r} is a share group, not a consumer group")
        return share, None
    is_new = await consumer.state(group_id) == DEAD
    if wanted_type == "share":
        if not is_new:
            raise CommandError(f"group {group_id!r} is a consumer group, not a share group")
        return share, None
    if not is_new or wanted_type is not None:
        return consumer, None
    return consumer, (
        f"note: group {group_id!r} is new, and a consumer group; for a share group, such as that of the workers of a"
        " queue, add --type share"
    )


async def move_group(
    cluster: "Cluster",
    group_id: str,
    selections: list[Selection] | None,
    wanted: "Callable[[TopicPartition], OffsetReset]",
    wanted_type: str | None = None,
    *,
    dry_run: bool,
) -> list[dict[str, Any]]:
    """Decide for all partitions, with None for those the group has committed, say what is not as asked for, commit."""
    admin = Admin(cluster)
    groups, note = await _groups_of(cluster, group_id, wanted_type)
    named = None if selections is None else await partitions_of(cluster, selections)
    if not dry_run and (count := await groups.send_members_away(group_id)):
        what = f"{count} member{'s' * (count != 1)}"
        click.echo(f"removed {what} of group {group_id}, to rejoin it and continue from the new offsets", err=True)
    committed = await groups.committed(group_id)
    if named is None and not committed:
        raise CommandError(f"group {group_id!r} has no committed offsets: name the topics instead of --all-topics")
    partitions = sorted(committed) if named is None else named
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
                f"group {group_id!r} has no committed offset for {place} to shift: "
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
            if error.code == ErrorCode.NON_EMPTY_GROUP:  # a share group
                raise _is_read(group_id) from error
            raise
    if note is not None:
        click.echo(note, err=True)
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
