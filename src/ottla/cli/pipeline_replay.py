"""`ottla pipeline replay` and `diff`: a new version of a pipeline over the past, compared with production."""

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.connection import with_cluster
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.pipeline_run import BOOTSTRAP, CONF, FILE, MASTER, MEMORY, bootstrap_of, read_spec, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster import Cluster
    from ottla.pipelines.replay.difference import Comparison, Difference, Example
    from ottla.pipelines.replay.replayed import ReplayRange
    from ottla.pipelines.spec import PipelineSpec
    from ottla.pipelines.spec.model import Sink

_KINDS = (("only_here", "only in the replay"), ("only_there", "only in production"), ("different", "different"))


@click.command("replay")
@FILE
@click.option("--into", "suffix", metavar="SUFFIX", required=True, help="What the outputs are called: TOPIC.SUFFIX.")
@click.option("--from", "start", metavar="WHERE", multiple=True, help="Where it begins.  [earliest]")
@click.option("--to", "end", metavar="WHERE", multiple=True, help="Where it ends, not included.  [latest]")
@click.option("--promote", is_flag=True, help="After it: move the positions of production's groups to its end.")
@click.option("--execute", is_flag=True, help="With --promote: do it; without, show what would be done.")
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
    """Run a pipeline over a range of the past into outputs of its own, beside production.

    Topics are called TOPIC.SUFFIX, tables PATH.SUFFIX; it has checkpoints of its own. WHERE is earliest, latest, a time
    (ISO 8601, UTC if not said), or TOPIC:PARTITION=OFFSET,... The range is fixed when it first begins: interrupted and
    run again, it goes on to the same end. Compare with `ottla pipeline diff`, then --promote: stop production, and the
    new version begins where the replay ended with `start = "group"`.

    \b
    Examples:
      ottla pipeline replay flights.toml --from 2013-06-01 --to 2013-07-01 --into v2
      ottla pipeline replay flights.toml --into v2 --promote --execute
    """
    spec = read_spec(file)
    if execute and not promote:
        raise click.UsageError("--execute belongs to --promote: a replay writes to outputs of its own")
    if promote and (start or end):
        raise click.UsageError("--promote takes the range of the replay: leave out --from and --to")
    where = bootstrap_of(spec, bootstrap)
    from ottla.pipelines.replay.replayed import ReplayError
    from ottla.pipelines.runner.checkpoint import CheckpointError

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
    from ottla.cli.pipeline_run import _view
    from ottla.pipelines.replay.replayed import replayed
    from ottla.pipelines.runner.running import RunOptions, run_pipelines
    from ottla.pipelines.session import SparkEndedError, SparkMissingError

    ranges = _ranges(spec, suffix, places, bootstrap)
    side = replayed(spec, ranges, suffix)
    _create_topics(spec, side, bootstrap)
    options = RunOptions({side.name: bootstrap}, True, *driver)
    try:
        outcome = run_pipelines([side], options, _view(as_json=as_json))
    except (SparkEndedError, SparkMissingError) as error:
        raise CommandError(str(error)) from error
    if outcome.signal is not None:
        import signal

        return ExitCode.TERMINATED if outcome.signal == signal.SIGTERM else ExitCode.INTERRUPTED
    if outcome.failed:
        name, failure = outcome.failed[0]
        raise CommandError(f"the replay stopped for good: {name}: {failure.reason}")
    if not as_json:
        click.echo(f"replayed; compare with: ottla pipeline diff FILE --side {suffix}")
    return ExitCode.OK


