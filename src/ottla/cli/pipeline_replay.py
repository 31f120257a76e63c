"""`ottla pipeline replay` and `diff`: a new version of a pipeline over the past, compared with production."""

import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.committed_reader import committed_reader
from ottla.cli.connection import with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.pipeline_run import BOOTSTRAP, CONF, FILE, MASTER, MEMORY, _view, bootstrap_of, read_spec, settings_of
from ottla.cli.start_position import parse_timestamp
from ottla.client.admin.admin import BROKER_DEFAULT, NewTopic
from ottla.client.blocking import BlockingClient
from ottla.client.consuming.offsets import OffsetAt
from ottla.client.errors import BrokerError
from ottla.model.error_code import ErrorCode
from ottla.model.printable import printable
from ottla.pipelines.replay.difference import Comparison, Difference, Example, Side
from ottla.pipelines.replay.ranges import parse_place, remember, remembered, resolve
from ottla.pipelines.replay.replayed import SUFFIX, ReplayError, ReplayRange, replayed, side_path
from ottla.pipelines.replay.sides import cut_partitions, table_rows, topic_rows
from ottla.pipelines.runner.checkpoint import CheckpointError, directory_of
from ottla.pipelines.session import SparkEndedError, SparkMissingError
from ottla.pipelines.spec.model import Sink, TableSink, TopicSink
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.io.cluster import Cluster
    from ottla.model.topic_partition import TopicPartition
    from ottla.pipelines.spec import PipelineSpec

    Cut = tuple[Side, TopicPartition, int]
    """A partition whose beginning was deleted: of which side, and the offset where it begins now."""

_KINDS = (
    ("only_here", "only in the replay"),
    ("only_there", "only in production"),
    ("different", "different"),
    ("unknown", "missing, may have been deleted by retention"),
)
_COUNTS = ("equal", "different", "only_here", "only_there", "unknown", "rows_here", "rows_there")
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
"""Of the topics that a replay writes to: their records have the times of the past, and would expire at once."""


