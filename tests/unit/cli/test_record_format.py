"""Records are written as the format says, byte for byte."""

import pytest

from ottla.cli.escapes import unescape
from ottla.cli.failure import CommandError
from ottla.cli.record_format import compile_format, plain_format
from ottla.client.consuming.consumer_record import ConsumerRecord

RECORD = ConsumerRecord("t", 3, 42, 1_700_000_000_123, b"k", b"v\xff", [("a", b"1"), ("b", None)])
EMPTY = ConsumerRecord("t", 0, 0, 0, None, None, [])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"%k %v %o %p %T %h\n", b"k v\xff 42 3 1700000000123 a=1,b=NULL\n"),
        ("%t/%p@%o", b"t/3@42"),
        ("%s|%S|%V|%K", b"v\xff|2|2|1"),
        ("%R", b"\0\0\0\2"),
        ("100%% %%k", b"100% %k"),
        (r"\x41\t\0\\n", b"A\t\0\\n"),
        ("é", "é".encode()),
        ("", b""),
    ],
)
def test_tokens_stand_for_the_parts_of_a_record(text, written):
    assert compile_format(text)(RECORD) == written


def test_what_is_none_has_length_minus_one_and_the_text_asked_for():
    assert compile_format("%k,%v,%K,%V,%h", null=b"NULL")(EMPTY) == b"NULL,NULL,-1,-1,"
    assert compile_format("%k,%v")(EMPTY) == b","
    assert compile_format("%R")(EMPTY) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("text", ["%x", "a%", "%"])
def test_a_token_that_does_not_exist_is_refused(text):
    with pytest.raises(CommandError, match="not a format token"):
        compile_format(text)


def test_plain_records_are_values_with_or_without_keys():
    assert plain_format(key_delimiter=None, delimiter=b"\n")(RECORD) == b"v\xff\n"
    assert plain_format(key_delimiter=b"=>", delimiter=b"\0")(RECORD) == b"k=>v\xff\0"
    assert plain_format(key_delimiter=b":", delimiter=b"\n", null=b"-")(EMPTY) == b"-:-\n"


@pytest.mark.parametrize(
    ("text", "content"), [(r"\t", b"\t"), (r"\\t", b"\\t"), (r"\x0a", b"\n"), (r"\q", b"\\q"), ("\\", b"\\")]
)
def test_escapes_stand_for_their_characters(text, content):
    assert unescape(text) == content


def test_bytes_of_a_command_line_that_are_no_text_are_written_as_they_came():
    write = compile_format(b"\xa5%v".decode(errors="surrogateescape"))
    assert write(ConsumerRecord("t", 0, 0, 0, None, b"x", [])) == b"\xa5x"
