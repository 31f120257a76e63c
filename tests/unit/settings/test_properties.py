import pytest

from ottla.model.errors import InvalidInputError
from ottla.settings.properties import parse_properties


def test_kafkas_server_properties_are_read():
    text = """
############ Server ############
# a comment with = in it
   ! another
broker.id=0
listeners = PLAINTEXT://:9092
log.dirs:/tmp/logs
log.retention.hours 168
empty=
lonely
"""
    assert parse_properties(text) == {
        "broker.id": "0",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/tmp/logs",
        "log.retention.hours": "168",
        "empty": "",
        "lonely": "",
    }


def test_a_backslash_joins_lines_and_drops_the_blanks_of_the_next():
    assert parse_properties("a = x,\\\n     y,\\\r\n\tz\nb=1") == {"a": "x,y,z", "b": "1"}


def test_a_comment_is_not_continued_and_a_continued_line_is_no_comment():
    assert parse_properties("# c \\\na=1\nb=2\\\n#3") == {"a": "1", "b": "2#3"}


def test_an_even_number_of_backslashes_does_not_continue():
    assert parse_properties("a=x\\\\\nb=1") == {"a": "x\\", "b": "1"}


def test_escapes_stand_for_characters():
    assert parse_properties(r"a\ b\=c = \u0041\t\q\:") == {"a b=c": "A\tq:"}


def test_the_last_value_of_a_key_holds():
    assert parse_properties("a=1\na=2") == {"a": "2"}


def test_a_value_may_hold_the_separators():
    assert parse_properties("a=b=c:d") == {"a": "b=c:d"}
    assert parse_properties("a : = b") == {"a": "= b"}


def test_the_end_of_the_file_may_come_inside_a_continuation():
    assert parse_properties("a=1\\") == {"a": "1"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\uXYZW", r"a=\u 123"])
def test_a_broken_unicode_escape_is_refused_with_its_line(text):
    with pytest.raises(InvalidInputError, match="line 2"):
        parse_properties("ok=1\n" + text)


def test_two_escapes_that_are_one_character_are_one():
    assert parse_properties(r"a=\uD83D\uDE00\u0020x") == {"a": "\N{GRINNING FACE} x"}


@pytest.mark.parametrize("text", [r"a=\ud800", r"a=\ude00\ud83d", r"\uDBFF=1"])
def test_half_a_character_is_refused_with_its_line(text):
    with pytest.raises(InvalidInputError, match=r"line 2: .* half of a character"):
        parse_properties("ok=1\n" + text)
