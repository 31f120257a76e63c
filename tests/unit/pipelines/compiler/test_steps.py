"""What steps do to rows as far as it shows without Spark, and what is passed on of its messages."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipelines.compiler.python_modules import CallError, call
from ottla.pipelines.compiler.steps import said_of_spark, watermarked


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. SQLSTATE: 42601 (line 2, pos 7)\n\n== SQL ==\n",
            "[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. (line 2, pos 7)",
        ),
        (
            "[U] `x` is not there. Did you mean one of [`n`, `_record`]. SQLSTATE: 42703; line 1 pos 10;\nProject",
            "[U] `x` is not there. Did you mean one of [`n`].; line 1 pos 10",
        ),
        ("[U] `x`: did you mean one of [`_record`, `n`]", "[U] `x`: did you mean one of [`n`]"),
        ("one of [`tab`.`t`, `tab`.`_record`, `n`]", "one of [`tab`.`t`, `n`]"),
        (
            '[U] Cannot resolve column name "zz" among (n, s, _record).',
            '[U] Cannot resolve column name "zz" among (n, s).',
        ),
    ],
)
def test_the_line_has_the_place_in_the_query_and_nothing_of_ours(text, said):
    assert said_of_spark(text) == said


class Stream:
    """Rows of a stream with columns, of which some have a watermark."""

    def __init__(self, **delays_ms):
        self.isStreaming = True
        self.delays_ms = delays_ms

    @property
    def schema(self):
        marks = {name: {} if ms is None else {"spark.watermarkDelayMs": ms} for name, ms in self.delays_ms.items()}
        return [SimpleNamespace(name=name, metadata=mark) for name, mark in marks.items()]

    def withWatermark(self, column, delay):
        return Stream(**self.delays_ms | {column: delay})


@pytest.mark.parametrize("column", ["at", "AT", "At"])
def test_a_column_keeps_its_first_watermark_in_whatever_case_it_is_named(column):
    once: Any = Stream(at=None, open=None)
    twice: Any = watermarked(watermarked(once, "at", 60_000), column, 5)
    assert twice.delays_ms == {"at": "60000 milliseconds", "open": None}
    other: Any = watermarked(twice, "open", 5)
    assert other.delays_ms["open"] == "5 milliseconds"


def test_a_column_that_is_not_there_is_left_to_spark_and_a_batch_has_no_watermark():
    stream: Any = Stream(at=None)
    marked: Any = watermarked(stream, "no", 5)
    assert marked.delays_ms == {"at": None, "no": "5 milliseconds"}
    rows: Any = SimpleNamespace(isStreaming=False)
    assert watermarked(rows, "at", 5) is rows


def test_what_the_python_of_a_step_raises_is_told_with_step_function_and_line():
    def shout(name):
        return name.upper()

    assert call("a", "fn:shout", shout, "x") == "X"
    with pytest.raises(CallError, match=r"^step a: fn:shout raised AttributeError: .*'upper' \(test_steps\.py:\d+\)$"):
        call("a", "fn:shout", shout, 5)
    with pytest.raises(CallError, match=r"^step a: fn:shout raised TypeError: .*'name'$"):
        call("a", "fn:shout", shout)