def _ranges(
    spec: "PipelineSpec", suffix: str, places: tuple[tuple[str, ...], tuple[str, ...]], bootstrap: str
) -> "Mapping[str, ReplayRange]":
    """The range of a replay: what was given, or what it began with."""
    from ottla.client.blocking import BlockingClient
    from ottla.client.offsets import OffsetAt
    from ottla.pipelines.replay.ranges import parse_place, remember, remembered, resolve
    from ottla.pipelines.replay.replayed import SUFFIX, ReplayError, replayed

    if not SUFFIX.fullmatch(suffix):
        replayed(spec, {}, suffix)  # raises, with what is wrong
    directory = _directory(spec, suffix)
    known = remembered(directory)
    if known is not None:
        if any(places):
            raise ReplayError(
                f"the replay {suffix} was begun with a range, which it keeps: leave out --from and --to to go on, or"
                " take another name with --into"
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
        raise CommandError(f"the checkpoints of {spec.name} are at {checkpoints}: a replay needs a directory")
    return Path(checkpoints) / f"{spec.name}-{suffix}"


def _create_topics(spec: "PipelineSpec", side: "PipelineSpec", bootstrap: str) -> None:
    """The topics that the replay writes to, with as many partitions as those of production."""
    from ottla.client.admin import BROKER_DEFAULT, NewTopic
    from ottla.client.blocking import BlockingClient
    from ottla.client.errors import BrokerError
    from ottla.model.error_code import ErrorCode

    with BlockingClient(bootstrap, client_id="ottla-cli") as client:
        there = client.topics()
        for before, after in zip(_topics(spec), _topics(side), strict=True):
            count = len(there[before].partitions) if before in there else BROKER_DEFAULT
            try:
                client.create_topic(NewTopic(after, partitions=count))
            except BrokerError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise


def _topics(spec: "PipelineSpec") -> list[str]:
    from ottla.pipelines.spec.model import TopicSink

    letters = [spec.dead_letters.topic] if spec.dead_letters is not None else []
    return [*(sink.topic for sink in spec.sinks if isinstance(sink, TopicSink)), *letters]


def _promote(spec: "PipelineSpec", suffix: str, bootstrap: str, *, execute: bool, as_json: bool) -> None:
    from ottla.client.blocking import BlockingClient
    from ottla.pipelines.replay.promotion import promotions
    from ottla.pipelines.replay.ranges import remembered
    from ottla.pipelines.replay.replayed import replayed
    from ottla.pipelines.runner.checkpoint import directory_of
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
        click.echo("nothing was changed: --execute does it", err=True)


@click.command("diff")
@FILE
@click.option("--side", "suffix", metavar="SUFFIX", required=True, help="The replay to compare with production.")
@click.option("--key", metavar="COLUMN,...", help="What tells rows apart.  [of topics the key of the record]")
@click.option("--sink", "sinks", metavar="NAME", multiple=True, help="Only this sink; repeatable.")
@click.option("--newest", is_flag=True, help="Compare the last record of each key only, as of a topic of updates.")
@click.option("--since", metavar="TIME", help="Of production's topics only records of then or later.")
@click.option("--until", metavar="TIME", help="Of production's topics only records of before then.")
@click.option("-n", "--examples", type=click.IntRange(0, 10_000), default=5, show_default=True, help="Of each kind.")
@BOOTSTRAP
@click.option("--json", "as_json", is_flag=True, help="A JSON array of sinks.")
def diff(
    file: Path,
    suffix: str,
    key: str | None,
    sinks: tuple[str, ...],
    newest: bool,
    since: str | None,
    until: str | None,
    examples: int,
    bootstrap: str | None,
    as_json: bool,
) -> int:
    """Compare what a replay wrote with what production wrote, key by key: only here, only there, different.

    All rows of a key are compared, in any order; the exit code is 1 when anything differs. Spark is not needed.

    \b
    Example:
      ottla pipeline diff flights.toml --side v2 --key carrier,window_start
    """
    spec = read_spec(file)
    chosen = [sink for sink in spec.sinks if not sinks or sink.name in sinks]
    strange = set(sinks) - {sink.name for sink in spec.sinks}
    if strange:
        raise CommandError(f"{file}: there is no sink {min(strange)!r}", ExitCode.NOT_FOUND)
    columns = [name.strip() for name in key.split(",")] if key is not None else []
    times = (_time(since), _time(until))
    where = bootstrap_of(spec, bootstrap)
    from ottla.pipelines.replay.difference import Comparison
    from ottla.pipelines.replay.replayed import ReplayError

    found: list[tuple[Sink, Difference]] = []
    for sink in chosen:
        with (
            tempfile.TemporaryDirectory(prefix="ottla-diff-", ignore_cleanup_errors=True) as scratch,
            Comparison(Path(scratch), newest=newest, examples_max=examples) as comparison,
        ):
            try:
                _fill(comparison, spec, sink, suffix, columns, times, where)
            except ReplayError as error:
                raise CommandError(f"sink {sink.name}: {error}") from error
            found.append((sink, comparison.compare()))
    if as_json:
        print_json([_document(sink, each) for sink, each in found])
    else:
        _show(found)
    return ExitCode.OK if all(each.is_empty for _, each in found) else ExitCode.FAILED


def _fill(
    comparison: "Comparison",
    spec: "PipelineSpec",
    sink: "Sink",
    suffix: str,
    key: list[str],
    times: tuple[int | None, int | None],
    bootstrap: str,
) -> None:
    """Both sides of a sink: here is the replay, there is production."""
    from ottla.pipelines.replay.replayed import side_path
    from ottla.pipelines.replay.sides import table_rows, topic_rows
    from ottla.pipelines.spec.model import TableSink

    if isinstance(sink, TableSink):
        for rows in table_rows(sink, spec.path(side_path(sink.path, suffix)), key):
            comparison.add("here", rows)
        for rows in table_rows(sink, spec.path(sink.path), key):
            comparison.add("there", rows)
        return
    topic = sink.topic
    since_ms, until_ms = times

    async def action(cluster: "Cluster") -> None:
        from ottla.cli.dlq import reader

        del cluster
        async with reader(bootstrap) as consumer:
            async for rows in topic_rows(consumer, f"{topic}.{suffix}", key):
                comparison.add("here", rows)
            async for rows in topic_rows(consumer, topic, key, since_ms=since_ms, until_ms=until_ms):
                comparison.add("there", rows)

    with_cluster(bootstrap, action)


def _show(found: "list[tuple[Sink, Difference]]") -> None:
    columns = ["SINK", "EQUAL", "DIFFERENT", "ONLY HERE", "ONLY THERE", "ROWS HERE", "ROWS THERE"]
    rows = [
        (sink.name, each.equal, each.different, each.only_here, each.only_there, each.rows_here, each.rows_there)
        for sink, each in found
    ]
    print_table(columns, rows, right=columns[1:])
    for sink, each in found:
        for kind, words in _KINDS:
            for example in each.examples[kind]:
                click.echo(f"{sink.name}, {words}: {_text(example.key)}")
                if kind == "different":
                    click.echo(f"  here   {_text(example.here)}")
                    click.echo(f"  there  {_text(example.there)}")


def _document(sink: "Sink", each: "Difference") -> dict[str, Any]:
    counts = ("equal", "different", "only_here", "only_there", "rows_here", "rows_there")
    return {
        "sink": sink.name,
        **{name: getattr(each, name) for name in counts},
        "examples": {kind: [_example(example) for example in each.examples[kind]] for kind, _ in _KINDS},
    }


def _example(example: "Example") -> dict[str, str | None]:
    return {
        name: None if value is None else value.decode("utf-8", "backslashreplace")
        for name, value in (("key", example.key), ("here", example.here), ("there", example.there))
    }


def _text(content: bytes | None) -> str:
    from ottla.model.printable import printable

    return "(none, or null)" if content is None else printable(content.decode("utf-8", "backslashreplace"))


def _time(text: str | None) -> int | None:
    from ottla.cli.start_position import parse_timestamp
    from ottla.runtime.clock import SystemClock

    return None if text is None else parse_timestamp(text, SystemClock())
