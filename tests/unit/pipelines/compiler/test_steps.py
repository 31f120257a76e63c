"""What steps do to rows as far as it shows without Spark, and what is passed on of its messages."""

import pytest

from ottla.pipelines.compiler.python_modules import CallError, call
from ottla.pipelines.compiler.steps import said_of_spark


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


def test_what_the_python_of_a_step_raises_is_told_with_step_function_and_line():
    def shout(name):
        return name.upper()

    assert call("a", "fn:shout", shout, "x") == "X"
    with pytest.raises(CallError, match=r"^step a: fn:shout raised AttributeError: .*'upper' \(test_steps\.py:\d+\)$"):
        call("a", "fn:shout", shout, 5)
    with pytest.raises(CallError, match=r"^step a: fn:shout raised TypeError: .*'name'$"):
        call("a", "fn:shout", shout)
