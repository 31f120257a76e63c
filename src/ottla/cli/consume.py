"""`ottla consume`: read records of a topic."""

from contextlib import AsyncExitStack
from threading import Event
from typing import TYPE_CHECKING

import click

from ottla.cli.client_properties import Kind, options_of, over_options
from ottla.cli.connection import bootstrap_option, client_options, run_until_done
from ottla.cli.escapes import unescape
from ottla.cli.partition_selection import parse_numbers
from ottla.cli.reading import Reading, Wanted
from ottla.cli.record_format import FormatRecord, Record, compile_format, json_line, plain_format
from ottla.cli.share_reading import POLL_RECORDS, ShareReading, ShareWanted
from ottla.cli.standard_streams import reader_is_gone, write_out
from ottla.cli.start_position import GROUP_STARTS, StartKind, parse_position
from ottla.cli.waiting import saying_what_is_waited_for
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.consuming.share_consumer import ShareConsumer
from ottla.client.consuming.share_options import AcknowledgementMode, AcquireMode, ShareConsumerOptions
from ottla.runtime.clock import SystemClock
from ottla.runtime.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.options import ClientOptions


@click.command("consume")
@bootstrap_option
@click.argument("topic")
@click.option("-o", "--offset", metavar="WHERE", help="Where to start.  [beginning; with --group: stored]")
@click.option("--from-beginning", is_flag=True, help="The same as --offset beginning.")
@click.option("--until", metavar="WHERE", help="Where to stop; this offset or time is not included.")
@click.option("-p", "--partition", "partitions", metavar="N,N-N", multiple=True, help="Only these partitions.  [all]")
@click.option("-c", "--count", "--max-messages", type=click.IntRange(1), help="Stop after this many records.")
@click.option("-e", "--exit", "--exit-at-end", "exit_at_end", is_flag=True, help="Stop at the current end.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop when no record has arrived for this long.")
@click.option(
    "--retry-timeout-ms",
    type=click.IntRange(0),
    default=120_000,
    show_default=True,
    help="Give up after a required broker has been unreachable for this long; 0: never.",
)
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    help="Read as a member of this group, and commit the records written to the output.",
)
@click.option(
    "--share",
    metavar="GROUP",
    help="Read as a member of this share group, and accept the records written to the output.",
)
@click.option("-f", "--format", "format_text", metavar="FORMAT", help="The output format; tokens below.")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Write KEY TEXT VALUE.")
@click.option("-D", "--delimiter", metavar="TEXT", default="\\n", show_default=True, help="The record delimiter.")
@click.option("--null", metavar="TEXT", default="", help="The text for a null key or value.  [empty]")
@click.option("--read-committed", is_flag=True, help="Only read committed transactional records.")
def consume(
    bootstrap: str,
    topic: str,
    offset: str | None,
    from_beginning: bool,
    until: str | None,
    partitions: tuple[str, ...],
    count: int | None,
    exit_at_end: bool,
    timeout_ms: int | None,
    retry_timeout_ms: int,
    group: str | None,
    share: str | None,
    format_text: str | None,
    as_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    null: str,
    read_committed: bool,
) -> None:
    """Read records of a topic and write them to standard output, by default one value per line.

    WHERE is beginning, end, stored, an offset, -N for the last N of each partition, or @TIME: ms since 1970, a time
    such as @2026-11-20T08:00:00Z, or @-15m for 15 minutes ago. Without --exit, --until, --count or --timeout-ms it
    reads until Ctrl-C. A group starts at its committed offsets; WHERE, beginning or end, applies to partitions
    without one. With --share each record goes to one member of the share group; --exit stops when no record is
    available for this member.

    \b
    Tokens of FORMAT (in TEXT as well: \\t \\n \\0 \\xNN):
      %v value   %V its length   %k key       %K its length   %h headers
      %t topic   %p partition    %o offset    %T timestamp in ms

    \b
    Examples:
      ottla consume events --exit
      ottla consume events -o -10 -f '%p@%o %k: %v\\n'
      ottla consume events --group billing --json
      ottla consume jobs --share workers --count 10
    """
    _check(group, partitions, format_text, as_json, key_delimiter, until)

    if share is not None:
        _check_share(
            {
                "--offset": offset is not None,
                "--from-beginning": from_beginning,
                "--until": until is not None,
                "--partition": bool(partitions),
                "--group": group is not None,
                "--read-committed": read_committed,
            }
        )
    clock = SystemClock()
    if from_beginning and offset is not None:
        raise click.UsageError("give either --from-beginning or --offset, not both")
    where = "beginning" if from_beginning else offset
    start = parse_position(where, clock) if where is not None else None
    if start is not None and start.kind is StartKind.STORED and group is None:
        raise click.UsageError("--offset stored needs --group")
    if start is not None and start.kind not in GROUP_STARTS and group is not None:
        raise click.UsageError(
            "a group starts at its committed offsets; --offset may only be beginning or end, for partitions without one"
        )
    if format_text is not None:
        write = compile_format(format_text, null=unescape(null))
    elif as_json:
        write = json_line
    else:
        write = plain_format(
            key_delimiter=unescape(key_delimiter) if key_delimiter is not None else None,
            delimiter=unescape(delimiter),
            null=unescape(null),
        )
    if share is not None:
        run_until_done(
            _run_share(bootstrap, share, ShareWanted(topic, count, exit_at_end, timeout_ms), write, retry_timeout_ms)
        )
        return
    options = ConsumerOptions(
        **over_options(
            Kind.CONSUMER,
            group_id=group,
            auto_commit=group is not None,
            auto_commit_interval_ms=1_000,
            auto_offset_reset=OffsetReset.LATEST
            if start is not None and start.kind is StartKind.END
            else OffsetReset.EARLIEST,
            isolation=IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED,
        )
    )
    wanted = Wanted(
        topic=topic,
        partitions=tuple(dict.fromkeys(number for text in partitions for number in parse_numbers(text))),
        start=start,
        until=parse_position(until, clock) if until is not None else None,
        count=count,
        exit_at_end=exit_at_end,
        timeout_ms=timeout_ms,
    )
    run_until_done(_run(bootstrap, wanted, options, write, retry_timeout_ms))