@click.command("replay")
@FILE
@click.option("--into", "suffix", metavar="SUFFIX", required=True, help="The suffix of the outputs: TOPIC.SUFFIX.")
@click.option("--from", "start", metavar="WHERE", multiple=True, help="The start of the range.  [earliest]")
@click.option("--to", "end", metavar="WHERE", multiple=True, help="The end of the range, exclusive.  [latest]")
@click.option("--promote", is_flag=True, help="Move production's groups to the end of the replay.")
@click.option("--execute", is_flag=True, help="Execute --promote; without it, only show.")
@BOOTSTRAP
@MASTER
@MEMORY
@CONF
@click.option("--json", "as_json", is_flag=True, help="JSON: a line for each micro-batch, or one array with --promote.")
def replay(
    file: Path,
    suffix: str,
    start: tuple[str, ...],
    end: tuple[str, ...],
    promote: bool,
    execute: bool,
    bootstrap: str | None,
    master: str | None,
    memory: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run a pipeline over a past range into separate outputs, beside production.

    Outputs are TOPIC.SUFFIX and PATH.SUFFIX; the replay has its own checkpoints. WHERE is earliest, latest, a time
    (ISO 8601, UTC by default), or TOPIC:PARTITION=OFFSET,... The range is fixed at the first start: a replay that is
    interrupted and run again continues to the same end. Compare with `ottla pipeline diff`. Then stop production and
    use --promote: with `start = "group"` the new version begins where the replay ended.

    \b
    Examples:
      ottla pipeline replay flights.toml --from 2013-06-01 --to 2013-07-01 --into v2
      ottla pipeline replay flights.toml --into v2 --promote --execute
    """
    spec = read_spec(file)
    if execute and not promote:
        raise click.UsageError("--execute is for --promote only: a replay writes to its own outputs")
    if promote and (start or end):
        raise click.UsageError("--promote uses the range of the replay: leave out --from and --to")
    where = bootstrap_of(spec, bootstrap)
    try:
        if promote:
            _promote(spec, suffix, where, execute=execute, as_json=as_json)
            return ExitCode.OK
        return _run(spec, suffix, (start, end), where, (master, memory, settings_of(conf)), as_json=as_json)
    except (ReplayError, CheckpointError) as error:
        raise CommandError(str(error)) from error


def _run(
    spec: "PipelineSpec",
    suffix: str,
    places: tuple[tuple[str, ...], tuple[str, ...]],
    bootstrap: str,
    driver: tuple[str | None, str, dict[str, str]],
    *,
    as_json: bool,
) -> int:
    from ottla.pipelines.runner.running import RunOptions, run_pipelines

    ranges = _ranges(spec, suffix, places, bootstrap)
    side = replayed(spec, ranges, suffix)
    _create_topics(spec, side, bootstrap)
    options = RunOptions({side.name: bootstrap}, True, *driver)
    try:
        outcome = run_pipelines([side], options, _view(as_json=as_json))
    except (SparkEndedError, SparkMissingError) as error:
        raise CommandError(str(error)) from error
    if outcome.signal is not None:
        return ExitCode.TERMINATED if outcome.signal == signal.SIGTERM else ExitCode.INTERRUPTED
    if outcome.failed:
        name, failure = outcome.failed[0]
        raise CommandError(f"the replay failed: {name}: {failure.reason}")
    if not as_json:
        click.echo(f"replayed; compare with: ottla pipeline diff FILE --side {suffix}")
    return ExitCode.OK


def _ranges(
    spec: "PipelineSpec", suffix: str, places: tuple[tuple[str, ...], tuple[str, ...]], bootstrap: str
) -> "Mapping[str, ReplayRange]":
    """The range of a replay: what was given, or what it began with."""
    if not SUFFIX.fullmatch(suffix):
        replayed(spec, {}, suffix)  # raises, with what is wrong
    directory = _directory(spec, suffix)
    known = remembered(directory)
    if known is not None:
        if any(places):
            raise ReplayError(
                f"the replay {suffix} already has a range, which cannot change: leave out --from and --to to continue"
                " it, or choose another name with --into"
            )
        return known
    start, end = (
        parse_place(texts, at) for texts, at in zip(places, (OffsetAt.EARLIEST, OffsetAt.LATEST), strict=True)
    )
    with BlockingClient(bootstrap, client_id="ottla-cli") as client:
        ranges = resolve(spec, start, end, client)
    remember(directory, ranges)
    return ranges


def _directory(spec: "PipelineSpec", suffix: str) -> Path:
    checkpoints = spec.path(spec.checkpoints)
    if "://" in checkpoints:
        raise CommandError(
            f"the checkpoints of {spec.name} are at {checkpoints}: a replay needs checkpoints in a local directory"
        )
    return Path(checkpoints) / f"{spec.name}-{suffix}"


def _create_topics(spec: "PipelineSpec", side: "PipelineSpec", bootstrap: str) -> None:
    """The topics that the replay writes to, with the partitions and settings of production, but that nothing expires.

    One that is there already is left as it is; a line says so when its records may expire.
    """
    with BlockingClient(bootstrap, client_id="ottla-cli") as client:
        there = client.topics()
        for before, after in zip(_topics(spec), _topics(side), strict=True):
            count = replicas = BROKER_DEFAULT
            settings: dict[str, str] = {}
            if before in there:
                partitions = there[before].partitions
                count, replicas = len(partitions), max(len(each.replicas) for each in partitions)
                own = client.topic_settings(before)
                settings = {name: value for name, value in own.items() if "throttled" not in name}
            try:
                client.create_topic(NewTopic(after, count, replicas, settings | _KEPT))
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                _warn_of_retention(after, client.topic_settings(after))


def _warn_of_retention(topic: str, settings: "Mapping[str, str]") -> None:
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return
    finite = [
        name for name, kept in _KEPT.items() if settings.get(name, "" if name == "retention.ms" else kept) != kept
    ]
    if finite:
        click.echo(
            f"warning: topic {topic} already exists and its {finite[0]} is not -1: old records may expire before"
            f" they are compared; `ottla topic alter {topic} --config {finite[0]}=-1` keeps them",
            err=True,
        )


def _topics(spec: "PipelineSpec") -> list[str]:
    letters = [spec.dead_letters.topic] if spec.dead_letters is not None else []
    return [*(sink.topic for sink in spec.sinks if isinstance(sink, TopicSink)), *letters]


def _promote(spec: "PipelineSpec", suffix: str, bootstrap: str, *, execute: bool, as_json: bool) -> None:
    from ottla.pipelines.replay.promotion import promotions
    from ottla.pipelines.runner.taking import held

    ranges = remembered(_directory(spec, suffix))
    if ranges is None:
        raise CommandError(f"there is no replay {suffix} of {spec.name}", ExitCode.NOT_FOUND)
    rows = []
    side = replayed(spec, ranges, suffix)
    used = [Path(directory_of(each, sink)) for each in (spec, side) for sink in each.sinks] if execute else []
    with (
        BlockingClient(bootstrap, client_id="ottla-cli") as client,
        held(used, client, partial(click.echo, err=True)),
    ):
        for each in promotions(spec, side, ranges):
            before = client.committed_offsets(each.group, each.offsets)
            for place, offset in sorted(each.offsets.items()):
                rows.append((each.group, *place, before[place].offset if place in before else None, offset))
            if execute:
                client.commit_offsets(each.group, each.offsets)
    names = ["group", "topic", "partition", "position", "new"]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.upper() for name in names], rows, right=["PARTITION", "POSITION", "NEW"])
    if not execute:
        click.echo("nothing was changed; add --execute to do it", err=True)


@click.command("diff")
@FILE
@click.option("--side", "suffix", metavar="SUFFIX", required=True, help="The replay to compare with production.")
@click.option(
    "--key",
    "keys",
    metavar="[SINK:]COLUMN,...",
    multiple=True,
    help="The key columns, of all sinks or of one; repeatable.  [for topics: the record key]",
)
@click.option("--sink", "sinks", metavar="NAME", multiple=True, help="Only this sink; repeatable.")
@click.option("--newest", is_flag=True, help="Compare only the last record of each key, for topics of updates.")
@click.option("--since", metavar="TIME", help="In production's topics only records from this time on.")
@click.option("--until", metavar="TIME", help="In production's topics only records before this time.")
@click.option(
    "-n",
    "--examples",
    type=click.IntRange(0, 10_000),
    default=5,
    show_default=True,
    help="The number of examples of each kind.",
)
@BOOTSTRAP
@click.option("--json", "as_json", is_flag=True, help="A JSON array of sinks.")
def diff(
    file: Path,
    suffix: str,
    keys: tuple[str, ...],
    sinks: tuple[str, ...],
    newest: bool,
    since: str | None,
    until: str | None,
    examples: int,
    bootstrap: str | None,
    as_json: bool,
) -> int:
    """Compare the outputs of a replay (here) and of production (there), key by key.

    All rows of a key are compared, in any order. The exit code is 1 when anything differs. Spark is not needed. If the
    beginning of a topic was deleted (retention), keys that are missing there are UNKNOWN, not different.

    \b
    Example:
      ottla pipeline diff flights.toml --side v2 --key carrier,window_start
      ottla pipeline diff flights.toml --side v2 --key lake:flight,scheduled_at
    """
    spec = read_spec(file)
    chosen = [sink for sink in spec.sinks if not sinks or sink.name in sinks]
    strange = set(sinks) - {sink.name for sink in spec.sinks}
    if strange:
        raise CommandError(f"{file} has no sink {min(strange)!r}", ExitCode.NOT_FOUND)
    columns = _key_columns(keys, [sink.name for sink in spec.sinks])
    times = (_time(since), _time(until))
    where = bootstrap_of(spec, bootstrap)
    found: list[tuple[Sink, Difference, list[Cut]]] = []
    for sink in chosen:
        with (
            tempfile.TemporaryDirectory(prefix="ottla-diff-", ignore_cleanup_errors=True) as scratch,
            Comparison(Path(scratch), newest=newest, examples_max=examples) as comparison,
        ):
            try:
                cuts = _fill(comparison, spec, sink, suffix, columns.get(sink.name, columns[None]), times, where)
            except ReplayError as error:
                raise CommandError(f"sink {sink.name}: {error}") from error
            found.append((sink, comparison.compare(), cuts))
    if as_json:
        print_json([_document(*each) for each in found])
    else:
        _show(found)
    return ExitCode.OK if all(each.is_empty for _, each, _ in found) else ExitCode.FAILED


def _key_columns(keys: tuple[str, ...], sinks: list[str]) -> dict[str | None, list[str]]:
    """The columns of a key by sink; by None of those that have none of their own."""
    found: dict[str | None, list[str]] = {}
    for key in keys:
        name, colon, rest = key.partition(":")
        sink, text = (name, rest) if colon and name in sinks else (None, key)
        if sink in found:
            raise click.UsageError(f"--key {key}: {f'sink {sink} already has' if sink else 'there is already'} one")
        found[sink] = [column.strip() for column in text.split(",")]
    return {None: [], **found}


def _fill(
    comparison: "Comparison",
    spec: "PipelineSpec",
    sink: "Sink",
    suffix: str,
    key: list[str],
    times: tuple[int | None, int | None],
    bootstrap: str,
) -> "list[Cut]":
    """Both sides of a sink: here is the replay, there is production; and which partitions of a topic were cut."""
    if isinstance(sink, TableSink):
        for rows in table_rows(sink, spec.path(side_path(sink.path, suffix)), key):
            comparison.add("here", rows)
        for rows in table_rows(sink, spec.path(sink.path), key):
            comparison.add("there", rows)
        return []
    topic = sink.topic
    since_ms, until_ms = times
    cuts: list[Cut] = []

    async def action(cluster: "Cluster") -> None:
        del cluster
        async with committed_reader(bootstrap) as consumer:
            # Looked at first: what is deleted while it is read is missing in it, and fails the reading.
            sides: list[tuple[Side, str, int | None]]
            sides = [("here", f"{topic}.{suffix}", None), ("there", topic, since_ms)]
            for side, name, since in sides:
                for place, start in sorted((await cut_partitions(consumer, name, since_ms=since)).items()):
                    comparison.cut(side)
                    cuts.append((side, place, start))
            async for rows in topic_rows(consumer, f"{topic}.{suffix}", key):
                comparison.add("here", rows)
            async for rows in topic_rows(consumer, topic, key, since_ms=since_ms, until_ms=until_ms):
                comparison.add("there", rows)

    with_cluster(bootstrap, action)
    return cuts


def _show(found: "list[tuple[Sink, Difference, list[Cut]]]") -> None:
    columns = ["SINK", "EQUAL", "DIFFERENT", "ONLY HERE", "ONLY THERE", "UNKNOWN", "ROWS HERE", "ROWS THERE"]
    rows = [(sink.name, *(getattr(each, name) for name in _COUNTS)) for sink, each, _ in found]
    print_table(columns, rows, right=columns[1:])
    for sink, each, cuts in found:
        for side, place, start in cuts:
            whose = "the replay" if side == "here" else "production"
            click.echo(
                f"{sink.name}: {place} ({whose}) begins at offset {start}: earlier records were deleted (retention or"
                " DeleteRecords), so missing keys may have been among them"
            )
        for kind, words in _KINDS:
            for example in each.examples[kind]:
                click.echo(f"{sink.name}, {words}: {_text(example.key)}")
                if kind == "different":
                    click.echo(f"  here   {_text(example.here)}")
                    click.echo(f"  there  {_text(example.there)}")


def _document(sink: "Sink", each: "Difference", cuts: "list[Cut]") -> dict[str, Any]:
    return {
        "sink": sink.name,
        **{name: getattr(each, name) for name in _COUNTS},
        "cut": [
            {"side": side, "topic": place.topic, "partition": place.partition, "begins": start}
            for side, place, start in cuts
        ],
        "examples": {kind: [_example(example) for example in each.examples[kind]] for kind, _ in _KINDS},
    }


def _example(example: "Example") -> dict[str, str | None]:
    return {
        name: None if value is None else value.decode("utf-8", "backslashreplace")
        for name, value in (("key", example.key), ("here", example.here), ("there", example.there))
    }


def _text(content: bytes | None) -> str:
    return "(none, or null)" if content is None else printable(content.decode("utf-8", "backslashreplace"))


def _time(text: str | None) -> int | None:
    return None if text is None else parse_timestamp(text, SystemClock())
