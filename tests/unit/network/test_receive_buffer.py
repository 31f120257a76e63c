"""Leases and the pool: no buffer is lent twice, none is lost, and not too many are kept."""

import sys

import pytest

from ottla.network.receive_buffer import KIB, LARGEST, POOLED_SIZES, SMALLEST, BufferPool, pooled_size

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
