"""`ottla dlq`: what lies in topics of dead letters, and why; `redrive` and `purge` beside it."""

import json
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.committed_reader import committed_reader
from ottla.cli.connection import bootstrap_option, with_cluster
from ottla.cli.dlq_filter import filter_of, filter_options, where_of, where_option
from ottla.cli.dlq_purge import purge
from ottla.cli.dlq_redrive import redrive
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.cli.output import print_json, print_table
from ottla.cli.record_format import json_line
from ottla.cli.time_text import time_text
from ottla.client.admin.admin import Admin
from ottla.model.printable import printable
from ottla.pipelines.dead_letters.filters import Filter
from ottla.pipelines.dead_letters.headers import Letter, is_letter, letter_of, own_headers
from ottla.pipelines.dead_letters.redriving import Letters
from ottla.pipelines.dead_letters.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.consuming.consumer_record import ConsumerRecord
    from ottla.client.io.cluster import Cluster

_NAMES = ("dead-letter", "dead_letter", "deadletter", "dlq")
_HEX_BYTES = 16
_SHOWN_CHARS_MAX = 4_000
"""Of a key, a value or a header: some fifty lines of a terminal."""


@click.group()
def dlq() -> None:
    """Show dead letters with their reasons, send them back, and delete them.

    A dead letter is a record that a pipeline refused. It is unchanged; added headers give its source and the reason.
    Dead letters of Kafka Connect and Kafka Streams work too.
    """


dlq.add_command(redrive)
dlq.add_command(purge)


@dlq.command("list")
@bootstrap_option
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@where_option
@click.option("--json", "as_json", is_flag=True, help="A JSON array of steps and reasons.")
def list_letters(bootstrap: str, topics: tuple[str, ...], where: str | None, as_json: bool) -> None:
    """Count dead letters by step and reason, with the times of the first and the last.

    The default topics are those with `dead-letter` or `dlq` in their names. LEFT counts letters not yet sent back.

    \b
    Example:
      ottla dlq list flights.dead-letters
      ottla dlq list dlq.jobs --where "age < 1d AND value.customer = 'c17'"
    """
    wanted = Filter(where=where_of(where))

    async def action(cluster: "Cluster") -> "Summary":
        names = list(topics)
        if not names:
            there = await Admin(cluster).list_topics()
            names = [each.name for each in there if _is_named_so(each.name)]
            if not names:
                raise CommandError(
                    "no topic has dead-letter or dlq in its name: name the topic of dead letters", ExitCode.NOT_FOUND
                )
        summary = Summary()
        async with committed_reader(bootstrap) as consumer:
            for name in dict.fromkeys(names):
                letters = Letters(cluster, consumer, name)
                await letters.open()
                async for records in letters.all():
                    for record in records:
                        letter = letter_of(record.headers)
                        if not is_letter(letter):
                            summary.skip(record)
                        elif wanted.takes(record, letter):
                            is_done = record.offset in letters.done[record.topic_partition]
                            summary.add(record, letter, is_done=is_done)
        return summary

    summary = with_cluster(bootstrap, action)
    reasons = summary.reasons()
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(reasons))
    else:
        rows = [
            (
                each.topic,
                each.pipeline,
                each.step,
                each.error_class,
                each.letters,
                each.left,
                None if each.first_ms is None else time_text(each.first_ms),
                None if each.last_ms is None else time_text(each.last_ms),
                _shown(each.reason),
            )
            for each in reasons
        ]
        columns = ["TOPIC", "PIPELINE", "STEP", "ERROR", "LETTERS", "LEFT", "FIRST", "LAST", "REASON"]
        print_table(columns, rows, right=["LETTERS", "LEFT"])
    for name, count in summary.no_letters.items():
        click.echo(
            f"warning: {count} records of {name} are not dead letters: they have no headers of a dead letter", err=True
        )


