"""A stream in pieces of any size, through the broker's reader of frames, alone and from what was received together, and
the client's: the frames are what was sent.

how many pieces, 1 byte | size of each piece, 1 byte, times itself | the stream
"""

import struct
from collections.abc import Iterator

from ottla.client.errors import ProtocolViolationError
from ottla.client.io.frame_reader import FrameReader as ClientFrameReader
from ottla.model.errors import InvalidInputError
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.reactor import SHARE_BYTES, TURN_BYTES
from ottla.network.receive_buffer import KIB, SMALLEST
from ottla.network.request_memory import RequestMemory
from ottla.runtime.timer import ManualTimer

FRAME_MAX_BYTES = 1 << 20
BUDGET_BYTES = 1 << 20


class Owner:
    """Stands in for a connection."""

    def __init__(self) -> None:
        self.resumed = 0

    def resume_for_memory(self) -> None:
        """There is only one reader: it never waits."""
        self.resumed += 1

    def close_for_memory(self, stalled_ms: int) -> None:
        """Nor is it in the way of others."""
        raise AssertionError(f"closed after {stalled_ms} ms")


def check(data: bytes) -> None:
    """See the top of the file."""
    if not data:
        return
    sizes = [size * size for size in data[1 : 1 + data[0]]] or [1 << 20]
    stream = data[1 + data[0] :]
    frames, is_refused = plain_frames(stream)
    for reader in (brokers_frames, shared_frames, clients_frames):
        found: list[bytes] = []
        try:
            found.extend(reader(stream, sizes))
        except (InvalidInputError, ProtocolViolationError):
            assert is_refused, f"{reader.__name__} refused a stream of {len(frames)} frames"
            assert frames[: len(found)] == found
        else:
            assert found == frames, reader.__name__
            assert not is_refused, f"{reader.__name__} did not refuse"


def plain_frames(stream: bytes) -> tuple[list[bytes], bool]:
    """The whole frames at the start of a stream, and whether a length that nobody may send comes after them."""
    frames, position = [], 0
    while position + 4 <= len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        if not 0 <= size <= FRAME_MAX_BYTES:
            return frames, True
        if position + 4 + size > len(stream):
            break
        frames.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return frames, False


def pieces(stream: bytes, sizes: list[int]) -> Iterator[memoryview]:
    """The stream in pieces of at least one byte, the sizes over and over."""
    rest, index = memoryview(stream), 0
    while rest:
        size = max(sizes[index % len(sizes)], 1)
        yield rest[:size]
        rest, index = rest[size:], index + 1


def request_memory() -> RequestMemory:
    timer = ManualTimer()
    return RequestMemory(BUDGET_BYTES, stalled_ms=10_000, clock=timer.clock, timer=timer, call_soon=lambda wake: wake())


def shared_frames(stream: bytes, sizes: list[int]) -> Iterator[bytes]:
    """As a connection of the broker gets it from what was received together, and reads on by itself where it has to."""
    memory = request_memory()
    reader = LengthPrefixReader(memory, Owner(), FRAME_MAX_BYTES)
    shared = memory.pool.take(TURN_BYTES)
    begin = 0
    for piece in pieces(stream, sizes):
        rest = piece
        while rest:
            frame: memoryview | None
            if reader.is_at_rest:
                count = min(len(rest), SHARE_BYTES)
                begin = (begin + 1) % (TURN_BYTES - SHARE_BYTES)
                shared.view[begin : begin + count] = rest[:count]
                frame = reader.only_frame(shared, begin, begin + count)
                if frame is None:
                    reader.adopt(shared, begin, begin + count)
            else:
                window = reader.window()
                assert window is not None, "the only reader is refused"
                count = min(len(window), len(rest))
                window[:count] = rest[:count]
                reader.received(count)
                frame = None
            rest = rest[count:]
            if frame is not None:
                yield bytes(frame)
            while (frame := reader.next_frame()) is not None:
                yield bytes(frame)
            reader.trim()
            shared.view[begin : begin + SHARE_BYTES] = bytes(SHARE_BYTES)
    reader.close()
    shared.release()
    assert not memory.pool.in_use_bytes


def brokers_frames(stream: bytes, sizes: list[int]) -> Iterator[bytes]:
    """As a connection of the broker reads it; never holds more than what has arrived has earned."""
    memory = request_memory()
    reader = LengthPrefixReader(memory, Owner(), FRAME_MAX_BYTES)
    arrived = 0
    for piece in pieces(stream, sizes):
        rest = piece
        while rest:
            window = reader.window()
            assert window is not None, "the only reader is refused"
            count = min(len(window), len(rest))
            assert count
            window[:count] = rest[:count]
            rest = rest[count:]
            arrived += count
            reader.received(count)
            while (frame := reader.next_frame()) is not None:
                yield bytes(frame)
            reader.trim()
            held = reader.buffer.capacity if reader.buffer else 0
            assert held <= max(256 * KIB, 4 * arrived) + SMALLEST, (held, arrived)
    reader.close()


def clients_frames(stream: bytes, sizes: list[int]) -> Iterator[bytes]:
    """As the client reads it."""
    reader = ClientFrameReader(FRAME_MAX_BYTES)
    for piece in pieces(stream, sizes):
        rest = piece
        while rest:
            window = reader.buffer()
            count = min(len(window), len(rest))
            assert count, "no room to receive into"
            window[:count] = rest[:count]
            rest = rest[count:]
            yield from map(bytes, reader.received(count))
