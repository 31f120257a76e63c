"""Which key a topic's setting says."""

from __future__ import annotations

import doctest

import pytest

from ottla.model import redis_key


def test_examples() -> None:
    assert doctest.testmod(redis_key).failed == 0


@pytest.mark.parametrize(
    "text",
    ["", ":", "x", "x:y", "-1:y", "²:y", f"{'9' * 10}:y", f"{'9' * 5_000}:y", "x/0:y", "/0:y", f"{'9' * 19}/0:y"],
)
def test_whatever_somebody_writes_into_the_setting_is_no_key_but_a_number_and_a_name(text: str) -> None:
    assert redis_key.key_of_setting(text) is None
