"""The time index against the file format and a naive search."""

import struct
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.time_index import TimeIndex, TimestampOffset

BASE = 1000
offered = st.lists(st.tuples(st.integers(0, 200), st.integers(BASE, BASE + 300)), max_size=60)


def filled(pairs: list[tuple[int, int]]) -> tuple[TimeIndex, list[tuple[int, int]]]:
    index, kept = TimeIndex(BASE, growing=True), []
    for timestamp, offset in pairs:
        if index.maybe_append(timestamp, offset):
            kept.append((timestamp, offset))
    return index, kept


def entries_of(index: TimeIndex) -> list[TimestampOffset]:
    return [index[number] for number in range(len(index))]


def test_an_entry_is_twelve_bytes_timestamp_and_relative_offset():
    index = TimeIndex(100, growing=True)
    assert index.maybe_append(1_700_000_000_123, 141) == struct.pack(">qi", 1_700_000_000_123, 41)
    assert index.last == TimestampOffset(1_700_000_000_123, 141)


@given(offered)
def test_timestamps_grow_strictly_and_offsets_never_go_back(pairs: list[tuple[int, int]]):
    index, kept = filled(pairs)
    assert entries_of(index) == kept
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(kept))


@given(offered, st.integers(-5, 220))
def test_lookup_finds_the_last_entry_at_or_before(pairs: list[tuple[int, int]], timestamp: int):
    index, kept = filled(pairs)
    expected = [pair for pair in kept if pair[0] <= timestamp]
    assert index.lookup(timestamp) == (expected[-1] if expected else (-1, BASE))


@given(offered, st.integers(BASE, BASE + 320))
def test_truncating_keeps_the_entries_below(pairs: list[tuple[int, int]], offset: int):
    index, kept = filled(pairs)
    index.truncate_to(offset)
    assert entries_of(index) == [pair for pair in kept if pair[1] < offset]


def test_what_goes_back_ends_the_sound_part():
    good = [(10, 5), (20, 5), (30, 9)]
    for bad in [(30, 10), (29, 12), (40, 8), (0, 0)]:
        index = TimeIndex(0, b"".join(struct.pack(">qi", *pair) for pair in [*good, bad, (90, 90)]))
        index.truncate_to_sound()
        assert entries_of(index) == good, bad


def test_an_index_of_nothing_has_no_timestamp():
    assert TimeIndex(7).last == (-1, 7)
    assert TimeIndex(7).looks_sound()
    assert not TimeIndex(0, struct.pack(">qi", 5, 1) + bytes(12)).looks_sound()
