"""What a stranger sent stays in its line."""

import errno
import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.runtime.log_lines import LINE_CHARACTERS_MAX, JsonLines, LineFormatter, TextLines, printable


@given(st.text(max_size=200))
def test_any_text_becomes_one_printable_line(text: str):
    line = printable(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("orders-0", "orders-0"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("caf\u00e9 \u4f60", "caf\u00e9 \u4f60"),
        ("right\u202eleft\u2028", r"right\u202eleft\u2028"),
        ("half \ud800 a pair", r"half \ud800 a pair"),
    ],
)
def test_what_can_be_seen_stays_and_the_rest_is_escaped(text: str, line: str):
    assert printable(text) == line


def test_a_line_is_cut_and_says_how_much_is_missing():
    line = printable("x" * (LINE_CHARACTERS_MAX + 30_000))
    assert line == "x" * LINE_CHARACTERS_MAX + "... (30000 more characters)"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logger(written: io.StringIO) -> logging.Logger:
    logger = logging.Logger("hostile")
    handler = logging.StreamHandler(written)
    handler.setFormatter(LineFormatter("ottla: %(message)s"))
    logger.addHandler(handler)
    return logger


def test_a_name_cannot_begin_a_line_of_its_own(logger: logging.Logger, written: io.StringIO):
    logger.warning("group %s: member %s joins", "g\nottla: forged", "m\x00")
    assert written.getvalue() == "ottla: group g\\nottla: forged: member m\\x00 joins\n"


def test_a_traceback_is_indented_with_what_the_exception_says(logger: logging.Logger, written: io.StringIO):
    try:
        raise ValueError("bad name a\nottla: forged\x1b[2J")
    except ValueError:
        logger.exception("a request failed")
    first, *rest = written.getvalue().splitlines()
    assert first == "ottla: a request failed"
    assert all(line.startswith("    ") for line in rest)
    assert rest[-1] == r"    ottla: forged\x1b[2J"
    assert "Traceback" in rest[0]


def record_of(message: str, error: BaseException | None = None) -> logging.LogRecord:
    """A record of a known time, of an error that was raised."""
    exc_info = None
    if error is not None:
        try:
            raise error
        except BaseException as raised:
            exc_info = (type(raised), raised, raised.__traceback__)
    record = logging.LogRecord("ottla.storage.log", logging.WARNING, "log.py", 1, message, (), exc_info)
    record.created = 1_700_000_000.25
    return record


def test_a_line_of_the_broker_has_time_level_part_and_message():
    assert TextLines().format(record_of("t-0 is cut\nforged")) == (
        "2023-11-14T22:13:20.250Z WARNING storage.log: t-0 is cut\\nforged"
    )


def test_an_error_is_one_line_with_its_type_and_its_place():
    line = TextLines().format(record_of("a request failed", ValueError("bad name a\nforged\x1b[2J")))
    assert line.isprintable()
    assert line.startswith(
        "2023-11-14T22:13:20.250Z WARNING storage.log: a request failed (ValueError: bad name a\\nforged\\x1b[2J; "
    )
    assert "at test_log_lines.py:" in line


def test_the_traceback_follows_indented_where_it_is_asked_for():
    first, *rest = TextLines(tracebacks=True).format(record_of("failed", ValueError("a\nforged"))).splitlines()
    assert first.startswith("2023-11-14T22:13:20.250Z WARNING storage.log: failed (ValueError")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    forged"


@pytest.mark.parametrize(
    ("error", "what_to_do"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENFILE, "Too many open files in system"), "fs.file-max"),
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory"),
        (MemoryError(), "out of memory"),
    ],
    ids=repr,
)
def test_a_line_names_what_has_run_out_and_what_to_do(error: BaseException, what_to_do: str):
    assert what_to_do in TextLines().format(record_of("a request failed", error))
    assert what_to_do in json.loads(JsonLines().format(record_of("a request failed", error)))["error"]


def test_a_line_of_json_has_the_same_and_the_traceback():
    line = JsonLines().format(record_of("failed \x1b[2J", ValueError("a\nb")))
    assert "\n" not in line
    found = json.loads(line)
    assert (found["time"], found["level"], found["part"]) == ("2023-11-14T22:13:20.250Z", "WARNING", "storage.log")
    assert found["message"] == r"failed \x1b[2J"
    assert found["error"].startswith(r"ValueError: a\nb; at ")
    assert "Traceback" in found["traceback"]
    assert set(json.loads(JsonLines().format(record_of("x")))) == {"time", "level", "part", "message"}
