"""Frames come out whole and in order, however the bytes arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.errors import ProtocolViolationError
from ottla.client.io.frame_reader import SCRATCH_BYTES, FrameReader


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def receive(reader: FrameReader, data: bytes, sizes: list[int]) -> list[bytes]:
    """Feed `data` in pieces of these sizes, over and over, as a socket would."""
    found = []
    position = turn = 0
    while position < len(data):
        room = reader.buffer()
        count = min(len(room), sizes[turn % len(sizes)], len(data) - position)
        room[:count] = data[position : position + count]
        found += [bytes(each) for each in reader.received(count)]
        position += count
        turn += 1
    return found


sizes = st.one_of(st.integers(0, 50), st.integers(SCRATCH_BYTES - 8, SCRATCH_BYTES + 8), st.just(3 * SCRATCH_BYTES))
pieces = st.lists(st.sampled_from([1, 2, 5, 700, 4_096, SCRATCH_BYTES]), max_size=5)


@settings(deadline=None)
@given(st.lists(sizes, max_size=6), pieces)
def test_frames_are_cut_the_same_however_the_bytes_arrive(sizes, pieces):
    reader = FrameReader(max_frame_bytes=1 << 20)
    frames = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    found = receive(reader, b"".join(map(frame, frames)), [*pieces, SCRATCH_BYTES])
    assert [(len(each), each[:1]) for each in found] == [(len(each), each[:1]) for each in frames]
    assert found == frames


def test_a_frame_is_the_callers_to_keep():
    reader = FrameReader(max_frame_bytes=100)
    [first] = _views(reader, frame(b"first"))
    _views(reader, frame(b"other"))
    assert bytes(first) == b"first"


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (bytes([0, 0, 0, 101]), "a response of 101 bytes, and the limit is 100"),
        (b"\xff" * 4, "a response of -1 bytes"),
        (b"HTTP", "it is HTTP"),
        (b"\x15\x03\x03\x00", "it is a TLS alert"),
    ],
)
def test_a_length_beyond_the_limit_ends_the_stream_before_anything_is_allocated(first, reason):
    reader = FrameReader(max_frame_bytes=100)
    with pytest.raises(ProtocolViolationError, match=reason):
        _views(reader, first)


def test_a_frame_of_just_the_limit_passes():
    reader = FrameReader(max_frame_bytes=SCRATCH_BYTES * 2)
    assert receive(reader, frame(b"y" * SCRATCH_BYTES * 2), [SCRATCH_BYTES]) == [b"y" * SCRATCH_BYTES * 2]


def _views(reader: FrameReader, data: bytes) -> list[memoryview]:
    reader.buffer()[: len(data)] = data
    return reader.received(len(data))
