"""`ottla dlq purge`: delete dead letters from the beginning of their partitions on."""

import re
from typing import TYPE_CHECKING

import click

from ottla.cli.committed_reader import committed_reader
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.dlq_filter import where_of, where_option
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.start_position import parse_timestamp
from ottla.client.admin.admin import Admin
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.dead_letters.redriving import Letters
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.io.cluster import Cluster
    from ottla.model.topic_partition import TopicPartition

_BEFORE = re.compile(r"(\d{1,10}):(\d{1,19})", re.ASCII)
_INT64_MAX = (1 << 63) - 1


@click.command("purge")
@bootstrap_option
@click.argument("topic")
@click.option("--redriven", is_flag=True, help="Delete letters that were sent back, up to the first that was not.")
@where_option
@click.option("--older-than", metavar="TIME", help="Delete letters before this time; -7d for seven days ago.")
@click.option(
    "--before", metavar="PARTITION:OFFSET", multiple=True, help="Delete letters before an offset; repeatable."
)
@click.option("--all", "everything", is_flag=True, help="Delete all letters up to the current end.")
@click.option("--execute", is_flag=True, help="Execute; without it, only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def purge(
    bootstrap: str,
    topic: str,
    redriven: bool,
    where: str | None,
    older_than: str | None,
    before: tuple[str, ...],
    everything: bool,
    execute: bool,
    as_json: bool,
) -> None:
    """Delete dead letters from the beginning of their topic: in each partition everything before an offset.

    With --where, the letters for which the expression is true, up to the first record that is another one.

    \b
    Examples:
      ottla dlq purge flights.dead-letters --redriven
      ottla dlq purge flights.dead-letters --older-than -30d --execute
    """
    if sum((redriven, where is not None, older_than is not None, bool(before), everything)) != 1:
        raise click.UsageError("give one of --redriven, --where, --older-than, --before and --all")
    wanted = Filter(where=where_of(where))
    older_ms = _time(older_than) if older_than is not None else None
    cuts = dict(_before(text) for text in before)

    async def action(cluster: "Cluster") -> "list[tuple[TopicPartition, int, int, int]]":
        """Of each partition where it begins, where it would, and where its letters that were not sent back begin."""
        async with committed_reader(bootstrap) as consumer:
            letters = Letters(cluster, consumer, topic)
            await letters.open()
            if redriven:
                to = {place: letters.position(place) for place in letters.starts}
            elif older_ms is not None:
                found = await consumer.list_offsets(dict.fromkeys(letters.starts, older_ms))
                to = {place: at.offset if at.offset >= 0 else letters.ends[place] for place, at in found.items()}
            elif where is not None:
                to = await _first_others(letters, wanted)
            elif everything:
                to = dict(letters.ends)
            else:
                to = _given(cuts, letters)
        rows = [
            (place, start, min(max(to.get(place, start), start), letters.ends[place]), letters.position(place))
            for place, start in letters.starts.items()
        ]
        if execute:
            outcomes = await Admin(cluster).delete_records({place: end for place, start, end, _ in rows if end > start})
            failed = next((each for each in outcomes.values() if not isinstance(each, int)), None)
            if failed is not None:
                raise failed
        return rows

    _report(with_cluster(bootstrap, action), execute=execute, as_json=as_json)


async def _first_others(letters: "Letters", wanted: Filter) -> "dict[TopicPartition, int]":
    """The first offset of each partition with a record that is not selected, or its end."""
    to: dict[TopicPartition, int] = {}
    async for records in letters.all():
        for record in records:
            place = record.topic_partition
            if place not in to and not wanted.takes(record, letter_of(record.headers)):
                to[place] = record.offset
        if len(to) == len(letters.ends):
            break
    return letters.ends | to


def _given(cuts: dict[int, int], letters: "Letters") -> "dict[TopicPartition, int]":
    there = {place.partition: place for place in letters.starts}
    found = {}
    for number, offset in cuts.items():
        place = there.get(number)
        if place is None:
            raise CommandError(f"topic {letters.topic} has no partition {number}; nothing was deleted")
        if offset > letters.ends[place]:
            raise CommandError(f"{place} ends at {letters.ends[place]}, before {offset}; nothing was deleted")
        found[place] = offset
    return found


def _report(rows: "list[tuple[TopicPartition, int, int, int]]", *, execute: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "from": start,
                    "before": end,
                    "not_sent_back_before": max(end - max(position, start), 0),
                    "deleted": execute and end > start,
                }
                for place, start, end, position in rows
            ]
        )
        return
    table = [(*place, start, end, end - start) for place, start, end, _ in rows]
    print_table(
        ["TOPIC", "PARTITION", "FROM", "BEFORE", "OFFSETS"], table, right=["PARTITION", "FROM", "BEFORE", "OFFSETS"]
    )
    total = sum(end - start for _, start, end, _ in rows)
    unsent = sum(max(end - max(position, start), 0) for _, start, end, position in rows)
    if unsent:
        click.echo(f"warning: up to {unsent} of these offsets have letters that were not sent back", err=True)
    if execute:
        click.echo(f"deleted {total} offsets")
    else:
        click.echo(f"would delete {total} offsets; nothing was deleted: add --execute to do it")


def _time(text: str) -> int:
    return parse_timestamp(text, SystemClock())


def _before(text: str) -> tuple[int, int]:
    match = _BEFORE.fullmatch(text)
    if match is None or int(match[2]) > _INT64_MAX:
        raise click.BadParameter(f"{text!r} is not PARTITION:OFFSET, such as 0:1000")
    return int(match[1]), int(match[2])
