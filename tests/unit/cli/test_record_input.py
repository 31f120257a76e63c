"""Lines become the records that the user meant."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.failure import CommandError
from ottla.cli.record_format import json_line
from ottla.cli.record_input import InputRecord, LineSplitter, parse_json, parse_text
from ottla.client.consuming.consumer_record import ConsumerRecord


@given(
    st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 7), min_size=1), st.sampled_from([b"\n", b"||", b"\0"])
)
def test_lines_are_cut_the_same_however_the_input_arrives(lines, sizes, delimiter):
    data = delimiter.join(lines)
    splitter = LineSplitter(delimiter)
    found = []
    position = turn = 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        found += splitter.feed(data[position : position + size])
        position += size
        turn += 1
    rest = splitter.rest()
    expected = data.split(delimiter)
    assert [*found, *([rest] if rest is not None else [])] == (expected if expected[-1] else expected[:-1])


def test_a_line_is_a_value_as_it_stands():
    parse = parse_text(key_delimiter=None, tombstones=False)
    assert parse(b" a:b\xff ") == InputRecord(value=b" a:b\xff ")
    assert parse(b"") == InputRecord(value=b"")


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [(b"k:v", b"k", b"v"), (b"k:v:w", b"k", b"v:w"), (b":v", b"", b"v"), (b"k:", b"k", b""), (b"v", None, b"v")],
)
def test_a_key_is_what_stands_before_the_first_delimiter(line, key, value):
    assert parse_text(key_delimiter=b":", tombstones=False)(line) == InputRecord(value=value, key=key)


def test_an_empty_value_is_a_tombstone_when_asked():
    parse = parse_text(key_delimiter=b":", tombstones=True)
    assert parse(b"k:") == InputRecord(value=None, key=b"k")
    assert parse(b"k:v") == InputRecord(value=b"v", key=b"k")


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"value": "v"}', InputRecord(b"v")),
        ('{"value": null, "key": "k"}', InputRecord(None, b"k")),
        ('{"key": "k"}', InputRecord(None, b"k")),
        ('{"value": {"a": [1, "é"]}}', InputRecord('{"a":[1,"é"]}'.encode())),
        ('{"value": 5, "partition": 3, "timestamp": 9}', InputRecord(b"5", None, (), 3, 9)),
        ('{"value_base64": "/w==", "key_base64": "AA=="}', InputRecord(b"\xff", b"\0")),
        ('{"headers": {"a": "1", "b": null}}', InputRecord(None, None, (("a", b"1"), ("b", None)))),
        (
            '{"headers": [["a", "1"], ["a", {"base64": "/w=="}]]}',
            InputRecord(None, None, (("a", b"1"), ("a", b"\xff"))),
        ),
    ],
)
def test_a_json_line_says_what_it_says(line, record):
    assert parse_json(line.encode()) == record


@pytest.mark.parametrize(
    "line",
    ["", "{", "[1]", '"text"', '{"valeu": "v"}', '{"partition": "1"}', '{"partition": true}', '{"headers": "x"}',
     '{"headers": [["a"]]}', '{"value_base64": "%"}', '{"timestamp": 1.5}'],
)  # fmt: skip
def test_what_is_no_json_record_is_refused_in_one_line(line):
    with pytest.raises(CommandError) as refused:
        parse_json(line.encode())
    assert "\n" not in str(refused.value)


optional_bytes = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(optional_bytes, optional_bytes, st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3))
def test_what_consume_writes_as_json_produce_reads_back(key, value, headers):
    line = json_line(ConsumerRecord("t", 2, 7, 99, key, value, headers))
    assert parse_json(line) == InputRecord(value, key, tuple(headers), 2, 99)
    assert json.loads(line)["offset"] == 7


@pytest.mark.parametrize(
    "line",
    [
        rb'{"value": "\ud800"}',
        rb'{"headers": {"\udfff": null}}',
        rb'{"value": ["\ud800"]}',
        b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"timestamp": 9223372036854775808}',
        b'{"partition": 2147483648}',
    ],
)
def test_what_no_record_can_hold_is_refused_as_the_users_mistake(line):
    with pytest.raises(CommandError):
        parse_json(line)
