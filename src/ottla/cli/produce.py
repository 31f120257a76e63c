"""`ottla produce`: write records to a topic."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
from msgspec import Struct

from ottla.cli.client_properties import Kind, over_options
from ottla.cli.connection import bootstrap_option, client_options, run_until_done
from ottla.cli.created_topic import tell_if_created
from ottla.cli.escapes import unescape
from ottla.cli.failure import CommandError
from ottla.cli.progress import Progress
from ottla.cli.record_input import InputRecord, LineSplitter, ParseLine, parse_json, parse_text
from ottla.cli.waiting import saying_what_is_waited_for
from ottla.client.producing.produce import Acks
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.runtime.tasks import Tasks

if TYPE_CHECKING:
    from ottla.model.topic_partition import TopicPartition

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_CONNECTED_WITHIN_MS = 1_000
"""How long a connection may take to be made, however little time a record has."""
_CHUNK_BYTES = 256 * 1024
_BATCH_BYTES = 256 * 1024
_BUFFER_BYTES = 32 * 1024 * 1024


class _Input(Struct, frozen=True):
    """How to read the input, and what every record gets."""

    files: tuple[Path, ...]
    parse: ParseLine
    delimiter: bytes
    whole_files: bool
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None


@click.command("produce")
@bootstrap_option
@click.argument("topic")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("-K", "--key-delimiter", metavar="TEXT", help="A line is KEY TEXT VALUE; a line without TEXT has no key.")
@click.option("-k", "--key", metavar="KEY", help="The key of records without one.")
@click.option(
    "-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record; repeatable."
)
@click.option("-p", "--partition", type=click.IntRange(0), help="The partition of every record.  [by key, or spread]")
@click.option("-D", "--delimiter", metavar="TEXT", default="\\n", show_default=True, help="The record delimiter.")
@click.option(
    "-Z", "--tombstones", is_flag=True, help="Send empty values as null; in a compacted topic this deletes the key."
)
@click.option(
    "-J", "--json", "as_json", is_flag=True, help="Lines are JSON objects, as `ottla consume --json` writes them."
)
@click.option("--whole-files", is_flag=True, help="Each file is one record.")
@click.option(
    "-z", "--compression", type=click.Choice(_CODECS), default="none", show_default=True, help="The compression codec."
)
@click.option(
    "-a", "--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True, help="Required acknowledgements."
)
@click.option(
    "--linger-ms", type=click.IntRange(0), default=5, show_default=True, help="How long a batch waits for more records."
)
@click.option(
    "--max-request-bytes",
    type=click.IntRange(1024),
    default=1 << 20,
    show_default=True,
    help="The maximum size of a request.",
)
@click.option(
    "--timeout-ms", type=click.IntRange(1), default=120_000, show_default=True, help="The delivery timeout of a record."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def produce(
    bootstrap: str,
    topic: str,
    files: tuple[Path, ...],
    key_delimiter: str | None,
    key: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    delimiter: str,
    tombstones: bool,
    as_json: bool,
    whole_files: bool,
    compression: str,
    acks: str,
    linger_ms: int,
    max_request_bytes: int,
    timeout_ms: int,
    quiet: bool,
) -> None:
    """Write records to a topic, one a line, from standard input or files ("-" is standard input).

    Each record is appended exactly once, in order; otherwise the command names it and fails. In TEXT the escapes
    \\t \\n \\0 \\xNN are understood.
    \b
    Examples:
      echo hello | ottla produce events
      ottla produce events -K : users.txt
      ottla consume events --json -e | ottla produce copy --json
    """
    if as_json and (key_delimiter is not None or tombstones):
        raise click.UsageError(
            "JSON records have their own keys and nulls: leave out --key-delimiter and --tombstones with --json"
        )
    if whole_files and (as_json or key_delimiter is not None or not files):
        raise click.UsageError("--whole-files needs files, and does not work with --json or --key-delimiter")
    if not delimiter or key_delimiter == "":
        raise click.UsageError("a delimiter must not be empty")
    source = _Input(
        files=files,
        parse=parse_json
        if as_json
        else parse_text(
            key_delimiter=unescape(key_delimiter) if key_delimiter is not None else None, tombstones=tombstones
        ),
        delimiter=unescape(delimiter),
        whole_files=whole_files,
        key=key.encode() if key is not None else None,
        headers=tuple(_header(text) for text in headers),
        partition=partition,
    )

    options = ProducerOptions(
        **over_options(
            Kind.PRODUCER,
            acks=Acks(_ACKS[acks]),
            compression=_CODECS.index(compression),
            linger_ms=linger_ms,
            request_bytes_max=max_request_bytes,
            batch_bytes=min(_BATCH_BYTES, max_request_bytes),
            buffer_bytes=max(_BUFFER_BYTES, 2 * max_request_bytes),
            delivery_timeout_ms=timeout_ms,
        )
    )
    run_until_done(_run(bootstrap, topic, source, options, quiet=quiet))


async def _run(bootstrap: str, topic: str, source: _Input, options: "ProducerOptions", *, quiet: bool) -> None:
    failures: list[Exception] = []

    def give_up(where: "TopicPartition", count: int, error: Exception) -> None:
        del where, count
        failures.append(error)

    tasks = Tasks("produce", threads_max=1)
    progress = Progress("producing", _total_bytes(source.files), quiet=quiet)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(tasks.close)
        patience_ms = max(options.delivery_timeout_ms, _CONNECTED_WITHIN_MS)
        producer = Producer(client_options(bootstrap).within(patience_ms), options, on_give_up=give_up)
        await stack.enter_async_context(saying_what_is_waited_for(producer.troubles, producer.io))
        await stack.enter_async_context(producer)
        with progress:
            is_known = quiet
            async for record in _records(source, tasks, progress):
                if failures:
                    break
                if not is_known:
                    is_known = True
                    await tell_if_created(producer, topic)
                await _send(producer, topic, record, source)
            await producer.flush()
    if failures:
        raise failures[0]
    progress.summary()


async def _send(producer: "Producer", topic: str, record: InputRecord, source: _Input) -> None:
    await producer.send(
        topic,
        record.value,
        key=record.key if record.key is not None else source.key,
        partition=record.partition if record.partition is not None else source.partition,
        timestamp_ms=record.timestamp_ms,
        headers=(*source.headers, *record.headers),
    )


async def _records(source: _Input, tasks: "Tasks", progress: Progress) -> AsyncIterator[InputRecord]:
    for path in source.files or (Path("-"),):
        if source.whole_files:
            content = await tasks.in_thread(path.read_bytes)
            progress.add(len(content), 1)
            yield InputRecord(value=content)
            continue
        number = 0
        async for lines, size in _lines(path, source.delimiter, tasks):
            for line in lines:
                number += 1
                try:
                    record = source.parse(line)
                except CommandError as error:
                    raise CommandError(f"{'standard input' if str(path) == '-' else path}:{number}: {error}") from error
                yield record
            progress.add(size, len(lines))


async def _lines(path: Path, delimiter: bytes, tasks: "Tasks") -> AsyncIterator[tuple[Sequence[bytes], int]]:
    """Lines as they come, with the bytes they took. Reading waits in a thread, so that records sent are delivered."""
    splitter = LineSplitter(delimiter)
    stream: BinaryIO = sys.stdin.buffer if str(path) == "-" else await tasks.in_thread(path.open, "rb", 0)
    try:
        while chunk := await tasks.in_thread(_read_some, stream):
            yield splitter.feed(chunk), len(chunk)
        rest = splitter.rest()
        if rest is not None:
            yield [rest], 0
    finally:
        if stream is not sys.stdin.buffer:
            stream.close()


def _read_some(stream: BinaryIO) -> bytes:
    """What is there, at least a byte, waiting for it; empty at the end."""
    read1 = getattr(stream, "read1", None)
    return (read1 or stream.read)(_CHUNK_BYTES)


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value.encode() if equals else None


def _total_bytes(files: Sequence[Path]) -> int | None:
    """Bytes of the input, None when not all of it is files."""
    if not files or any(not path.is_file() for path in files):
        return None
    return sum(path.stat().st_size for path in files)
