"""What a stranger sent stays in its line."""

import io
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.runtime.log_lines import LINE_CHARACTERS_MAX, LineFormatter, printable


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
