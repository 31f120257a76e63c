import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.native import TopicPattern

NAMES = ["orders", "orders-eu", "orders.us", "flights", "a_b"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-eu", "orders.us"]),
        (r"orders\.us", ["orders.us"]),
        (r"\Qorders.us\E", ["orders.us"]),
        ("orders(-|\\.)[a-z]{2}", ["orders-eu", "orders.us"]),
        ("^flights$", ["flights"]),
        ("(?i)FLIGHTS", ["flights"]),
        ("[[:alpha:]]+", ["orders", "flights"]),
        (r"\w+", ["orders", "flights", "a_b"]),
        ("(?P<what>flights|orders)", ["orders", "flights"]),
        ("", []),
        (".*", NAMES),
    ],
)
def test_names_match_as_a_whole(pattern: str, names: list[str]):
    assert TopicPattern(pattern).matching(NAMES) == names


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a)|(b", r"(a)\1", "(?=a)", "((a{1000}){1000}){1000}", "(" * 300])
def test_what_is_no_expression_is_refused_in_a_line(pattern: str):
    with pytest.raises(ValueError, match=r".") as caught:
        TopicPattern(pattern)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_refused(pattern: str):
    try:
        compiled = TopicPattern(pattern)
    except ValueError:
        return
    assert set(compiled.matching(NAMES)) <= set(NAMES)


def test_no_expression_takes_longer_than_the_names_are_long():
    names = ["a" * 249] * 200
    for pattern in ("(a+)+b", "(a|aa)*b", "(a*)*(a*)*b", "(.*.*.*.*.*)b"):
        # An engine that backtracks would never come back.
        assert TopicPattern(pattern).matching(names) == []
