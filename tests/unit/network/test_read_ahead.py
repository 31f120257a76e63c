"""What is asked for ahead of a reader: a window when it has to wait, half a window more when half of it is left."""

import pytest

from ottla.network.read_ahead import SEQUENTIAL_BYTES, WINDOW_BYTES, ReadAhead
from ottla.runtime.file_slice import FileSlice

MIB = 1 << 20
HALF = WINDOW_BYTES // 2


class File:
    """What holds a file open."""


class Reader:
    """Reads a file from a position on, a piece at a time."""

    def __init__(self, position: int = 0) -> None:
        self.file = File()
        self.position = position
        self.asked: list[tuple[int, int]] = []
        self.ahead = ReadAhead(lambda piece: self.asked.append((piece.position, piece.size)))

    def piece(self, size: int = MIB) -> FileSlice:
        piece = FileSlice(3, self.position, size, self.file)
        self.position += size
        return piece


def test_who_waits_for_the_disk_gets_a_window_behind_what_it_waits_for():
    reader = Reader(MIB)
    assert reader.ahead.missed(reader.piece())
    assert reader.asked == [(2 * MIB, WINDOW_BYTES)]
    assert not reader.ahead.missed(reader.piece()), "it is the same window"


@pytest.mark.parametrize("misses", [False, True], ids=["finds them", "has to wait again"])
def test_who_reads_on_has_between_half_a_window_and_a_window_ahead_of_it(misses: bool):
    reader = Reader(5 * MIB)
    reader.ahead.missed(reader.piece())
    ((begin, size),) = reader.asked
    end = begin + size
    reader.asked.clear()
    for _ in range(100):
        (reader.ahead.missed if misses else reader.ahead.found)(reader.piece())
        for position, size in reader.asked:
            assert (position, size) == (end, HALF), "without a gap, and nothing twice"
            end += size
        reader.asked.clear()
        assert HALF <= end - reader.position <= WINDOW_BYTES


def test_who_waits_elsewhere_in_the_file_gets_a_window_there():
    reader = Reader(100 * MIB)
    reader.ahead.missed(reader.piece())
    for position in (0, 200 * MIB):
        reader.position = position
        reader.ahead.missed(reader.piece())
        assert reader.asked[-1] == (position + MIB, WINDOW_BYTES)


def test_nothing_is_asked_for_whoever_reads_what_memory_holds():
    reader = Reader()
    for _ in range(100):
        reader.ahead.found(reader.piece())
    assert reader.asked == []


def test_a_small_read_is_no_reason_to_read_on():
    reader = Reader()
    assert not reader.ahead.missed(reader.piece(SEQUENTIAL_BYTES - 1))
    reader.ahead.found(reader.piece(HALF))
    assert reader.asked == []


def test_who_reads_elsewhere_in_the_file_moves_nothing():
    reader = Reader(100 * MIB)
    reader.ahead.missed(reader.piece())
    reader.asked.clear()
    for position in (0, 200 * MIB):
        reader.position = position
        reader.ahead.found(reader.piece())
    assert reader.asked == []


def test_a_file_that_nobody_has_open_is_forgotten():
    reader = Reader()
    reader.ahead.missed(reader.piece())
    reader.asked.clear()
    reader.file = File()
    reader.ahead.found(reader.piece(HALF + MIB))
    assert reader.asked == []
    assert not reader.ahead._ends
