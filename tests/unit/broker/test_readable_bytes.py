from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.readable_bytes import ReadableBytes


def test_nothing_is_readable_at_first():
    assert ReadableBytes(100).total == 0


def test_the_first_gives_a_whole_batch_and_the_others_what_still_fits():
    readable = ReadableBytes(100)
    readable.put(2, 10, 40)
    assert readable.total == 10
    readable.put(0, 70, 40)
    assert readable.total == 80
    readable.put(2, 300, 40)
    assert readable.total == 100
    readable.put(0, 700, 40)
    assert readable.total == 700


def test_one_is_full_when_it_gives_all_that_the_limits_allow():
    readable = ReadableBytes(100)
    assert not readable.is_full(0, 0)
    readable.put(0, 40, 41)
    assert not readable.is_full(0, 41)
    readable.put(0, 41, 41)
    assert readable.is_full(0, 41)
    readable.put(1, 100, 1_000)
    assert readable.is_full(1, 1_000)


def test_what_is_larger_than_its_limit_is_left_out_unless_it_comes_first():
    readable = ReadableBytes(100)
    readable.put(3, 41, 40)
    assert not readable.leaves_out
    readable.put(1, 10, 40)
    assert readable.leaves_out
    readable.put(0, 50, 40)
    assert readable.leaves_out


@given(
    st.integers(1, 100),
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 40)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60)), max_size=20),
)
def test_there_is_enough_when_a_walk_over_all_partitions_finds_it(
    max_bytes: int, some_bytes: int, partitions: list[tuple[int, int]], growths: list[tuple[int, int]]
):
    """A partition is the size of its first batch and its limit."""
    min_bytes = min(some_bytes, max_bytes)
    readable = ReadableBytes(max_bytes)
    held = [0] * len(partitions)
    for place, growth in growths:
        position = place % len(partitions)
        first_batch, limit = partitions[position]
        held[position] = max(held[position] + growth, first_batch)
        readable.put(position, max(first_batch, min(held[position], limit, max_bytes)), limit)
    left, total, leaves_out = max_bytes, 0, False
    for size, (first_batch, limit) in zip(held, partitions, strict=True):
        if not size:
            continue
        given_now = min(size, limit, left)
        if not total:
            given_now = max(first_batch, given_now)
        elif given_now < first_batch:
            given_now, leaves_out = 0, True
        total += given_now
        left = max(0, left - given_now)
    enough = readable.total >= min_bytes or readable.leaves_out
    assert enough == (total >= min_bytes or leaves_out)
    if not leaves_out:
        assert readable.total == total
