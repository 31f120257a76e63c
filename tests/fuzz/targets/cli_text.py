"""What a user or a program writes on a command line or into a pipe: taken, or refused in one line that is no bug.

which, 1 byte | text
"""

import contextlib
import io
from collections.abc import Callable

from ottla.cli.failure import report
from ottla.cli.record_format import compile_format, json_line
from ottla.cli.record_input import InputRecord, LineSplitter, parse_json, parse_text
from ottla.cli.settings import parse_settings
from ottla.cli.start_position import parse_position
from ottla.client.address import parse_addresses
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.native import build_batch, decode_records
from ottla.runtime.clock import ManualClock
from ottla.settings.endpoint import parse_endpoint, parse_host_port

NOW_MS = 1_700_000_000_000


def json_record(text: bytes) -> None:
    """A record that was taken can be sent, and what a consumer prints of it is taken as the same."""
    record = parse_json(text)
    sent = read(record)
    again = parse_json(json_line(sent))
    assert (again.key, again.value, list(again.headers)) == (sent.key, sent.value, sent.headers)


def read(record: InputRecord) -> ConsumerRecord:
    """The record as it comes out of a log."""
    timestamp = NOW_MS if record.timestamp_ms is None else record.timestamp_ms
    batch = build_batch([(timestamp, record.key, record.value, list(record.headers))])
    (decoded,) = decode_records(batch, max_decompressed_bytes=0)
    return ConsumerRecord("orders", record.partition or 0, *decoded)


def text_lines(text: bytes) -> None:
    """Lines are the same whichever pieces they come in."""
    lines = LineSplitter(b"\n")
    found = [line for at in range(0, len(text), 3) for line in lines.feed(text[at : at + 3])]
    rest = lines.rest()
    assert b"".join(line + b"\n" for line in found) + (rest or b"") == text
    for line in found:
        read(parse_text(key_delimiter=b":", tombstones=True)(line))


def record_format(text: bytes) -> None:
    """A format that was taken writes any record."""
    write = compile_format(text.decode(errors="surrogateescape"))
    write(ConsumerRecord("orders", 0, 7, NOW_MS, None, b"\xff", [("h", None)]))


def of_text(parse: Callable[[str], object]) -> Callable[[bytes], None]:
    """A parser of words, which may hold what no terminal can show."""

    def run(text: bytes) -> None:
        parse(text.decode(errors="surrogateescape"))

    return run


KINDS: tuple[Callable[[bytes], None], ...] = (
    json_record,
    text_lines,
    record_format,
    of_text(parse_addresses),
    of_text(parse_endpoint),
    of_text(parse_host_port),
    of_text(lambda text: parse_position(text, ManualClock(NOW_MS))),
    of_text(lambda text: parse_settings(text.split("\n"))),
)


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    try:
        KINDS[data[0] % len(KINDS)](data[1:])
    except AssertionError:
        raise
    except Exception as error:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            report(error, debug=False)
        said.getvalue().encode()
        if "this is a bug" in said.getvalue():
            raise
        assert said.getvalue()[:-1].isprintable(), said.getvalue()
