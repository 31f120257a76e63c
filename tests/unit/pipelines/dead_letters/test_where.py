"""What `--where` selects, and what it says of an expression that is wrong."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.headers import letter_of
from ottla.pipelines.dead_letters.where import WhereError, parse
from ottla.pipelines.dead_letters.where.expression import DEPTH_MAX
from ottla.pipelines.dead_letters.where.text_pattern import text_pattern
from ottla.pipelines.dead_letters.where.tokens import TEXT_CHARS_MAX

NOW_MS = 1_000_000_000
VALUE = b'{"customer": "c17", "count": 3, "paid": true, "none": null, "odd name": 1, "list": [{"a": 1.5}], "not": 2}'
RECORD = ConsumerRecord(
    "dlq.jobs",
    0,
    7,
    NOW_MS - 3_600_000,
    b"k1",
    VALUE,
    [
        ("trace", b"old"),
        ("trace", b"it's"),
        ("__dlq.errors.topic", b"jobs"),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", b"41"),
        ("__dlq.errors.group", b"workers"),
        ("__dlq.errors.delivery.count", b"5"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    ],
)


def takes(text: str, record: ConsumerRecord = RECORD) -> bool:
    return parse(text, NOW_MS, int).takes(record, letter_of(record.headers))


@pytest.mark.parametrize(
    "text",
    [
        "reason = 'Offset rejected by client.'",
        "reason LIKE '%rejected%' and reason like 'Offset%client_'",
        "reason CONTAINS 'rejected' AND NOT reason CONTAINS 'timeout'",
        "group = 'workers' AND pipeline = 'workers' AND topic = 'jobs' AND partition = 2 AND offset = 41",
        "attempts >= 5 AND attempts BETWEEN 5 AND 6 AND replays = 0 AND attempts != 4 AND attempts <> 4",
        "attempts IN (1, 5) AND attempts NOT IN (1, 2)",
        "age > 30m AND age <= 1h AND age < 2d AND age > 100ms",
        "time = 996400000 AND time <= '996400000'",
        "record_time IS NULL AND step IS NULL AND error IS NULL AND key IS NOT NULL",
        "key = 'k1' AND header('trace') = 'it''s' AND header('none') IS NULL",
        "value LIKE '{%}' AND value.customer = 'c17' AND value.count > 2.5 AND value.paid = true",
        'value.list[0].a = 1.5 AND value.list[1].a IS NULL AND value."odd name" = 1 AND value.not = 2',
        "value.none IS NULL AND value.customer.deeper IS NULL AND value.list IS NULL",
        "step = 'x' OR (group = 'workers' AND (attempts = 1 OR attempts = 5))",
        "attempts = 1 AND attempts = 2 OR attempts = 5",
    ],
)
def test_what_is_true_selects_the_letter(text: str):
    assert takes(text)
    assert not takes(f"NOT ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "step = 'x'",
        "value.count = '3'",
        "value.customer > 1",
        "value.paid = 1",
        "value.none = 1",
        "value.missing IN (1, 'a')",
        "step = 'x' AND attempts = 5",
        "header('none') LIKE '%'",
    ],
)
def test_what_is_not_known_is_neither_true_nor_false(text: str):
    assert not takes(text)
    assert not takes(f"NOT ({text})")


@pytest.mark.parametrize("value", [None, b"", b"no JSON", b"\xff", b"[" * 100_000, b"17", b"[1]"])
def test_a_value_without_the_field_has_none(value: bytes | None):
    record = RECORD._replace(value=value)
    assert takes("value.customer IS NULL", record)
    assert takes("value IS NULL", record) == (value is None)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "the name of a field was expected, not the end"),
        ("attempt = 3", 0, "attempt is no field; there are reason,"),
        ("attempts = '3'", 11, "a number was expected, not '3'"),
        ("attempts > 3 reason", 13, "AND, OR or the end was expected, not reason"),
        ("attempts >", 10, "a number was expected, not the end"),
        ("attempts ~ 3", 9, "'~' is not part of an expression"),
        ("reason = 'no end", 9, "has no closing '"),
        ('reason = "x"', 9, "a text in single quotes was expected"),
        ("age > 3", 6, "a length of time such as 2h was expected, not 3"),
        ("age > 3y", 6, "no length of time"),
        ("time > 'soon'", 7, "soon"),
        ("attempts LIKE '3'", 9, "LIKE is for texts"),
        ("reason = NULL", 9, "use IS NULL"),
        ("reason IS 3", 10, "NULL was expected, not 3"),
        ("(reason = 'a'", 13, ") was expected, not the end"),
        ("attempts IN (1, 2", 17, ") was expected"),
        ("value.a BETWEEN 1 AND 'b'", 22, "of one type"),
        ("value.a[-1] = 1", 8, "an index from 0 on"),
        ("value" + ".a" * 21 + " = 1", 45, "at most 20 steps"),
        ("header(trace) = 'a'", 7, "a text in single quotes"),
        ("__import__('os') = 1", 0, "is no field"),
        ("(" * (DEPTH_MAX + 2), DEPTH_MAX + 1, "within each other"),
        ("NOT " * (DEPTH_MAX + 2), 4 * (DEPTH_MAX + 1), "within each other"),
        ("x" * (TEXT_CHARS_MAX + 1), TEXT_CHARS_MAX, "longer than"),
    ],
)
def test_what_is_wrong_is_said_with_its_position(text: str, at: int, message: str):
    with pytest.raises(WhereError, match=f"character {at + 1}: ") as caught:
        parse(text, NOW_MS, int)
    assert message in str(caught.value)


@given(st.text("ab%_", max_size=8), st.text("ab\n", max_size=10))
def test_patterns_match_as_those_of_a_shell(pattern: str, text: str):
    shell = pattern.replace("%", "*").replace("_", "?")
    assert text_pattern(pattern)(text) == fnmatch.fnmatchcase(text, shell)


@given(st.text(max_size=40) | st.text("()'\"=<>.,[]aANDORNOT 019-hvalue%", max_size=60))
def test_any_text_is_an_expression_or_a_plain_error(text: str):
    try:
        parse(text, NOW_MS, int)
    except WhereError as error:
        assert 0 <= error.at <= len(text)  # noqa: PT017
