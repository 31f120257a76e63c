"""What is pushed arrives, whatever the socket takes at a time, and is accounted for."""

import os
import socket
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.network.metrics import NetworkMetrics
from ottla.network.output_queue import OutputQueue
from ottla.network.receive_buffer import KIB
from ottla.network.transport import SocketTransport
from ottla.runtime.file_slice import FileSlice

CONTENT = os.urandom(512 * KIB)


class ChokingSocket:
    """Takes the given numbers of bytes, call by call; 0 is a full socket. Buffers only, no files."""

    def __init__(self, takes: Iterator[int], *, sends_files: bool = True) -> None:
        self.takes = takes
        self.sends_files = sends_files
        self.taken = bytearray()
        self.calls = 0

    def send(self, data: bytes, flags: int = 0) -> int:
        self.calls += 1
        take = next(self.takes)
        if not take:
            raise BlockingIOError
        self.taken += bytes(data[:take])
        return min(take, len(data))

    def sendmsg(self, buffers: list[bytes], ancillary: object = (), flags: int = 0) -> int:
        return self.send(b"".join(bytes(buffer) for buffer in buffers), flags)


def nobody_hears(piece: FileSlice) -> None:
    pass


def no_read_ahead(piece: FileSlice) -> None:
    pytest.fail(f"{piece} is in the page cache")


@pytest.fixture(scope="module")
def fd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path: Path = tmp_path_factory.mktemp("files") / "log"
    path.write_bytes(CONTENT)
    number = os.open(path, os.O_RDONLY)
    yield number
    os.close(number)


part = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=300).map(lambda data: memoryview(data)),
    st.integers(min_value=0, max_value=70_000).map(bytes),
    st.tuples(st.integers(min_value=0, max_value=400_000), st.integers(min_value=0, max_value=64 * KIB)),
)

large_slice = st.tuples(st.integers(0, 100_000), st.integers(64 * KIB, 400 * KIB))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(part, max_size=8), max_size=8), st.lists(st.integers(0, 100_000), min_size=1, max_size=10))
def test_whatever_the_socket_takes_at_a_time_all_arrives_in_order(
    fd: int, responses: list[list[bytes | memoryview | tuple[int, int]]], takes: list[int]
):
    _all_arrives_in_order(fd, responses, takes, sends_files=True)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(part | large_slice, max_size=8), max_size=8),
    st.lists(st.integers(0, 300_000), min_size=1, max_size=10),
)
def test_where_files_cannot_be_sent_they_are_read_and_all_arrives_in_order(
    fd: int, responses: list[list[bytes | memoryview | tuple[int, int]]], takes: list[int]
):
    _all_arrives_in_order(fd, responses, takes, sends_files=False)


def _all_arrives_in_order(
    fd: int, responses: list[list[bytes | memoryview | tuple[int, int]]], takes: list[int], *, sends_files: bool
) -> None:
    metrics = NetworkMetrics()
    queue = OutputQueue(no_read_ahead, nobody_hears, metrics)
    expected = bytearray()
    for response in responses:
        parts = [FileSlice(fd, *item, None) if isinstance(item, tuple) else item for item in response]
        queue.push(parts)
        for item in response:
            expected += CONTENT[item[0] : item[0] + item[1]] if isinstance(item, tuple) else item

    def endless() -> Iterator[int]:
        while True:
            yield from takes
            yield 40_000

    sock = ChokingSocket(endless(), sends_files=sends_files)
    assert metrics.out_bytes == queue.memory_bytes
    while queue.parts:
        sent_before = len(sock.taken)
        assert queue.write_to(sock) == len(sock.taken) - sent_before  # type: ignore[arg-type]
        assert metrics.out_bytes == queue.memory_bytes >= 0
    assert bytes(sock.taken) == bytes(expected)
    assert (queue.memory_bytes, metrics.bytes_out) == (0, len(expected))


def test_what_one_connection_sends_in_a_turn_is_limited(fd: int):
    queue = OutputQueue(no_read_ahead, nobody_hears, NetworkMetrics())
    queue.push((bytes(4096 * KIB), *[FileSlice(fd, 0, 60_000, None)] * 100))
    while queue.parts:
        assert queue.write_to(ChokingSocket(repeat(100_000))) <= 1024 * KIB + 100_000  # type: ignore[arg-type]


def test_small_parts_and_small_slices_leave_with_one_call(fd: int):
    queue = OutputQueue(no_read_ahead, nobody_hears, NetworkMetrics())
    for number in range(50):
        queue.push((b"header", FileSlice(fd, number * 100, 100, None)))
    sock = ChokingSocket(iter([1 << 20]))
    queue.write_to(sock)  # type: ignore[arg-type]
    assert sock.calls == 1
    assert not queue.parts


