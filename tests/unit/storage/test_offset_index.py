"""The offset index against the file format and a naive search."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.offset_index import OffsetIndex, OffsetPosition

BASE = 368_769
growing_pairs = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 100_000)), max_size=60).map(
    lambda steps: [
        (BASE - 1 + sum(o for o, _ in steps[: n + 1]), sum(p for _, p in steps[:n])) for n in range(len(steps))
    ]
)


def filled(pairs: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex(BASE, growing=True)
    for offset, position in pairs:
        index.append(offset, position)
    return index


def entries_of(index: OffsetIndex) -> list[OffsetPosition]:
    return [index[number] for number in range(len(index))]


def test_an_entry_is_eight_bytes_relative_offset_and_position():
    index = OffsetIndex(100, growing=True)
    assert index.append(107, 4310) == struct.pack(">ii", 7, 4310)
    assert index.to_bytes() == struct.pack(">ii", 7, 4310)
    assert index[0] == index[-1] == OffsetPosition(107, 4310)


@given(growing_pairs, st.integers(BASE - 10, BASE + 400_000))
def test_lookup_finds_the_last_entry_at_or_below(pairs: list[tuple[int, int]], offset: int):
    expected = [pair for pair in pairs if pair[0] <= offset]
    assert filled(pairs).lookup(offset) == (expected[-1] if expected else (BASE, 0))


@given(growing_pairs, st.integers(0, 7_000_000))
def test_the_place_before_another_is_that_of_the_last_entry_not_behind_it(pairs: list[tuple[int, int]], position: int):
    assert filled(pairs).position_at(position) == max((each for _, each in pairs if each <= position), default=0)


@given(growing_pairs, st.integers(BASE - 10, BASE + 400_000))
def test_truncating_keeps_the_entries_below_and_goes_on_growing(pairs: list[tuple[int, int]], offset: int):
    index = filled(pairs)
    index.truncate_to(offset)
    assert entries_of(index) == [pair for pair in pairs if pair[0] < offset]
    index.append(BASE + 10**6, 10**8)
    assert index[-1] == (BASE + 10**6, 10**8)


def test_what_cannot_be_right_ends_the_sound_part():
    good = [(5, 0), (9, 100), (20, 300)]
    for bad in [(20, 400), (21, 300), (0, 0), (-5, 500), (30, 1000), (30, -1)]:
        data = b"".join(struct.pack(">ii", *pair) for pair in [*good, bad, (40, 900)])
        index = OffsetIndex(0, data)
        index.truncate_to_sound(log_size=1000)
        assert entries_of(index) == good, bad


def test_a_torn_last_entry_is_dropped():
    index = OffsetIndex(0, struct.pack(">ii", 5, 0) + b"\0\0\0")
    assert not index.looks_sound(log_size=1000)
    index.truncate_to_sound(log_size=1000)
    assert index.to_bytes() == struct.pack(">ii", 5, 0)


def test_a_file_padded_with_zeros_does_not_look_sound():
    assert not OffsetIndex(0, struct.pack(">ii", 5, 10) + bytes(80)).looks_sound(log_size=1000)
    assert OffsetIndex(0, struct.pack(">iiii", 5, 10, 9, 20)).looks_sound(log_size=1000)
    assert OffsetIndex(0).looks_sound(log_size=0)
