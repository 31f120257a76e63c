"""Frames come out whole and in order however their bytes come in, at the least memory."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.errors import InvalidInputError
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.receive_buffer import KIB, SMALLEST
from ottla.network.request_memory import RequestMemory
from ottla.runtime.timer import ManualTimer
from tests.fuzz.targets import frames
from tests.unit.network.peers import framed

MIB = 1024 * KIB


class Owner:
    """Stands in for a connection."""

    def __init__(self, memory: RequestMemory, frame_max_bytes: int = 100 * MIB) -> None:
        self.reader = LengthPrefixReader(memory, self, frame_max_bytes)
        self.resumed = 0
        self.stalled = 0

    def resume_for_memory(self) -> None:
        self.resumed += 1

    def close_for_memory(self, stalled_ms: int) -> None:
        self.stalled += 1

    def receive(self, data: bytes, at_most: int = 1 << 30) -> Iterator[bytes]:
        """As from a socket that holds `data`; each turn receives `at_most`."""
        rest = memoryview(data)
        while rest:
            window = self.reader.window()
            assert window is not None
            assert len(window)
            count = min(len(rest), len(window), at_most)
            window[:count] = rest[:count]
            rest = rest[count:]
            self.reader.received(count)
            while (frame := self.reader.next_frame()) is not None:
                yield bytes(frame)
            self.reader.trim()


def memory_of(budget_bytes: int = 256 * MIB) -> RequestMemory:
    timer = ManualTimer()
    return RequestMemory(budget_bytes, stalled_ms=10_000, clock=timer.clock, timer=timer, call_soon=lambda _: None)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.binary(max_size=20), st.lists(st.integers(0, 9), max_size=20))
def test_what_is_received_together_gives_the_same_frames(payloads: list[bytes], rest: bytes, sizes: list[int]):
    frames.check(bytes((len(sizes), *sizes)) + b"".join(map(framed, payloads)) + rest)


@pytest.mark.parametrize("size", [0, 1, 100, SMALLEST - 4, SMALLEST, 40_000, 300_000])
def test_frames_of_any_size_come_out_of_what_is_received_together_and_alone(size: int):
    small, large = framed(b"small"), framed(bytes(size))
    for sizes in ([], [1], [200], [255, 3]):
        if size < 1_000 or sizes != [1]:
            frames.check(bytes((len(sizes), *sizes)) + small + large * 3 + small * 3 + large)


def test_frames_that_arrive_byte_by_byte_are_whole():
    owner = Owner(memory_of())
    payloads = [b"", b"a", b"hello", bytes(300)]
    assert list(owner.receive(b"".join(map(framed, payloads)), at_most=1)) == payloads


def test_a_stream_split_at_any_byte_gives_the_same_frames():
    payloads = [b"first", b"", b"the second one", b"3"]
    stream = b"".join(map(framed, payloads))
    for split in range(len(stream) + 1):
        owner = Owner(memory_of())
        frames = list(owner.receive(stream[:split])) + list(owner.receive(stream[split:]))
        assert frames == payloads, f"split at {split}"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(min_value=0, max_value=200),
            st.integers(min_value=0, max_value=20 * KIB),
            st.sampled_from([64 * KIB, 255 * KIB, 256 * KIB, 300 * KIB, MIB, 1088 * KIB, 3 * MIB]),
        ),
        max_size=12,
    ),
    st.lists(st.integers(min_value=1, max_value=2 * MIB), min_size=1, max_size=20),
    st.booleans(),
)
def test_frames_of_all_sizes_survive_any_pieces_and_any_leases(sizes: list[int], pieces: list[int], keep: bool):
    """With every frame held until the end, no buffer may be used twice."""
    memory = memory_of()
    owner = Owner(memory)
    payloads = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    rest = memoryview(b"".join(map(framed, payloads)))
    smallest_piece = len(rest) // 300  # a stream of megabytes byte by byte would take too long
    frames = []
    buffers = []
    turn = 0
    while rest:
        window = owner.reader.window()
        assert window is not None
        count = min(len(rest), len(window), max(pieces[turn % len(pieces)], smallest_piece))
        turn += 1
        window[:count] = rest[:count]
        rest = rest[count:]
        owner.reader.received(count)
        while (frame := owner.reader.next_frame()) is not None:
            if keep:
                assert owner.reader.buffer is not None
                owner.reader.buffer.retain()
                buffers.append(owner.reader.buffer)
                frames.append(frame)
            else:
                frames.append(memoryview(bytes(frame)))
        owner.reader.trim()
    assert [bytes(frame) for frame in frames] == payloads
    for buffer in buffers:
        buffer.release()
    assert memory.pool.in_use_bytes == 0
    assert memory.assembling_bytes == 0


def test_an_announcement_alone_takes_no_memory():
    memory = memory_of()
    owners = [Owner(memory) for _ in range(2_000)]
    for owner in owners:
        assert list(owner.receive((100 * MIB).to_bytes(4, "big") + b"x")) == []
    assert memory.pool.in_use_bytes == 0
    assert memory.pool.free_bytes <= 64 * KIB


def test_a_growing_frame_has_at_most_twice_what_arrived_rounded_to_a_pooled_size():
    memory = memory_of()
    owner = Owner(memory)
    received = 0
    frame = framed(bytes(30 * MIB))
    for position in range(0, len(frame), 10_000):
        list(owner.receive(frame[position : position + 10_000]))
        received += 10_000
        assert memory.pool.in_use_bytes <= max(64 * KIB, 4 * received)
        if received > 2 * MIB:
            assert memory.pool.in_use_bytes <= 2 * received
    assert memory.pool.in_use_bytes == 0


def test_a_connection_that_waits_holds_no_buffer():
    memory = memory_of()
    owner = Owner(memory)
    list(owner.receive(framed(bytes(5_000)) * 100))
    assert memory.pool.in_use_bytes == 0
    list(owner.receive(framed(bytes(5_000))[:-1]))
    assert memory.pool.in_use_bytes == 0


def test_a_leased_frame_is_not_overwritten_by_what_comes_next():
    memory = memory_of()
    owner = Owner(memory)
    held = []
    for number in range(50):
        window = owner.reader.window()
        assert window is not None
        data = framed(bytes([number]) * 3_000)
        window[: len(data)] = data
        owner.reader.received(len(data))
        frame = owner.reader.next_frame()
        assert frame is not None
        assert owner.reader.buffer is not None
        owner.reader.buffer.retain()
        held.append((frame, owner.reader.buffer))
        owner.reader.trim()
    assert [bytes(frame) for frame, _ in held] == [bytes([number]) * 3_000 for number in range(50)]
    for _, buffer in held:
        buffer.release()
    assert memory.pool.in_use_bytes == 0


@pytest.mark.parametrize("begin", [0, 2_000, SMALLEST - 104, 100 * KIB])
def test_what_is_received_together_says_nothing_of_the_room_behind_a_leased_frame(begin: int):
    memory = memory_of()
    owner = Owner(memory)
    reader = owner.reader
    window = reader.window()
    assert window is not None
    data = framed(b"a" * 3_000)
    window[: len(data)] = data
    reader.received(len(data))
    leased = reader.next_frame()
    buffer = reader.buffer
    assert leased is not None
    assert buffer is not None
    buffer.retain()
    reader.trim()

    shared = memory.pool.take(128 * KIB)
    data = framed(b"b" * 100)
    shared.view[begin : begin + len(data)] = data
    reader.adopt(shared, begin, begin + len(data))
    assert reader.next_frame() == b"b" * 100
    reader.trim()
    shared.release()

    assert list(owner.receive(framed(b"c" * 9_000))) == [b"c" * 9_000], "a window without room looks as the peer's end"
    assert leased == b"a" * 3_000, "the log may not have written it yet"
    buffer.release()
    assert memory.pool.in_use_bytes == 0


def test_small_leased_requests_share_buffers():
    """A request of 100 bytes that waits for the disk must not hold a buffer of its own."""
    memory = memory_of()
    owner = Owner(memory)
    for _ in range(100):
        window = owner.reader.window()
        assert window is not None
        data = framed(bytes(100))
        window[: len(data)] = data
        owner.reader.received(len(data))
        assert owner.reader.next_frame() is not None
        assert owner.reader.buffer is not None
        owner.reader.buffer.retain()
        owner.reader.trim()
    assert memory.pool.in_use_bytes <= 2 * SMALLEST


def test_large_frames_of_one_connection_are_received_where_they_stay():
    """From the second one on, no byte is moved after it was received."""
    memory = memory_of()
    owner = Owner(memory)
    data = framed(bytes(MIB))
    list(owner.receive(data * 2))
    for _ in range(5):
        where = set()
        rest = len(data)
        while rest:
            window = owner.reader.window()
            assert window is not None
            count = min(rest, len(window))
            window[:count] = data[len(data) - rest :][:count]
            rest -= count
            where.add(id(owner.reader.buffer))
            owner.reader.received(count)
            frame = owner.reader.next_frame()
            owner.reader.trim()
        assert frame is not None
        assert len(where) == 1


def test_a_stream_of_large_frames_is_cut_where_it_is_received():
    """What is received beyond the end of a large frame would have to be moved."""
    owner = Owner(memory_of())
    data = framed(bytes(MIB))
    list(owner.receive(data))
    rest = memoryview(data * 6)
    position = 0
    while rest:
        window = owner.reader.window()
        assert window is not None
        count = min(len(rest), len(window))
        window[:count] = rest[:count]
        rest = rest[count:]
        begin, position = position, position + count
        assert position // len(data) == begin // len(data) or position % len(data) == 0
        owner.reader.received(count)
        while owner.reader.next_frame() is not None:
            pass
        owner.reader.trim()


@pytest.mark.parametrize(
    ("first_bytes", "said"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /x HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"\xff\xff\xff\xff", "negative length"),
        (b"\x7f\xff\xff\xff", "socket.request.max.bytes"),
        ((100 * MIB + 1).to_bytes(4, "big"), "socket.request.max.bytes"),
    ],
)
def test_a_length_that_cannot_be_is_refused_with_what_the_peer_seems_to_speak(first_bytes: bytes, said: str):
    with pytest.raises(InvalidInputError, match=said):
        list(Owner(memory_of()).receive(first_bytes))


def test_the_largest_length_is_allowed():
    assert list(Owner(memory_of(), frame_max_bytes=10).receive(framed(bytes(10)))) == [bytes(10)]


def test_what_is_closed_in_the_middle_gives_everything_back():
    memory = memory_of()
    owner = Owner(memory)
    list(owner.receive(framed(bytes(5 * MIB))[: 3 * MIB]))
    assert memory.assembling_bytes > 0
    owner.reader.close()
    assert (memory.pool.in_use_bytes, memory.assembling_bytes) == (0, 0)