def _check(
    group: str | None,
    partitions: tuple[str, ...],
    format_text: str | None,
    as_json: bool,
    key_delimiter: str | None,
    until: str | None,
) -> None:
    if group is not None and partitions:
        raise click.UsageError("a group assigns partitions itself: leave out --partition or --group")
    if group is not None and until is not None:
        raise click.UsageError("--until does not work with a group: leave out --until or --group")
    if sum((format_text is not None, as_json, key_delimiter is not None)) > 1:
        raise click.UsageError("give only one of --format, --json and --key-delimiter")


def _check_share(given: dict[str, bool]) -> None:
    for name, is_given in given.items():
        if is_given:
            what = "is a setting of the group (share.isolation.level)" if name == "--read-committed" else "is not used"
            raise click.UsageError(f"{name} {what} with --share: leave it out")


async def _run_share(
    bootstrap: str, share: str, wanted: "ShareWanted", write: "FormatRecord", retry_timeout_ms: int
) -> None:
    given = options_of(Kind.CONSUMER)
    options = ShareConsumerOptions(
        share,
        acknowledgement_mode=AcknowledgementMode.EXPLICIT,
        acquire_mode=AcquireMode.BATCH_OPTIMIZED if wanted.count is None else AcquireMode.RECORD_LIMIT,
        max_poll_records=min(wanted.count or POLL_RECORDS, POLL_RECORDS),
        **{name: value for name, value in given.items() if name in ShareConsumerOptions.__struct_fields__[4:]},
    )
    consumer = ShareConsumer(_patient_for(bootstrap, retry_timeout_ms), options)
    reading = ShareReading(consumer, wanted)
    await _give_all(consumer, reading, write, retry_timeout_ms)


async def _run(
    bootstrap: str, wanted: "Wanted", options: "ConsumerOptions", write: "FormatRecord", retry_timeout_ms: int
) -> None:
    consumer = Consumer(_patient_for(bootstrap, retry_timeout_ms), options)
    await _give_all(consumer, Reading(consumer, wanted), write, retry_timeout_ms)


async def _give_all(
    consumer: "Consumer | ShareConsumer",
    reading: "Reading | ShareReading",
    write: "FormatRecord",
    retry_timeout_ms: int,
) -> None:
    tasks = Tasks("consume", threads_max=1)

    stopped = Event()

    async def give_out(records: "Sequence[Record]") -> None:
        chunk = b"".join([write(record) for record in records])
        try:
            await tasks.in_thread(write_out, chunk, stopped.is_set)
        except BaseException:
            stopped.set()
            raise

    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(saying_what_is_waited_for(consumer.troubles, consumer.io, retry_timeout_ms))
            await stack.enter_async_context(consumer)
            await reading.begin()
            while not reading.finished:
                if not await reading.give(give_out) and reader_is_gone():
                    raise BrokenPipeError
    finally:
        await tasks.close()


def _patient_for(bootstrap: str, retry_timeout_ms: int) -> "ClientOptions":
    """Options by which no single call tries for longer than the command does."""
    options = client_options(bootstrap)
    return options.within(retry_timeout_ms) if retry_timeout_ms else options
