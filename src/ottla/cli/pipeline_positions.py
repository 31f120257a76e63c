"""`ottla pipeline lag` and `reset`: how far a pipeline has read, and from where it goes on. Spark is not needed."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.group_seek import parse_positions
from ottla.cli.offset_reset import OffsetReset, PartitionNow, ResetTo, new_offset, parse_datetime_ms
from ottla.cli.output import print_json, print_table
from ottla.cli.pipeline_run import BOOTSTRAP, FILE, bootstrap_of, read_spec
from ottla.client.blocking import BlockingClient
from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.runner.beginning import BEGIN, begin_anew, transactional_ids
from ottla.pipelines.runner.checkpoint import CheckpointError, CheckpointLock, batches, directory_of, owner_of
from ottla.pipelines.runner.positions import Behind, behind, plan_move, positions, require_known
from ottla.pipelines.runner.positions import execute as move_checkpoint
from ottla.pipelines.runner.published import published
from ottla.pipelines.spec.lineage import through
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.pipelines.spec import PipelineSpec
    from ottla.pipelines.spec.model import Sink


@click.command("lag")
@FILE
@BOOTSTRAP
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def lag(file: Path, bootstrap: str | None, as_json: bool) -> None:
    """Show the lag of each sink of a pipeline, whether it runs or not.

    Read from the checkpoints. LAG is in records; SECONDS is the age of the first waiting record.

    \b
    Example:
      ottla pipeline lag flights.toml
    """
    spec = read_spec(file)
    try:
        with BlockingClient(bootstrap_of(spec, bootstrap), client_id="ottla-cli") as client:
            found = [each for sink in spec.sinks for each in _behind(spec, sink, client)]
    except CheckpointError as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json([to_builtins(each) for each in found])
        return
    columns = ["SINK", "TOPIC", "PARTITION", "POSITION", "END", "LAG", "SECONDS"]
    rows = [
        (each.sink, each.topic, each.partition, each.position, each.end, each.lag, _rounded(each.seconds))
        for each in found
    ]
    print_table(columns, rows, right=columns[2:])


def _rounded(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.1f}"


def _behind(spec: "PipelineSpec", sink: "Sink", client: "BlockingClient") -> "list[Behind]":
    read = positions(_directory(spec, sink))
    return behind(sink.name, read, _partitions(spec, sink, client), client, SystemClock().now_ms())


def _partitions(spec: "PipelineSpec", sink: "Sink", client: "BlockingClient") -> "list[TopicPartition]":
    """The partitions of the streams that a sink reads."""
    names: set[str] = set()
    here = through(spec, sink.name)
    for source in spec.sources.values():
        if source.name in here and not source.table:
            names |= set(source.topics)
            if source.pattern is not None:
                names |= {topic for topic in client.topics() if re.fullmatch(source.pattern, topic)}
    topics = client.metadata(sorted(names))
    return [TopicPartition(name, number) for name, topic in topics.items() for number in range(len(topic.partitions))]


def _directory(spec: "PipelineSpec", sink: "Sink") -> Path:
    directory = directory_of(spec, sink)
    if "://" in directory:
        raise CommandError(f"the checkpoints of {spec.name} are at {directory}: only local directories are supported")
    return Path(directory)


@click.command("reset")
@FILE
@click.argument("places", metavar="[TOPIC:PARTITION=OFFSET[,...]]...", nargs=-1)
@click.option("--to", "to", metavar="WHERE", help="earliest, latest, or a time (ISO 8601, UTC by default).")
@click.option("--sink", "sinks", metavar="NAME", multiple=True, help="Only this sink; repeatable.")
@click.option("--execute", is_flag=True, help="Execute; without it, only show.")
@BOOTSTRAP
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def reset(
    file: Path,
    places: tuple[str, ...],
    to: str | None,
    sinks: tuple[str, ...],
    execute: bool,
    bootstrap: str | None,
    as_json: bool,
) -> None:
    """Move a stopped pipeline to another position: all partitions alike, or single offsets.

    Records in between are processed again, or skipped. Records already written stay. A sink with state (a window,
    a stream-stream join, a deduplication) starts with empty state.

    \b
    Examples:
      ottla pipeline reset flights.toml --to 2013-06-01T00:00:00Z
      ottla pipeline reset flights.toml flights.events:0=120,1=80 --execute
    """
    spec = read_spec(file)
    if bool(places) == (to is not None):
        raise click.UsageError("give --to (earliest, latest or a time) or offsets of partitions")
    chosen = [sink for sink in spec.sinks if not sinks or sink.name in sinks]
    strange = set(sinks) - {sink.name for sink in spec.sinks}
    if strange:
        raise CommandError(f"{file} has no sink {min(strange)!r}", ExitCode.NOT_FOUND)
    where = bootstrap_of(spec, bootstrap)
    rows: list[tuple[str, str, int, int, int]] = []
    try:
        with BlockingClient(where, client_id="ottla-cli") as client:
            # First only a look at each: a sink that cannot be moved keeps the others where they are.
            for doing in (False, True) if execute else (False,):
                rows.clear()
                for sink in chosen:
                    rows += _reset(spec, sink, (to, places), client, where, execute=doing)
    except CheckpointError as error:
        raise CommandError(f"sink {sink.name}: {error}") from error
    names = ["sink", "topic", "partition", "position", "new"]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.upper() for name in names], rows, right=["PARTITION", "POSITION", "NEW"])
    if not execute:
        click.echo("nothing was changed; add --execute to do it", err=True)


def _reset(
    spec: "PipelineSpec",
    sink: "Sink",
    where: tuple[str | None, tuple[str, ...]],
    client: "BlockingClient",
    bootstrap: str,
    *,
    execute: bool,
) -> list[tuple[str, str, int, int, int]]:
    """Move one sink, or first only see how and say what becomes of its state; what came of each partition."""
    from ottla.pipelines.runner.taking import held

    directory = _directory(spec, sink)
    if not (directory / "offsets").is_dir() and not (directory / BEGIN).exists():
        raise CheckpointError("it has not run yet, so there is nothing to reset: set `start` of its sources")
    owner = owner_of(spec, sink, through(spec, sink.name))
    with CheckpointLock(directory, owner), held([directory] if execute else [], client, partial(click.echo, err=True)):
        known, before = batches(directory), positions(directory)
        wanted = _wanted(where, list(before), client)
        # State does not go back with the offsets, and one that was begun anew has no micro-batch yet to be moved.
        if owner.state or not known:
            if not before:
                raise CheckpointError(
                    "its first micro-batch is not complete: run the pipeline once before you reset it"
                )
            require_known(before, wanted)
            new = {**dict.fromkeys(_partitions(spec, sink, client), int(OffsetAt.EARLIEST)), **before, **wanted}
            if execute:
                begin_anew(directory, new, lambda: _release(spec, sink, bootstrap))
            if owner.state and not execute:
                steps = "; ".join(owner.state)
                click.echo(
                    f"sink {sink.name}: its state ({steps}) is discarded and rebuilt from the new position", err=True
                )
        else:
            move, before = plan_move(known, wanted, lambda number: published(spec, sink, bootstrap, directory, number))
            if execute:
                move_checkpoint(directory, move)
    return [(sink.name, *place, before[place], wanted.get(place, before[place])) for place in sorted(before)]


def _release(spec: "PipelineSpec", sink: "Sink", bootstrap: str) -> None:
    """Let the query that begins anew write with the transactional ids of the one before."""
    from pyspark_ottla.sink_state import release

    for each in transactional_ids(spec, sink):
        release(bootstrap, each)


def _wanted(
    where: tuple[str | None, tuple[str, ...]], partitions: "list[TopicPartition]", client: "BlockingClient"
) -> "dict[TopicPartition, int]":
    """Where each partition goes. What lies outside of the log is put to the nearer end of it."""
    to, places = where
    if to is None:
        resets = {TopicPartition(*place): reset for place, reset in parse_positions(places).items()}
    else:
        words = {"earliest": OffsetReset(ResetTo.EARLIEST), "latest": OffsetReset(ResetTo.LATEST)}
        one = words.get(to) or OffsetReset(ResetTo.TIMESTAMP, parse_datetime_ms(to))
        resets = dict.fromkeys(partitions, one)
    starts = client.list_offsets(dict.fromkeys(resets, OffsetAt.EARLIEST))
    ends = client.list_offsets(dict.fromkeys(resets, OffsetAt.LATEST))
    times = {place: each.number for place, each in resets.items() if each.to is ResetTo.TIMESTAMP}
    at_times = client.list_offsets(times) if times else {}
    found = {}
    for place, each in resets.items():
        at = at_times[place].offset if place in at_times else -1
        found[place] = new_offset(each, PartitionNow(starts[place].offset, ends[place].offset, at_time=at)).offset
    return found