def test_slices_that_wait_take_no_memory_and_are_read_as_far_as_a_socket_takes(
    fd: int, monkeypatch: pytest.MonkeyPatch
):
    read: list[int] = []

    def read_cached(fd: int, position: int, size: int) -> bytes:
        read.append(size)
        return os.pread(fd, size, position)

    monkeypatch.setattr("ottla.network.output_queue.read_cached", read_cached)
    queue = OutputQueue(no_read_ahead, nobody_hears, NetworkMetrics())
    queue.push([FileSlice(fd, 0, 16 * KIB, None)] * 500)
    sock = ChokingSocket(iter([1, 5, 0]))
    queue.write_to(sock)  # type: ignore[arg-type]
    assert bytes(sock.taken) == CONTENT[:6]
    assert queue.memory_bytes <= 500 * 128
    assert sum(read) <= 3 * 144 * KIB, "of the three calls each"


def test_a_large_slice_goes_from_the_file_and_takes_no_memory(fd: int):
    queue = OutputQueue(no_read_ahead, nobody_hears, NetworkMetrics())
    queue.push((b"header", FileSlice(fd, 5, 400 * KIB, None), b"trailer"))
    left, right = socket.socketpair()
    received = bytearray()
    with left, right:
        left.setblocking(False)
        transport = SocketTransport.of(left)
        while queue.parts:
            queue.write_to(transport)
            assert queue.memory_bytes < 1_000
            received += right.recv(1 << 20)
    assert bytes(received) == b"header" + CONTENT[5 : 5 + 400 * KIB] + b"trailer"


def test_a_socket_that_took_less_of_a_file_than_it_was_offered_is_left_until_it_has_room(
    fd: int, monkeypatch: pytest.MonkeyPatch
):
    takes = iter([100 * KIB, 50 * KIB, 250 * KIB, 300 * KIB])
    offered: list[tuple[int, int]] = []

    def send_file(_socket: int, _fd: int, position: int, size: int) -> int:
        offered.append((position, size))
        return min(size, next(takes))

    monkeypatch.setattr("ottla.network.output_queue.send_file", send_file)
    queue = OutputQueue(no_read_ahead, nobody_hears, NetworkMetrics())
    queue.push((FileSlice(fd, 0, 400 * KIB, None), FileSlice(fd, 0, 300 * KIB, None)))
    with socket.socket() as sock:
        transport = SocketTransport.of(sock)
        for calls in (1, 2, 4):
            queue.write_to(transport)
            assert len(offered) == calls
    assert offered == [(0, 400 * KIB), (100 * KIB, 300 * KIB), (150 * KIB, 250 * KIB), (0, 300 * KIB)]
    assert not queue.parts


def test_what_somebody_else_has_sent_is_not_sent_again():
    whole = b"one" + b"two two" + b"3"
    for count in range(len(whole) + 1):
        metrics = NetworkMetrics()
        queue = OutputQueue(no_read_ahead, nobody_hears, metrics)
        queue.push((b"one", b"two two", b"3"))
        queue.sent(count)
        assert (metrics.bytes_out, metrics.out_bytes, queue.memory_bytes) == (count, *[len(whole) - count] * 2)
        sock = ChokingSocket(repeat(100))
        queue.write_to(sock)  # type: ignore[arg-type]
        assert bytes(sock.taken) == whole[count:]


def test_of_queues_that_were_sent_together_each_keeps_what_was_not_taken():
    metrics = NetworkMetrics()
    queues = [OutputQueue(no_read_ahead, nobody_hears, metrics) for _ in range(4)]
    for number, queue in enumerate(queues):
        queue.push((b"%d" % number * 3, b"more"))
    OutputQueue.sent_together(queues, {1: 0, 3: 5}, metrics)
    assert [queue.memory_bytes for queue in queues] == [0, 7, 0, 2]
    assert (metrics.bytes_out, metrics.out_bytes) == (7 + 0 + 7 + 5, 7 + 2)
    assert b"".join(bytes(part) for part in queues[3].parts) == b"re"  # type: ignore[arg-type]


def test_what_is_held_waits_as_well_but_is_not_forgotten_with_the_output():
    metrics = NetworkMetrics()
    queue = OutputQueue(no_read_ahead, nobody_hears, metrics)
    queue.append(b"ready")
    queue.hold(100)
    assert (queue.pending_bytes, metrics.out_bytes) == (105, 105)
    queue.clear()
    assert (queue.pending_bytes, metrics.out_bytes) == (100, 100)
    queue.hold(-100)
    assert (queue.pending_bytes, metrics.out_bytes) == (0, 0)