@dlq.command("show")
@bootstrap_option
@click.argument("topic")
@filter_options
@click.option("-n", "--count", type=click.IntRange(1), default=10, show_default=True, help="The maximum number.")
@click.option(
    "--as", "how", type=click.Choice(["auto", "text", "json", "hex"]), default="auto", help="How values are shown."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array of letters, with all their headers.")
def show(bootstrap: str, topic: str, count: int, how: str, as_json: bool, **chosen: Any) -> None:
    """Show dead letters: pipeline and step, reason, source, headers, key and value.

    \b
    Examples:
      ottla dlq show flights.dead-letters --step sane --reason 'delay.*between'
      ottla dlq show flights.dead-letters --offsets 0:17 --as hex
      ottla dlq show dlq.jobs --where "header('trace') LIKE 'a%' OR NOT reason CONTAINS 'timeout'"
    """
    wanted = filter_of(**chosen)

    async def action(cluster: "Cluster") -> "list[tuple[ConsumerRecord, Letter, bool]]":
        async with committed_reader(bootstrap) as consumer:
            letters = Letters(cluster, consumer, topic)
            await letters.open()
            return await _found(letters, wanted, count)

    found = with_cluster(bootstrap, action)
    if as_json:
        print_json([_document(*each) for each in found])
        return
    for record, letter, is_done in found:
        for line in _lines(record, letter, is_done=is_done, how=how):
            click.echo(line)
    if not found:
        click.echo("no dead letters" + (" that match these options" if any(chosen.values()) else ""), err=True)


async def _found(letters: Any, wanted: Filter, count: int) -> "list[tuple[ConsumerRecord, Letter, bool]]":
    found: list[tuple[ConsumerRecord, Letter, bool]] = []
    async for records in letters.all():
        for record in records:
            letter = letter_of(record.headers)
            if wanted.takes(record, letter):
                found.append((record, letter, record.offset in letters.done[record.topic_partition]))
                if len(found) == count:
                    return found
    return found


def _lines(record: "ConsumerRecord", letter: "Letter", *, is_done: bool, how: str) -> "Sequence[str]":
    who = " / ".join(each for each in (letter.pipeline, letter.step) if each) or "somebody"
    back = "" if letter.replays == 0 else f", sent back {letter.replays} times before"
    attempt = "" if letter.attempt is None else f", attempt {letter.attempt}"
    batch = "" if letter.batch is None else f", batch {letter.batch}"
    origin = letter.origin or "not known"
    origin_time = "" if letter.timestamp_ms is None else f", {time_text(letter.timestamp_ms)}"
    lines = [
        f"{record.topic_partition}@{record.offset}  {time_text(record.timestamp_ms)}  refused by {_shown(who)}"
        + ("  (sent back)" if is_done else ""),
        f"  reason   {_shown(letter.reason) or '-'}",
        f"  error    {_shown(letter.error_class) or '-'}{attempt}{batch}{back}",
        f"  origin   {_shown(origin)}{origin_time}",
    ]
    for name, value in own_headers(record.headers):
        lines.append(f"  header   {_shown(name)}: {_cut(value, 'auto')}")
    return [*lines, f"  key      {_cut(record.key, 'auto')}", f"  value    {_cut(record.value, how)}", ""]


def _cut(content: bytes | None, how: str) -> str:
    text = _text(content, how)
    if content is None or len(text) <= _SHOWN_CHARS_MAX:
        return text
    return f"{text[:_SHOWN_CHARS_MAX]}... ({len(content):,} bytes, all with --json)"


def _text(content: bytes | None, how: str) -> str:
    """Bytes for people: JSON laid out, text on one line, or hex where it is neither."""
    if content is None:
        return "null"
    if how in {"auto", "json"}:
        try:
            parsed = json.loads(content)
        except ValueError:
            if how == "json":
                return f"not JSON: {_text(content, 'auto')}"
        else:
            if how == "json":
                return json.dumps(parsed, indent=2).replace("\n", "\n           ")
    if how != "hex":
        try:
            return _shown(content.decode()) or '""'
        except UnicodeDecodeError:
            if how == "text":
                return _shown(content.decode("utf-8", "replace")) or '""'
    rows = [content[at : at + _HEX_BYTES] for at in range(0, len(content), _HEX_BYTES)]
    return "\n           ".join(row.hex(" ") for row in rows) or '""'


def _document(record: "ConsumerRecord", letter: "Letter", is_done: bool) -> dict[str, Any]:
    from msgspec import structs

    said: dict[str, Any] = json.loads(json_line(record))
    return {**said, "letter": structs.asdict(letter), "sent_back": is_done}


def _is_named_so(topic: str) -> bool:
    return not topic.startswith("__") and any(part in topic.lower() for part in _NAMES)


def _shown(text: str | None) -> str | None:
    return None if text is None else printable(text)
