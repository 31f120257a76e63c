"""Ids in order are as a sorted set, whatever comes and goes."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis import sorted_ids
from ottla.gateways.redis.sorted_ids import SortedIds


def test_examples() -> None:
    assert not doctest.testmod(sorted_ids).failed


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40))), st.integers(0, 40), st.integers(0, 40))
def test_it_is_as_a_sorted_set(changes: list[tuple[bool, int]], first: int, last: int) -> None:
    model: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_ids, "BLOCK_IDS", 3)
        patch.setattr(sorted_ids, "TOGETHER_MIN", 2)
        ids = SortedIds()
        for is_coming, each in changes:
            if is_coming:
                ids.add(each)
                model.add(each)
            elif each in model:
                ids.remove(each)
                model.remove(each)
            assert list(ids.between(0, 40)) == sorted(model)
            assert len(ids) == len(model)
            if model:
                assert (ids.first, ids.last) == (min(model), max(model))
        assert list(ids.between(first, last)) == sorted(each for each in model if first <= each <= last)


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 20), max_size=6))))
def test_several_at_a_time_are_as_one_by_one(changes: list[tuple[bool, list[int]]]) -> None:
    model: set[int] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_ids, "BLOCK_IDS", 3)
        patch.setattr(sorted_ids, "TOGETHER_MIN", 2)
        ids = SortedIds()
        for is_coming, some in changes:
            if is_coming:
                ids.add_all(some)
                model.update(some)
            else:
                going = [each for each in dict.fromkeys(some) if each in model]
                ids.remove_all(going)
                model.difference_update(going)
            assert list(ids.between(0, 20)) == sorted(model)
            assert len(ids) == len(model)
            if model:
                assert (ids.first, ids.last) == (min(model), max(model))


def test_ids_may_go_while_they_are_read() -> None:
    ids = SortedIds()
    for each in range(5_000):
        ids.add(each)
    seen = []
    for each in ids.between(0, 10_000):
        seen.append(each)
        ids.remove(each)
    assert seen == list(range(5_000))
    assert not len(ids)
