"""`ottla topic offsets` and `delete-records`: where partitions begin and end, and moving their beginning."""

import re
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.partition_selection import Selection, parse_selection, partitions_of
from ottla.cli.start_position import parse_timestamp
from ottla.client.admin.admin import Admin
from ottla.client.admin.delete_records import TO_THE_END
from ottla.client.consuming.offsets import OffsetAt
from ottla.model.error_code import ErrorCode
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.errors import BrokerError
    from ottla.client.io.cluster import Cluster
    from ottla.model.topic_partition import TopicPartition

_CUT = re.compile(r"(\d{1,10})=(\d{1,19}|-1|latest)", re.ASCII)
_INT64_MAX = (1 << 63) - 1


@click.command("offsets")
@bootstrap_option
@click.argument("places", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=True)
@click.option(
    "--time",
    "at",
    metavar="WHEN",
    default="latest",
    show_default=True,
    help="earliest, latest, max-timestamp, or a time: ms since 1970, ISO 8601, -15m for 15 minutes ago.",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def offsets(bootstrap: str, places: tuple[str, ...], at: str, as_json: bool) -> None:
    """Show an offset of each partition: the first, the next, that of the newest record, or the first at a time.

    A partition without such a record has no offset. A time without a UTC offset is local time.

    \b
    Examples:
      ottla topic offsets events
      ottla topic offsets events:0,4-6 --time -15m
    """
    selections = [parse_selection(text) for text in places]
    when = _when(at)

    async def action(cluster: "Cluster") -> list[dict[str, Any]]:
        partitions = await partitions_of(cluster, selections)
        found = await Admin(cluster).list_offsets(dict.fromkeys(partitions, when))
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": found[place].offset if found[place].offset >= 0 else None,
                "timestamp": found[place].timestamp_ms if found[place].timestamp_ms >= 0 else None,
            }
            for place in partitions
        ]

    rows = with_cluster(bootstrap, action)
    if as_json:
        print_json(rows)
    else:
        columns = ["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP"]
        print_table(columns, [tuple(each.values()) for each in rows], right=columns[1:])


def _when(text: str) -> int:
    # The numbers are those that Kafka's kafka-get-offsets takes.
    words = {
        "latest": OffsetAt.LATEST,
        "-1": OffsetAt.LATEST,
        "earliest": OffsetAt.EARLIEST,
        "-2": OffsetAt.EARLIEST,
        "max-timestamp": OffsetAt.MAX_TIMESTAMP,
        "-3": OffsetAt.MAX_TIMESTAMP,
    }
    word = words.get(text.lower())
    return word if word is not None else parse_timestamp(text, SystemClock())


@click.command("delete-records")
@bootstrap_option
@click.argument("cuts", metavar="TOPIC[:PARTITION=OFFSET,...]...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def delete_records(bootstrap: str, cuts: tuple[str, ...], as_json: bool) -> None:
    """Delete the records before an offset in each partition, without confirmation.

    OFFSET is the first offset that stays; -1 or latest means the end, which deletes everything. TOPIC alone
    deletes all records of all partitions. Each partition succeeds or fails by itself.

    \b
    Examples:
      ottla topic delete-records events:0=1000,1=latest
      ottla topic delete-records events
    """
    wanted = [_parse_cut(text) for text in cuts]

    async def action(cluster: "Cluster") -> "Mapping[TopicPartition, int | BrokerError]":
        before: dict[TopicPartition, int] = {}
        for topic, offsets_by_number in wanted:
            numbers = None if offsets_by_number is None else tuple(offsets_by_number)
            for place in await partitions_of(cluster, [Selection(topic, numbers)]):
                offset = TO_THE_END if offsets_by_number is None else offsets_by_number[place.partition]
                if before.setdefault(place, offset) != offset:
                    raise CommandError(f"{place} is named twice, with different offsets; nothing was deleted")
        return await Admin(cluster).delete_records(before)

    outcomes = with_cluster(bootstrap, action)
    failed = [each for each in outcomes.values() if not isinstance(each, int)]
    if as_json:
        print_json(
            [
                {"topic": topic, "partition": number}
                | (
                    {"log_start_offset": outcome, "error": None}
                    if isinstance(outcome, int)
                    else {"log_start_offset": None, "error": outcome.code.name}
                )
                for (topic, number), outcome in outcomes.items()
            ]
        )
    else:
        rows = [
            (*place, outcome, "cut") if isinstance(outcome, int) else (*place, None, outcome.code.name)
            for place, outcome in outcomes.items()
        ]
        print_table(["TOPIC", "PARTITION", "START", "STATUS"], rows, right=["PARTITION", "START"])
    if failed:
        raise _explained(failed[0])


def _parse_cut(text: str) -> tuple[str, dict[int, int] | None]:
    """A topic and the first offset that stays, by partition; None for all of them, to the end."""
    topic, colon, parts = text.partition(":")
    if topic and not colon:
        return topic, None
    found: dict[int, int] = {}
    for part in parts.split(","):
        match = _CUT.fullmatch(part)
        number, offset = (int(match[1]), match[2]) if match is not None else (-1, "")
        before = -1 if offset in {"", "latest"} else int(offset)
        if not topic or match is None or before > _INT64_MAX or number in found:
            raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION=OFFSET, such as events:0=1000,1=latest")
        found[number] = before
    return topic, found


def _explained(error: "BrokerError") -> "BrokerError | CommandError":
    reasons = {
        ErrorCode.OFFSET_OUT_OF_RANGE: "the offset is after its end; `ottla topic offsets` shows where that is",
        ErrorCode.POLICY_VIOLATION: "its cleanup.policy has no delete in it; "
        "`ottla config set --topic TOPIC cleanup.policy=compact,delete` would allow it",
    }
    reason = reasons.get(error.code)
    return CommandError(f"{error}; {reason}") if reason is not None else error
