"""Leases and the pool: no buffer is lent twice, none is lost, and not too many are kept."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.network.receive_buffer import (
    FADE_BYTES_MAX,
    FADE_MS,
    KIB,
    LARGEST,
    POOLED_SIZES,
    SMALLEST,
    BufferPool,
    ReceiveBuffer,
    pooled_size,
)
from ottla.runtime.timer import ManualTimer

MIB = 1024 * KIB


def test_a_buffer_comes_back_with_the_last_lease_and_is_lent_again():
    pool = BufferPool()
    buffer = pool.take(100)
    buffer.retain()
    buffer.release()
    assert pool.in_use_bytes == SMALLEST
    assert pool.take(100) is not buffer
    buffer.release()
    assert pool.take(100) is buffer


def test_what_was_released_may_neither_be_released_nor_retained_again():
    buffer = BufferPool().take(100)
    buffer.release()
    with pytest.raises(AssertionError):
        buffer.release()
    with pytest.raises(AssertionError):
        buffer.retain()


@pytest.mark.parametrize("size", [1, SMALLEST, SMALLEST + 1, MIB, LARGEST, LARGEST + 1, 5 * MIB])
def test_a_buffer_is_at_least_as_large_as_was_asked_for_and_writable(size: int):
    buffer = BufferPool().take(size)
    assert len(buffer.view) == buffer.capacity == pooled_size(size) >= size
    buffer.view[-1] = 7


def test_only_so_much_is_kept_for_use_again():
    pool = BufferPool(free_bytes_max=2 * MIB)
    for buffer in [pool.take(size) for size in POOLED_SIZES for _ in range(20)]:
        buffer.release()
    assert MIB < pool.free_bytes <= 2 * MIB
    assert pool.in_use_bytes == 0


def lend(pool: BufferPool, count: int, size: int = MIB) -> list[ReceiveBuffer]:
    return [pool.take(size) for _ in range(count)]


def test_what_was_in_use_lately_is_lent_again_and_nothing_is_mapped_anew():
    pool = BufferPool(2 * MIB, bytes_max=150 * MIB, timer=ManualTimer())
    known = lend(pool, 40)
    for _ in range(5):
        for buffer in known:
            buffer.release()
        again = lend(pool, 40)
        assert {id(buffer) for buffer in again} == {id(buffer) for buffer in known}


def test_what_is_no_longer_in_use_goes_back_to_the_system_in_some_seconds_and_by_little():
    timer = ManualTimer()
    pool = BufferPool(2 * MIB, bytes_max=150 * MIB, timer=timer)
    for buffer in lend(pool, 100):
        buffer.release()
    assert pool.free_bytes == 100 * LARGEST
    while pool.free_bytes > 2 * MIB:
        before = pool.free_bytes
        timer.advance(FADE_MS)
        assert before - pool.free_bytes <= FADE_BYTES_MAX + LARGEST
    assert timer.clock.monotonic_ms() < 20_000
    assert pool.free_bytes > MIB
    timer.advance(3_600_000)
    assert pool.free_bytes > MIB, "what is always kept stays"


def test_what_is_used_again_and_again_stays_for_as_long_as_it_is():
    timer = ManualTimer()
    pool = BufferPool(2 * MIB, bytes_max=150 * MIB, timer=timer)
    known = lend(pool, 40)
    for _ in range(100):
        for buffer in known:
            buffer.release()
        timer.advance(FADE_MS - 1)
        again = lend(pool, 40)
        assert len({id(buffer) for buffer in known} & {id(buffer) for buffer in again}) >= 35
        known = again


def test_each_size_is_kept_as_it_was_in_use_whatever_was_in_use_beside_it():
    pool = BufferPool(2 * MIB, bytes_max=150 * MIB, timer=ManualTimer())
    known: set[int] = set()
    for _ in range(3):
        found = set()
        for size in POOLED_SIZES:
            lent = lend(pool, 10 * MIB // size, size)
            found |= {id(buffer) for buffer in lent}
            for buffer in lent:
                buffer.release()
        assert known in (set(), found)
        known = found


def test_what_is_kept_makes_room_for_what_is_in_use():
    pool = BufferPool(2 * MIB, bytes_max=40 * MIB, timer=ManualTimer())
    for size in POOLED_SIZES:
        for buffer in lend(pool, 30 * MIB // size, size):
            buffer.release()
        assert 28 * MIB < pool.free_bytes <= 40 * MIB
    large = pool.take(5 * MIB)
    assert pool.free_bytes <= 35 * MIB
    large.grow(30 * MIB)
    assert pool.free_bytes <= 10 * MIB
    large.grow(100 * MIB)
    assert MIB < pool.free_bytes <= 2 * MIB
    large.release()
    for buffer in lend(pool, 60):
        buffer.release()
    assert 38 * MIB < pool.free_bytes <= 40 * MIB


steps = st.one_of(st.sampled_from(POOLED_SIZES), st.just(3 * MIB), st.just("give"), st.integers(1, 3_000).map(float))


@given(st.lists(steps, max_size=60))
def test_no_more_is_kept_than_the_budget_leaves_or_the_least(todo: list[int | str | float]):
    timer, least, budget = ManualTimer(), MIB, 6 * MIB
    pool = BufferPool(least, bytes_max=budget, timer=timer)
    lent: list[ReceiveBuffer] = []
    for step in todo:
        if isinstance(step, float):
            timer.advance(int(step))
        elif step == "give":
            if lent:
                lent.pop(0).release()
        else:
            assert isinstance(step, int)
            lent.append(pool.take(step))
        assert pool.in_use_bytes == sum(buffer.capacity for buffer in lent)
        assert pool.free_bytes == sum(size.capacity * len(size.free) for size in pool._sizes.values())
        assert pool.free_bytes <= least or pool.free_bytes + pool.in_use_bytes <= budget
    for buffer in lent:
        buffer.release()
    timer.advance(60_000)
    assert pool.free_bytes <= least


def test_a_buffer_of_an_odd_size_is_not_kept():
    pool = BufferPool()
    pool.take(LARGEST + 1).release()
    assert (pool.in_use_bytes, pool.free_bytes) == (0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are moved by Linux only; elsewhere the bytes are copied")
def test_an_unpooled_buffer_grows_and_keeps_what_is_in_it():
    pool = BufferPool()
    buffer = pool.take(2 * MIB)
    buffer.view[:5] = b"hello"
    assert buffer.grow(30 * MIB)
    assert bytes(buffer.view[:5]) == b"hello"
    buffer.view[-1] = 7
    assert pool.in_use_bytes == buffer.capacity == 30 * MIB
    buffer.release()
    assert pool.in_use_bytes == 0


def test_a_buffer_does_not_grow_under_others():
    pool = BufferPool()
    held = pool.take(2 * MIB)
    held.retain()
    assert not held.grow(4 * MIB)
    referenced = pool.take(2 * MIB)
    piece = referenced.view[10:20]
    assert not referenced.grow(4 * MIB)
    piece[0] = 1
    assert referenced.view[10] == 1
    assert not pool.take(SMALLEST).grow(MIB), "a pooled buffer keeps its size"


def test_whoever_asked_is_told_once_when_a_buffer_comes_back():
    pool = BufferPool()
    told: list[str] = []
    pool.on_return = lambda: told.append("pool")
    buffer = pool.take(1)
    buffer.on_return = lambda: told.append("buffer")
    buffer.release()
    pool.take(1).release()
    assert told == ["buffer", "pool", "pool"]
