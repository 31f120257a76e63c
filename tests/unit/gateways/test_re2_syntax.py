"""Expressions over transactional ids match what they match in Kafka 4.3, which reads them with RE2/J."""

import pytest

from ottla.gateways.kafka.re2_syntax import PATTERN_LENGTH_MAX, kernel_pattern
from ottla.native import TopicPattern

NAMES = ["a", "aa", "ab", "b", "c", "&", "&&", "a{b", "a{", "{", "a{,2}", "-", "a-", "x", "[", "<a", "]", "1", "a{ 1}"]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[a&&b]", ["a", "b", "&"]),
        ("[&&]+", ["&", "&&"]),
        ("[^&&a]", ["b", "c", "{", "-", "x", "[", "]", "1"]),
        ("[--a]", ["a", "-", "[", "]", "1"]),
        ("[x[y]", ["x", "["]),
        ("[]a]", ["a", "]"]),
        ("[[:alpha:]x]", ["a", "b", "c", "x"]),
        ("[\\]a]", ["a", "]"]),
        ("a{b", ["a{b"]),
        ("a{", ["a{"]),
        ("{", ["{"]),
        ("a{,2}", ["a{,2}"]),
        ("a{ 1}", ["a{ 1}"]),
        ("a{2}", ["aa"]),
        ("a{1,2}?b?", ["a", "aa", "ab"]),
        ("(?i)A|\\Q[\\E", ["a", "["]),
        ("\\x{61}+?", ["a", "aa"]),
        ("\\<a", ["<a"]),
        ("(?P<n>a)b?", ["a", "ab"]),
    ],
)
def test_an_expression_matches_what_it_matches_in_kafka(pattern: str, matching: list[str]) -> None:
    found = set(TopicPattern(kernel_pattern(pattern)).matching(NAMES))
    assert [name for name in NAMES if name in found] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        *("a++", "a?+b?", "a**", "a+*", "a{1,2}+", "a{2}{3}", "a{1001}", "a{1,1001}", "a{99999999999}"),
        *("\\u0061", "\\U00000061", "\\u{61}", "(?x) a", "(?u)a", "(?R)", "[a--b]", "a" * (PATTERN_LENGTH_MAX + 1)),
    ],
)
def test_what_kafka_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        TopicPattern(kernel_pattern(pattern))
