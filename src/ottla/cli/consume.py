"""`ottla consume`: read records of a topic."""

from threading import Event
from typing import TYPE_CHECKING

import click

from ottla.cli.client_properties import Kind, over_options
from ottla.cli.connection import bootstrap_option, client_options, run_until_done
from ottla.cli.escapes import unescape
from ottla.cli.partition_selection import parse_numbers
from ottla.cli.standard_streams import reader_is_gone, write_out

if TYPE_CHECKING:
    from ottla.cli.reading import Wanted
    from ottla.cli.record_format import FormatRecord
    from ottla.client.consumer_options import ConsumerOptions
    from ottla.client.consumer_record import ConsumerRecord


@click.command("consume")
@bootstrap_option
@click.argument("topic")
@click.option("-o", "--offset", metavar="WHERE", help="Where to begin.  [beginning; with --group: stored]")
@click.option("--from-beginning", is_flag=True, help="The same as --offset beginning.")
@click.option("--until", metavar="WHERE", help="Where to stop, this offset or time not included.")
@click.option("-p", "--partition", "partitions", metavar="N,N-N", multiple=True, help="Only these; all if not said.")
@click.option("-c", "--count", "--max-messages", type=click.IntRange(1), help="Stop after so many records.")
@click.option("-e", "--exit", "--exit-at-end", "exit_at_end", is_flag=True, help="Stop at what is the end now.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop when nothing has come for so long.")
@click.option("-g", "--group", metavar="GROUP", help="Read this group's share, and commit what was written out.")
@click.option("-f", "--format", "format_text", metavar="FORMAT", help="What to write for a record; tokens below.")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Write KEY TEXT VALUE.")
@click.option("-D", "--delimiter", metavar="TEXT", default="\\n", show_default=True, help="What ends a record.")
@click.option("--null", metavar="TEXT", default="", help="What to write for a key or value that is null.  [nothing]")
@click.option("--read-committed", is_flag=True, help="Leave out records of transactions that are not committed.")
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
    group: str | None,
    format_text: str | None,
    as_json: bool,
    key_delimiter: str | None,
    delimiter: str,
    null: str,
    read_committed: bool,
) -> None:
    """Read records of a topic and write them to standard output, values one a line unless told otherwise.

    WHERE is beginning, end, stored, an offset, -N for the last N of each partition, or @TIME: ms since 1970, a time
    such as @2026-11-20T08:00:00Z, or @-15m for 15 minutes ago. Without --exit, --until, --count or --timeout-ms it goes
    on until Ctrl-C. A group begins where it has committed; WHERE, beginning or end, is for partitions where it has not.

    \b
    Tokens of FORMAT (in TEXT as well: \\t \\n \\0 \\xNN):
      %v value   %V its length   %k key       %K its length   %h headers
      %t topic   %p partition    %o offset    %T timestamp in ms

    \b
    Examples:
      ottla consume events --exit
      ottla consume events -o -10 -f '%p@%o %k: %v\\n'
      ottla consume events --group billing --json
    """
    _check(group, partitions, format_text, as_json, key_delimiter, until)

    from ottla.cli.reading import Wanted
    from ottla.cli.record_format import compile_format, json_line, plain_format
    from ottla.cli.start_position import GROUP_STARTS, StartKind, parse_position
    from ottla.client.consumer_options import ConsumerOptions, OffsetReset
    from ottla.client.offsets import IsolationLevel
    from ottla.runtime.clock import SystemClock

    clock = SystemClock()
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset say two things: give one")
    where = "beginning" if from_beginning else offset
    start = parse_position(where, clock) if where is not None else None
    if start is not None and start.kind is StartKind.STORED and group is None:
        raise click.UsageError("--offset stored needs --group")
    if start is not None and start.kind not in GROUP_STARTS and group is not None:
        raise click.UsageError("a group begins where it has committed, else at --offset beginning or end")
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
    run_until_done(_run(bootstrap, wanted, options, write))


def _check(
    group: str | None,
    partitions: tuple[str, ...],
    format_text: str | None,
    as_json: bool,
    key_delimiter: str | None,
    until: str | None,
) -> None:
    if group is not None and partitions:
        raise click.UsageError("a group decides who reads which partitions: leave out --partition, or --group")
    if group is not None and until is not None:
        raise click.UsageError("--until is not for groups: leave it out, or --group")
    if sum((format_text is not None, as_json, key_delimiter is not None)) > 1:
        raise click.UsageError("--format, --json and --key-delimiter say different things: give one")


async def _run(bootstrap: str, wanted: "Wanted", options: "ConsumerOptions", write: "FormatRecord") -> None:
    from ottla.cli.reading import Reading
    from ottla.client.consumer import Consumer
    from ottla.runtime.tasks import Tasks

    tasks = Tasks("consume", threads_max=1)

    stopped = Event()

    async def give_out(records: "list[ConsumerRecord]") -> None:
        chunk = b"".join([write(record) for record in records])
        try:
            await tasks.in_thread(write_out, chunk, stopped.is_set)
        except BaseException:
            stopped.set()
            raise

    try:
        async with Consumer(client_options(bootstrap), options) as consumer:
            reading = Reading(consumer, wanted)
            await reading.begin()
            while not reading.finished:
                if not await reading.give(give_out) and reader_is_gone():
                    raise BrokenPipeError
    finally:
        await tasks.close()
