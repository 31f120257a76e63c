"""`ottla archive`: topics as Parquet files with a manifest; verified, queried, and restored at equal offsets."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.client_properties import Kind, bootstrap_of, options_of
from ottla.cli.connection import CLIENT_ID, bootstrap_option
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.client.blocking import BlockingClient
from ottla.model.printable import printable
from ottla.pipelines.archive import compacting, restoring, running, verification
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.checkpoints import read_up_to
from ottla.pipelines.archive.manifest import ArchivedTopic, ArchiveError
from ottla.pipelines.archive.sql import query
from ottla.pipelines.runner.checkpoint import CheckpointError
from ottla.runtime.clock import SystemClock

if TYPE_CHECKING:
    from ottla.model.topic_partition import TopicPartition
    from ottla.pipelines.archive.restoring import Restored
    from ottla.pipelines.archive.running import PartitionRun

_archive = click.argument("directory", metavar="ARCHIVE")
_topics = click.argument("topics", metavar="[TOPIC]...", nargs=-1)


@click.group()
def archive() -> None:
    """Archive topics as Parquet files, incrementally; verify, query and restore them."""


@archive.command("run")
@bootstrap_option
@_archive
@_topics
@click.option(
    "--file-bytes", type=click.IntRange(1), default=128 << 20, show_default=True, help="The approximate size of a file."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def run(bootstrap: str, directory: str, topics: tuple[str, ...], file_bytes: int, as_json: bool) -> None:
    """Archive topics, from the end of the archive to the last stable offset.  [all topics that are not internal]

    Records of aborted transactions are left out; those of open ones wait for the next run. Records that expired before
    they were archived are counted as lost. You can kill the command at any time: the next run continues.

    \b
    Examples:
      ottla archive run /backup/flights
      ottla archive run /backup/flights flights.events flights.airlines
    """
    with _errors(), _client(bootstrap) as client:
        found = Archive.open_or_create(directory, client.cluster().cluster_id)
        with found.locked():
            done = running.run(found, client, topics, SystemClock(), file_bytes=file_bytes)
    rows = [_run_row(each) for each in done]
    if as_json:
        print_json(rows)
        return
    columns = ["TOPIC", "PARTITION", "FROM", "TO", "RECORDS", "LOST"]
    print_table(columns, [tuple(each.values()) for each in rows], right=columns[1:])


@archive.command("list")
@_archive
@_topics
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def list_(directory: str, topics: tuple[str, ...], as_json: bool) -> None:
    """Show what is archived. MISSING offsets have no record in the log; LOST ones expired before they were archived."""
    with _errors():
        rows = [
            {
                "topic": topic.name,
                "partition": each.partition,
                "start": each.start,
                "end": each.end,
                "records": each.rows,
                "missing": each.end - each.start - each.rows - each.lost,
                "lost": each.lost,
                "files": len(each.files),
                "bytes": sum(file.bytes for file in each.files),
                "oldest": _time(min((file.min_timestamp_ms or 0 for file in each.files), default=None)),
                "newest": _time(max((file.max_timestamp_ms or 0 for file in each.files), default=None)),
            }
            for topic in _open(directory).selected(topics)
            for each in topic.partitions
        ]
    if as_json:
        print_json(rows)
        return
    columns = ["TOPIC", "PARTITION", "START", "END", "RECORDS", "MISSING", "LOST", "FILES", "BYTES", "OLDEST", "NEWEST"]
    print_table(columns, [tuple(each.values()) for each in rows], right=columns[1:9])


@archive.command("verify")
@_archive
@_topics
@click.option("--json", "as_json", is_flag=True, help="A JSON array of partitions.")
def verify(directory: str, topics: tuple[str, ...], as_json: bool) -> None:
    """Read everything and check checksums, offsets and records. The exit code is 1 when something is damaged."""
    with _errors():
        found = _open(directory)
        done = list(verification.verify(found, found.selected(topics)))
    damaged = sum(bool(each.damage) for each in done)
    if as_json:
        print_json([{name: getattr(each, name) for name in each.__struct_fields__} for each in done])
    for each in [] if as_json else done:
        click.echo(
            f"{each.topic}-{each.partition}: {'DAMAGED' if each.damage else 'sound'}, offsets {each.start} to "
            f"{each.end}, {each.rows} records, {each.files} files, {each.bytes} bytes"
        )
        for line in each.damage:
            click.echo(printable(f"  damage  {line}"))
    if damaged:
        raise CommandError(f"{directory}: {damaged} of {len(done)} partitions are damaged")


@archive.command("restore")
@_archive
@_topics
@click.option(
    "--data",
    "target",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="The new data directory; it must be empty or not exist.",
)
@click.option(
    "--keep", is_flag=True, help="Disable retention for the restored topics (retention.ms and retention.bytes are -1)."
)
@click.option(
    "--checkpoints",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Checkpoints of pipelines or streams that are to continue; repeatable.",
)
@click.option(
    "--no-verify", is_flag=True, help="Do not read the restored records back; the archive is verified all the same."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics.")
def restore(
    directory: str,
    topics: tuple[str, ...],
    target: Path,
    keep: bool,
    checkpoints: tuple[Path, ...],
    no_verify: bool,
    as_json: bool,
) -> None:
    """Create a data directory from an archive, with the same offsets, settings and committed offsets of groups.

    The archive is verified first. At the end every record is read back from the restored log and compared with the
    archive; if one differs, the exit code is 1, and DIR is not created.

    Start the broker with `ottla serve --data DIR`. Records keep their timestamps, so those older than a topic's
    retention.ms expire soon after the start, unless you give --keep.

    Topics keep their ids, so pipelines and streams continue from their checkpoints. Name the checkpoints with
    --checkpoints: all below DIR are checked, and each log ends no earlier than its checkpoints. BEYOND counts offsets
    that they had read after the last archive run.

    \b
    Examples:
      ottla archive restore /backup/flights --data /srv/ottla --checkpoints /srv/pipelines/checkpoints
      ottla archive restore /backup/flights flights.events --data /tmp/look --keep
    """
    with _errors():
        found = _open(directory)
        chosen = found.selected(topics)
        read = _read_up_to(chosen, checkpoints)
        try:
            done = restoring.restore(
                found, chosen, target, restoring.broker_on, keep=keep, read_back=not no_verify, read=read
            )
        except restoring.RestoreDiffersError as error:
            _print_restored(error.restored, as_json)
            raise
    _print_restored(done, as_json)
    if not as_json:
        click.echo(f"restored: start it with `ottla serve --data {target}`")


def _print_restored(done: "Sequence[Restored]", as_json: bool) -> None:
    if as_json:
        print_json([_restored_row(each) for each in done])
        return
    columns = ["TOPIC", "PARTITIONS", "RECORDS", "BEYOND"]
    print_table(columns, [(each.topic, each.partitions, each.rows, each.beyond) for each in done], right=columns[1:])
    for each in (partition for topic in done for partition in topic.compared or ()):
        click.echo(
            f"{each.topic}-{each.partition}: {'equal' if each.difference is None else 'DIFFERENT'}, offsets "
            f"{each.start} to {each.end}, {each.records} records read back"
        )
        if each.difference is not None:
            click.echo(printable(f"  difference  {each.difference}"))


@archive.command("compact")
@_archive
@_topics
@click.option(
    "--target-bytes", type=click.IntRange(1), default=128 << 20, show_default=True, help="The maximum size of a file."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of topics.")
def compact(directory: str, topics: tuple[str, ...], target_bytes: int, as_json: bool) -> None:
    """Merge small files into large ones. Offsets and records do not change; old files are kept for an hour."""
    with _errors():
        found = _open(directory)
        with found.locked():
            done = compacting.compact(found, found.selected(topics), target_bytes, SystemClock())
    rows = [{"topic": each.topic, "replaced": each.replaced, "made": each.made} for each in done]
    if as_json:
        print_json(rows)
        return
    columns = ["TOPIC", "REPLACED", "MADE"]
    print_table(columns, [tuple(each.values()) for each in rows], right=columns[1:])


@archive.command("sql")
@_archive
@click.argument("statement", metavar="SQL")
@click.option("--json", "as_json", is_flag=True, help="A JSON object for each row, one a line.")
def sql(directory: str, statement: str, as_json: bool) -> None:
    """Query the archive with SQL (DuckDB). Each topic is a view of the same name.

    Columns: key, value, topic, partition, offset, timestamp, timestampType, headers. Keys and values are bytes;
    decode() converts them to text. SQL keywords need quotes: "offset", "partition", "timestamp".

    \b
    Examples:
      ottla archive sql /backup/flights 'select count(*) from "flights.events"'
      ottla archive sql /backup/flights "select decode(value)->>'carrier' as carrier, count(*)
          from \\"flights.events\\" where timestamp >= '2013-06-01' group by 1"
    """
    with _errors():
        found = _open(directory)
        answer = query(found, found.topics(), statement)
        if as_json:
            for row in answer.rows:
                document = dict(_json_cell(*cell) for cell in zip(answer.columns, row, strict=True))
                click.echo(json.dumps(document, ensure_ascii=False, default=_json_value))
            return
        print_table([str(name) for name in answer.columns], [[_cell(cell) for cell in row] for row in answer.rows])


def _read_up_to(topics: "Sequence[ArchivedTopic]", directories: tuple[Path, ...]) -> "dict[TopicPartition, int]":
    try:
        return read_up_to(topics, directories)
    except CheckpointError as error:
        raise CommandError(str(error)) from error


def _open(directory: str) -> "Archive":
    return Archive.open(directory)


@contextmanager
def _errors() -> Iterator[None]:
    """What an archive says becomes what the command says."""
    try:
        yield
    except ArchiveError as error:
        raise CommandError(str(error)) from error
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise CommandError("archives need pyarrow: pip install 'ottla[archive]'", ExitCode.USAGE) from error


@contextmanager
def _client(bootstrap: str) -> "Iterator[BlockingClient]":
    where = bootstrap_of(click.get_current_context(silent=True), bootstrap)
    with BlockingClient(where, **{"client_id": CLIENT_ID, **options_of(Kind.ANY)}) as client:
        yield client


def _run_row(each: "PartitionRun") -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "from": each.start,
        "to": each.end,
        "records": each.rows,
        "lost": each.lost,
    }


def _restored_row(each: "Restored") -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partitions": each.partitions,
        "records": each.rows,
        "beyond": each.beyond,
        "verified": None
        if each.compared is None
        else [
            {name: getattr(partition, name) for name in ("partition", "start", "end", "records", "difference")}
            for partition in each.compared
        ],
    }


def _time(timestamp_ms: int | None) -> str | None:
    if timestamp_ms is None:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return str(timestamp_ms)


def _cell(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        value = _text(bytes(value)) or f"0x{value.hex()}"
    if isinstance(value, datetime):
        value = value.isoformat()
    return printable(str(value)) if value is not None else None


def _json_cell(name: str, value: object) -> tuple[str, object]:
    """Bytes that are not UTF-8 come as base64, under another name, as `ottla consume --json` writes them."""
    if isinstance(value, bytes | bytearray) and (value and _text(bytes(value)) is None):
        return f"{name}_base64", base64.b64encode(value).decode()
    return name, value


def _json_value(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
