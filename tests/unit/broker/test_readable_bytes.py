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


@given(
    st.integers(0, 100),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60)), max_size=20),
)
def test_the_total_is_what_a_walk_over_all_partitions_gives(
    max_bytes: int, partitions: list[tuple[int, int]], growths: list[tuple[int, int]]
):
    """A partition is the size of its first batch and its limit."""
    readable = ReadableBytes(max_bytes)
    held = [0] * len(partitions)
    for place, growth in growths:
        position = place % len(partitions)
        first_batch, limit = partitions[position]
        held[position] = max(held[position] + growth, first_batch)
        readable.put(position, max(first_batch, min(held[position], limit, max_bytes)) or 1, limit)
    left, total = max_bytes, 0
    for size, (first_batch, limit) in zip(held, partitions, strict=True):
        given_now = min(size, limit, left)
        if size and not total:
            given_now = max(first_batch, given_now) or 1
        total += given_now
        left = max(0, left - given_now)
    assert readable.total == total
