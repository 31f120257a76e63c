"""What clients rely on, over real sockets."""

import asyncio
import gc
import os
import socket
import struct
import threading
from array import array
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ottla.model.errors import InvalidInputError
from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.connection_state import State
from ottla.network.reactor import TURN_BYTES
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from ottla.runtime.cork import NoCork
from ottla.runtime.file_slice import FileSlice
from tests.unit.network.peers import Collect, Echo, OpenListener, Peer, framed, opened, turns, until

MIB = 1024 * KIB


async def test_pipelined_requests_are_answered_in_order():
    async with opened() as server:
        peer = await server.peer()
        await peer.send(b"".join(framed(b"request %d" % number) for number in range(500)))
        assert [await peer.receive_frame() for _ in range(500)] == [b"request %d" % n for n in range(500)]


async def test_answers_given_out_of_order_leave_in_the_order_of_the_requests():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b") + framed(b"c"))
        await until(lambda: len(handler.requests) == 3)
        handler.answer(2)
        handler.answer(1)
        await turns()
        assert server.listener.metrics.bytes_out == 0
        handler.answer(0)
        assert [await peer.receive_frame() for _ in range(3)] == [b"a", b"b", b"c"]


class Gathering(NoCork):
    """Answers all requests of a run at its end, newest first; knows what the connection had sent by then."""

    def __init__(self) -> None:
        self.server: OpenListener | None = None
        self.runs: list[int] = []
        self._answered = 0

    def cork(self) -> None:
        """Nothing yet."""

    def uncork(self) -> None:
        assert self.server is not None
        for handler in self.server.handlers:
            waiting = range(self._answered, len(handler.requests))
            for number in reversed(waiting):
                handler.answer(number)
            self._answered = len(handler.requests)
            self.runs.append(len(waiting))

    def uncork_now(self) -> None:
        self.uncork()


async def test_what_is_gathered_from_requests_that_came_together_is_done_once_and_answered_together():
    cork = Gathering()
    async with opened(Collect, cork=cork) as server:
        cork.server = server
        peer = await server.peer()
        await peer.send(b"".join(framed(bytes([number])) for number in range(5)))
        assert [await peer.receive_frame() for _ in range(5)] == [bytes([number]) for number in range(5)]
        assert [count for count in cork.runs if count] == [5]


@pytest.mark.parametrize("order", list(permutations(range(4))))
async def test_in_whatever_order_answers_are_given(order: tuple[int, ...]):
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"".join(framed(bytes([number])) for number in range(4)))
        await until(lambda: len(handler.requests) == 4)
        for number in order:
            handler.answer(number)
            await turns(3)
        assert [await peer.receive_frame() for _ in range(4)] == [bytes([number]) for number in range(4)]


async def test_a_request_without_response_leaves_no_gap():
    class Odd(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            if frame[0] % 2:
                slot.send((framed(bytes(frame)),))
            else:
                slot.skip()

    async with opened(Odd) as server:
        peer = await server.peer()
        await peer.send(b"".join(framed(bytes([number])) for number in range(6)))
        assert [await peer.receive_frame() for _ in range(3)] == [b"\1", b"\3", b"\5"]


async def test_a_request_split_at_every_byte_boundary_is_served():
    async with opened() as server:
        peer = await server.peer()
        for byte in framed(b"byte by byte"):
            await peer.send(bytes([byte]))
            await turns(3)
        assert await peer.receive_frame() == b"byte by byte"


async def test_a_request_of_megabytes_arrives_whole():
    payload = bytes(range(256)) * (40 * KIB)
    async with opened() as server:
        peer = await server.peer()
        sending = asyncio.ensure_future(peer.send(framed(payload)))
        assert await peer.receive_frame() == payload
        await sending
        assert server.memory.pool.in_use_bytes == 0


async def test_the_frame_is_writable_and_stays_while_it_is_retained():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        for number in range(30):
            await peer.send(framed(bytes([number]) * 2_000))
            await until(partial(lambda count: len(handler.requests) == count, number + 1))
        assert handler.payloads == [bytes([number]) * 2_000 for number in range(30)]
        handler.requests[0][0][:3] = b"abc"
        handler.answer(0)
        assert (await peer.receive_frame())[:3] == b"abc"
        for number in range(1, 30):
            handler.answer(number)
        assert server.memory.pool.in_use_bytes == 0


async def test_2000_connections_that_announce_100_mb_and_send_a_byte_cost_next_to_nothing():
    """Scaled to the file descriptors of a test: the memory of each does not depend on their number."""
    async with opened() as server:
        peers = [await server.peer() for _ in range(200)]
        for peer in peers:
            await peer.send(struct.pack(">i", 100 * MIB) + b"x")
        await until(lambda: server.listener.metrics.bytes_in == 5 * len(peers))
        assert server.memory.pool.in_use_bytes == 0
        assert server.memory.pool.free_bytes <= TURN_BYTES
        for peer in peers:
            peer.close()


async def test_idle_connections_hold_no_buffer():
    async with opened() as server:
        peers = [await server.peer() for _ in range(50)]
        for peer in peers:
            await peer.send(framed(b"hello"))
            assert await peer.receive_frame() == b"hello"
        assert server.memory.pool.in_use_bytes == 0
        for peer in peers:
            peer.close()


@pytest.mark.parametrize(
    ("first_bytes", "said"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x00\xf1\x01\x00", "TLS handshake"),
        (b"\xff\xff\xff\xff", "negative length"),
        (b"\x7f\xff\xff\xff\x00", "larger than socket.request.max.bytes"),
    ],
)
async def test_a_peer_of_another_protocol_is_closed_with_one_line_that_says_so(
    first_bytes: bytes, said: str, caplog: pytest.LogCaptureFixture
):
    async with opened() as server:
        peer = await server.peer()
        await peer.send(first_bytes)
        assert await peer.receive_end() == b""
        host, port = peer.sock.getsockname()
        assert len(caplog.messages) == 1
        assert said in caplog.messages[0]
        assert f"{host}:{port}" in caplog.messages[0]


async def test_a_hundred_bad_peers_do_not_flood_the_log(caplog: pytest.LogCaptureFixture):
    async with opened() as server:
        for _ in range(100):
            peer = await server.peer()
            await peer.send(b"\xff\xff\xff\xff")
            await peer.receive_end()
            peer.close()
        assert len(caplog.messages) <= 10
        server.timer.advance(60_000)
        peer = await server.peer()
        await peer.send(b"\xff\xff\xff\xff")
        await peer.receive_end()
        assert any("90 more such lines" in message for message in caplog.messages)


async def test_requests_before_a_broken_one_are_answered(caplog: pytest.LogCaptureFixture):
    async with opened() as server:
        peer = await server.peer()
        await peer.send(framed(b"good") + b"\xff\xff\xff\xff")
        assert await peer.receive_end() == framed(b"good")


async def test_an_invalid_request_closes_with_one_line_and_a_crash_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
):
    class Strict(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            if frame == b"invalid":
                raise InvalidInputError("there is no API 9999")
            raise RuntimeError("our own fault")

    async with opened(Strict) as server:
        for payload, said in ((b"invalid", "there is no API 9999"), (b"crash", "our own fault")):
            caplog.clear()
            peer = await server.peer()
            await peer.send(framed(payload))
            assert await peer.receive_end() == b""
            assert said in caplog.text
            assert ("Traceback" in caplog.text) == (payload == b"crash")
        assert [handler.closed for handler in server.handlers] == [1, 1]


# Back-pressure.


async def test_no_more_requests_are_read_than_may_be_unanswered_and_all_are_served_in_the_end():
    async with opened(Collect, NetworkConfig(in_flight_requests_max=10)) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"".join(framed(b"%d" % number) for number in range(1_000)))
        await until(lambda: len(handler.requests) == 10)
        await turns()
        assert len(handler.requests) == 10
        received = asyncio.ensure_future(peer.receive(len(b"".join(framed(b"%d" % n) for n in range(1_000)))))
        answered = 0
        while answered < 1_000:
            await until(lambda: len(handler.requests) > answered)  # noqa: B023
            assert len(handler.requests) - answered <= 10
            handler.answer(answered)
            answered += 1
        assert await received == b"".join(framed(b"%d" % number) for number in range(1_000))
        assert server.memory.pool.in_use_bytes == 0


async def test_a_peer_that_never_reads_costs_a_bounded_amount_of_memory():
    class Amplifying(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((framed(bytes(50_000)),))

    config = NetworkConfig(out_bytes_max=200_000, socket_send_buffer_bytes=64 * KIB)
    async with opened(Amplifying, config) as server:
        peer = await server.peer(receive_buffer_bytes=16 * KIB)
        requests = framed(b"12345678") * 20_000
        sending = asyncio.ensure_future(peer.send(requests))
        (connection,) = server.listener.connections
        await until(lambda: connection.state is State.PAUSED)
        await turns(200)
        assert connection.state is State.PAUSED
        assert connection.pending_bytes <= 200_000 + 50_004
        assert server.listener.metrics.out_bytes == connection.pending_bytes
        served = server.listener.metrics.requests
        await peer.receive(50_004 * served)
        await until(lambda: server.listener.metrics.requests > served)
        sending.cancel()
        peer.close()
        await until(lambda: not server.listener.connections)
        assert server.listener.metrics.out_bytes == 0
        assert server.memory.pool.in_use_bytes == 0


async def test_many_peers_that_never_read_get_less_each():
    class Amplifying(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((framed(bytes(10_000)),))

    config = NetworkConfig(out_bytes_max=160_000, out_bytes_total_max=500_000, socket_send_buffer_bytes=16 * KIB)
    async with opened(Amplifying, config) as server:
        peers = [await server.peer(receive_buffer_bytes=8 * KIB) for _ in range(30)]
        for peer in peers:
            await peer.send(framed(b"12345678") * 1_000)
        await until(lambda: all(connection.state is not State.OPEN for connection in server.listener.connections))
        assert server.listener.metrics.out_bytes <= 500_000 + 170_000 + 30 * 20_008
        for peer in peers:
            peer.close()


async def test_answers_behind_an_open_request_count_as_memory_and_stop_the_reading():
    class FirstIsOpen(Collect):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            super().on_frame(frame, buffer, slot)
            if len(self.requests) > 1:
                self.answer(len(self.requests) - 1, bytes(50_000))

    async with opened(FirstIsOpen, NetworkConfig(out_bytes_max=200_000)) as server:
        peer = await server.peer()
        await peer.send(framed(b"12345678") * 100)
        (connection,) = server.listener.connections
        await until(lambda: connection.state is State.PAUSED)
        assert 200_000 < connection.pending_bytes <= 200_000 + 50_004
        assert server.listener.metrics.out_bytes == connection.pending_bytes
        (handler,) = server.handlers
        handler.answer(0)
        assert await peer.receive_frame() == b"12345678"
        for _ in range(99):
            assert await peer.receive_frame() == bytes(50_000)
        assert (connection.pending_bytes, server.listener.metrics.out_bytes) == (0, 0)


async def test_a_connection_that_goes_with_answers_behind_an_open_request_leaves_no_count():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b"))
        await until(lambda: len(handler.requests) == 2)
        handler.answer(1, bytes(10_000))
        assert server.listener.metrics.out_bytes == 10_004
        handler.connection.close()
        assert server.listener.metrics.out_bytes == 0


async def test_those_who_never_read_make_room_when_all_together_hold_too_much(caplog: pytest.LogCaptureFixture):
    class Large(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((framed(bytes(1_000_000)),))

    config = NetworkConfig(out_bytes_max=16_000, out_bytes_total_max=5 * MIB, socket_send_buffer_bytes=16 * KIB)
    async with opened(Large, config) as server:
        most = 0
        deaf = []
        for _ in range(40):
            server.timer.advance(10)
            deaf.append(await server.peer(receive_buffer_bytes=8 * KIB))
            requests = server.listener.metrics.requests
            await deaf[-1].send(framed(b"all of it"))
            await until(lambda: server.listener.metrics.requests > requests)  # noqa: B023
            most = max(most, server.listener.metrics.out_bytes)
        assert config.out_bytes_total_max < most <= config.out_bytes_hard_max + 1_000_004
        left = [connection.peer for connection in server.listener.connections]
        assert 5 <= len(left) <= 11
        assert {peer.port for peer in left} == {peer.sock.getsockname()[1] for peer in deaf[-len(left) :]}
        reader = await server.peer()
        await reader.send(framed(b"all of it"))
        assert len(await reader.receive_frame()) == 1_000_000
    assert "has not taken" in caplog.text


async def test_one_fast_producer_does_not_keep_the_others_waiting():
    """Between two receipts from the fast one, the other is served."""
    order: list[int] = []

    class Recording(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            order.append(len(frame))
            slot.skip()

    async with opened(Recording) as server:
        fast, slow = await server.peer(), await server.peer()
        flood = asyncio.ensure_future(fast.send(framed(bytes(100 * KIB)) * 400))
        await until(lambda: len(order) > 20)
        await slow.send(framed(b"slow"))
        await until(lambda: 4 in order)
        assert len(order) < 200
        flood.cancel()
        fast.close()
        slow.close()


# Files.


def pattern(size: int) -> bytes:
    return array("I", range(size // 4)).tobytes()


class Files(Echo):
    """Answers with a header, two slices of a file and a trailer."""

    fd = -1
    slices: tuple[tuple[int, int], ...] = ()

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        pieces = [FileSlice(self.fd, position, size, self) for position, size in self.slices]
        total = sum(size for _, size in self.slices)
        slot.send((struct.pack(">i", total + 8), b"head", *pieces, b"tail"))


@pytest.mark.parametrize(
    "slices",
    [
        ((0, 10), (20, 10)),
        ((0, 64 * KIB), (100_000, 64 * KIB + 1), (200_000, 5)),
        ((4_000, 0), (8_000, 100_000)),
        ((12, 3 * MIB), (5 * MIB, 2 * MIB)),
        tuple((position * 5_000, 4_000) for position in range(600)),
    ],
)
async def test_slices_of_files_arrive_between_the_other_parts(slices: tuple[tuple[int, int], ...], tmp_path: Path):
    content = pattern(8 * MIB)
    (tmp_path / "log").write_bytes(content)
    with (tmp_path / "log").open("rb") as file:
        handler = type("Handler", (Files,), {"fd": file.fileno(), "slices": slices})
        # Small socket buffers, so that each call sends only a part.
        async with opened(handler, NetworkConfig(socket_send_buffer_bytes=32 * KIB)) as server:
            peer = await server.peer(receive_buffer_bytes=32 * KIB)
            await peer.send(framed(b"1") + framed(b"2"))
            expected = b"head" + b"".join(content[p : p + s] for p, s in slices) + b"tail"
            assert await peer.receive_frame() == expected
            assert await peer.receive_frame() == expected
            (connection,) = server.listener.connections
            assert connection.pending_bytes == 0


class ColdPages:
    """A page cache in which 64 KiB blocks are missing until they are read into it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warm: set[int] = set()
        self.read_ahead: list[tuple[int, int]] = []
        self.left_alone: set[int] = set()
        monkeypatch.setattr("ottla.network.listener.read_what_is_asked_for", self.left_alone.add)
        monkeypatch.setattr("ottla.network.output_queue.is_in_page_cache", self.is_in_page_cache)
        monkeypatch.setattr("ottla.network.output_queue.read_cached", self.read_cached)
        monkeypatch.setattr("ottla.network.listener.read_into_page_cache", self.read_into_page_cache)

    def blocks(self, position: int, size: int) -> set[int]:
        return set(range(position // (64 * KIB), (position + size - 1) // (64 * KIB) + 1))

    def is_in_page_cache(self, _fd: int, position: int, size: int) -> bool:
        return self.blocks(position, size) <= self.warm

    def read_cached(self, fd: int, position: int, size: int) -> bytes | None:
        return os.pread(fd, size, position) if self.is_in_page_cache(fd, position, size) else None

    def read_into_page_cache(self, _fd: int, position: int, size: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.read_ahead.append((position, size))
        self.warm |= self.blocks(position, size)


@pytest.mark.parametrize(
    ("slices", "waits"),
    [(((0, 3 * MIB),), 3), (((0, 5_000), (2 * MIB, 5_000), (MIB, 300_000), (2 * MIB + 9, 9)), 3), (((0, 5_000),), 1)],
)
async def test_a_slice_that_is_not_in_the_page_cache_is_read_in_a_thread(
    slices: tuple[tuple[int, int], ...], waits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    content = pattern(4 * MIB)
    (tmp_path / "log").write_bytes(content)
    pages = ColdPages(monkeypatch)
    with (tmp_path / "log").open("rb") as file:
        handler = type("Handler", (Files,), {"fd": file.fileno(), "slices": slices})
        async with opened(handler) as server:
            peer = await server.peer()
            await peer.send(framed(b"1") + framed(b"2"))
            for _ in range(2):
                assert await peer.receive_frame() == b"head" + b"".join(content[p : p + s] for p, s in slices) + b"tail"
        assert pages.left_alone == ({file.fileno()} if waits > 1 else set()), "the system need not read on"
    assert len(pages.read_ahead) == waits
    assert max(size for _, size in pages.read_ahead) <= MIB


async def test_a_connection_may_close_while_its_file_is_being_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "log").write_bytes(pattern(MIB))
    pages = ColdPages(monkeypatch)
    begun, go_on = threading.Event(), threading.Event()

    def read_slowly(fd: int, position: int, size: int) -> None:
        begun.set()
        assert go_on.wait(60)
        pages.read_into_page_cache(fd, position, size)

    monkeypatch.setattr("ottla.network.listener.read_into_page_cache", read_slowly)
    with (tmp_path / "log").open("rb") as file:
        handler = type("Handler", (Files,), {"fd": file.fileno(), "slices": ((0, MIB),)})
        async with opened(handler) as server:
            peer = await server.peer()
            await peer.send(framed(b"1"))
            await until(begun.is_set)
            peer.reset()
            await until(lambda: not server.listener.connections)
            go_on.set()
            await until(lambda: pages.read_ahead)
            await turns()


@pytest.mark.parametrize("size", [100, 100_000])
async def test_a_file_that_ends_too_early_closes_the_connection_and_says_so(
    size: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "log").write_bytes(b"short")
    with (tmp_path / "log").open("rb") as file:
        handler = type("Handler", (Files,), {"fd": file.fileno(), "slices": ((0, size),)})
        async with opened(handler) as server:
            peer = await server.peer()
            await peer.send(framed(b"1"))
            assert len(await peer.receive_end()) < size
            assert "ends before position 5" in caplog.text


@pytest.mark.slow
async def test_the_owner_of_a_slice_is_let_go_when_it_is_sent_and_when_the_connection_closes(tmp_path: Path):
    (tmp_path / "log").write_bytes(pattern(4 * MIB))
    released: list[str] = []

    class Segment:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            released.append(self.name)

    with (tmp_path / "log").open("rb") as file:

        class Owning(Echo):
            def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
                size = 4 if frame == b"sent" else 4 * MIB
                slot.send((FileSlice(file.fileno(), 0, size, Segment(bytes(frame).decode())),))

        async with opened(Owning, NetworkConfig(socket_send_buffer_bytes=32 * KIB)) as server:
            peer = await server.peer(receive_buffer_bytes=16 * KIB)
            await peer.send(framed(b"sent"))
            await peer.receive(4)
            await until(lambda: gc.collect() >= 0 and released == ["sent"])
            await peer.send(framed(b"unsent"))
            await until(lambda: server.listener.metrics.bytes_out > 4)
            peer.close()
            await until(lambda: gc.collect() >= 0 and released == ["sent", "unsent"])


async def test_responses_of_a_peer_that_hung_up_are_free_at_once_and_not_when_garbage_is_collected():
    class Response(bytearray):
        def __del__(self) -> None:
            freed.append(len(self))

    class Large(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((Response(framed(bytes(MIB))),))

    freed: list[int] = []
    async with opened(Large, NetworkConfig(out_bytes_max=64 * KIB, socket_send_buffer_bytes=16 * KIB)) as server:
        peer = await server.peer(receive_buffer_bytes=8 * KIB)
        await peer.send(framed(b"all of it") * 3)
        (connection,) = server.listener.connections
        await until(lambda: server.listener.metrics.requests == 1 and connection.state is State.PAUSED)
        gc.disable()
        try:
            peer.reset()
            await until(lambda: not server.listener.connections)
            assert freed == [MIB + 4]
        finally:
            gc.enable()


# The end of a connection.


async def test_answers_after_the_peer_has_gone_are_ignored_and_buffers_come_back():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b"))
        await until(lambda: len(handler.requests) == 2)
        peer.reset()
        await until(lambda: not server.listener.connections)
        assert handler.closed == 1
        assert handler.payloads == [b"a", b"b"], "retained bytes outlive the connection"
        handler.answer(1)
        handler.answer(0)
        assert server.memory.pool.in_use_bytes == 0
        await turns()


async def test_a_handler_may_close_its_connection_from_within_a_request():
    class Closing(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            self.connection.close("as the handler wished")
            slot.send((framed(b"too late"),))

    async with opened(Closing) as server:
        peer = await server.peer()
        await peer.send(framed(b"a") + framed(b"b"))
        assert await peer.receive_end() == b""
        (handler,) = server.handlers
        assert handler.closed == 1
        assert server.listener.metrics.requests == 1


async def test_closing_twice_tells_the_handler_once():
    async with opened() as server:
        await server.peer()
        (connection,) = server.listener.connections
        connection.close()
        connection.close()
        assert server.handlers[0].closed == 1
        assert server.listener.metrics.connections_open == 0


async def test_a_request_is_answered_once():
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        handler.answer(0)
        with pytest.raises(AssertionError, match="once"):
            handler.requests[0][2].skip()


async def test_a_reset_by_the_peer_is_no_news(caplog: pytest.LogCaptureFixture):
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        await until(lambda: server.handlers[0].requests)
        peer.reset()
        await until(lambda: not server.listener.connections)
        assert caplog.text == ""


async def test_an_answer_to_a_peer_that_was_reset_just_before_is_no_news_either(caplog: pytest.LogCaptureFixture):
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        await until(lambda: server.handlers[0].requests)
        peer.reset()
        server.handlers[0].answer(0)
        await until(lambda: not server.listener.connections)
        assert (caplog.text, server.handlers[0].closed, server.listener.metrics.out_bytes) == ("", 1, 0)


async def without_reset(peer: Peer) -> bytes:
    """What comes until the other side closes, which it does in order."""
    data = bytearray()
    async with asyncio.timeout(60):
        while piece := await peer.loop.sock_recv(peer.sock, 1 << 20):
            data += piece
    return bytes(data)


async def test_a_connection_that_drains_ends_in_order_whatever_is_still_on_its_way_to_it():
    async with opened(Collect, NetworkConfig(in_flight_requests_max=2)) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        sending = asyncio.ensure_future(peer.send(framed(bytes(1_000)) * 300))
        await until(lambda: len(handler.requests) == 2 and sending.done())
        closing = asyncio.ensure_future(server.listener.close(drain_ms=1_000))
        await turns()
        handler.answer(0, b"first")
        handler.answer(1, b"second")
        await closing
        assert await without_reset(peer) == framed(b"first") + framed(b"second")


async def test_a_request_that_fails_ends_the_connection_in_order_behind_the_answers_before_it():
    class Failing(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            if frame == b"bad":
                raise InvalidInputError("bad")
            super().on_frame(frame, buffer, slot)

    async with opened(Failing) as server:
        peer = await server.peer()
        await peer.send(framed(b"good") + framed(b"bad") + framed(bytes(1_000)) * 300)
        assert await without_reset(peer) == framed(b"good")


class FailsOnBad(Collect):
    """Keeps its requests, but those that are bad."""

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        if frame == b"bad":
            raise InvalidInputError("so bad")
        super().on_frame(frame, buffer, slot)


async def test_a_request_that_fails_ends_the_connection_behind_the_answers_before_it_that_are_not_there_yet(
    caplog: pytest.LogCaptureFixture,
):
    async with opened(FailsOnBad) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b") + framed(b"bad") + framed(b"never looked at"))
        await until(lambda: handler.ended)
        (connection,) = server.listener.connections
        assert connection.state is State.DRAINING
        handler.answer(1)
        handler.answer(0)
        assert await without_reset(peer) == framed(b"a") + framed(b"b")
        assert (handler.payloads, handler.closed, handler.ended) == ([b"a", b"b"], 1, 1)
        assert caplog.text.count("so bad") == 1
        assert server.memory.pool.in_use_bytes == 0


async def test_what_comes_behind_a_request_that_fails_later_is_answered_by_nothing():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"".join(framed(name) for name in (b"a", b"b", b"c", b"d")))
        await until(lambda: len(handler.requests) == 4)
        (connection,) = server.listener.connections
        handler.answer(3, bytes(1_000))
        connection.fail("it was b's fault", handler.requests[1][2])
        assert [slot.is_void for _, _, slot in handler.requests] == [False, True, True, True]
        assert connection.pending_bytes == 0
        handler.answer(2)
        handler.answer(1)
        await turns()
        assert not connection.is_closed
        handler.answer(0)
        assert await peer.receive_end() == framed(b"a")


async def test_the_earliest_request_that_fails_is_the_end():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"".join(framed(name) for name in (b"a", b"b", b"c", b"d")))
        await until(lambda: len(handler.requests) == 4)
        (connection,) = server.listener.connections
        connection.fail("c", handler.requests[2][2])
        connection.fail("d", handler.requests[3][2])
        connection.fail("b", handler.requests[1][2])
        handler.answer(0)
        assert await peer.receive_end() == framed(b"a")


async def test_half_a_request_behind_one_that_failed_gives_its_memory_back():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(bytes(3 * MIB))[: 2 * MIB])
        await until(lambda: server.listener.metrics.bytes_in > 2 * MIB)
        (connection,) = server.listener.connections
        connection.fail("a", handler.requests[0][2])
        handler.answer(0)
        assert await peer.receive_end() == b""
        assert server.memory.pool.in_use_bytes == 0


async def test_an_answer_before_one_that_failed_is_not_awaited_for_ever(caplog: pytest.LogCaptureFixture):
    async with opened(FailsOnBad, NetworkConfig(connections_max_idle_ms=1_000)) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a"))
        await until(lambda: handler.requests)
        server.timer.advance(10_000)
        await peer.send(framed(b"bad"))
        await until(lambda: handler.ended)
        (connection,) = server.listener.connections
        server.timer.advance(999)
        assert not connection.is_closed
        server.timer.advance(1_000)
        assert connection.is_closed
        assert "so bad" in caplog.text


# Time.


async def test_an_idle_connection_is_closed_after_its_time_and_an_active_one_is_not():
    async with opened(config=NetworkConfig(connections_max_idle_ms=1_000)) as server:
        idle, active = await server.peer(), await server.peer()
        for _ in range(5):
            server.timer.advance(300)
            await active.send(framed(b"x"))
            await active.receive_frame()
        assert len(server.listener.connections) == 1
        assert await idle.receive_end() == b""
        server.timer.advance(999)
        assert len(server.listener.connections) == 1
        server.timer.advance(1)
        assert len(server.listener.connections) == 0


async def test_a_connection_whose_request_is_being_handled_is_not_idle():
    async with opened(Collect, NetworkConfig(connections_max_idle_ms=1_000)) as server:
        peer = await server.peer()
        await peer.send(framed(b"long poll"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        server.timer.advance(10_000)
        handler.answer(0)
        assert await peer.receive_frame() == b"long poll"
        server.timer.advance(2_000)
        assert await peer.receive_end() == b""


async def test_the_idle_time_begins_with_the_last_answer_and_not_with_its_request():
    async with opened(Collect, NetworkConfig(connections_max_idle_ms=1_000)) as server:
        peer = await server.peer()
        await peer.send(framed(b"x"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        server.timer.advance(900)
        handler.answer(0)
        assert await peer.receive_frame() == b"x"
        server.timer.advance(999)
        assert len(server.listener.connections) == 1
        server.timer.advance(1)
        assert len(server.listener.connections) == 0


async def test_a_peer_that_reads_nothing_is_closed_after_the_idle_time(caplog: pytest.LogCaptureFixture):
    class Large(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((framed(bytes(8 * MIB)),))

    config = NetworkConfig(connections_max_idle_ms=1_000, socket_send_buffer_bytes=32 * KIB, out_bytes_max=1024 * MIB)
    async with opened(Large, config) as server:
        peer = await server.peer(receive_buffer_bytes=16 * KIB)
        await peer.send(framed(b"give me much"))
        (connection,) = server.listener.connections
        await until(lambda: connection.pending_bytes)
        for number in range(3):
            await peer.send(framed(b"and more"))
            await until(partial(lambda requests: server.listener.metrics.requests == requests, number + 2))
            server.timer.advance(333)
        assert not connection.is_closed
        server.timer.advance(1)
        assert connection.is_closed
        assert "did not read its responses" in caplog.text


async def test_the_idle_time_can_be_switched_off():
    async with opened(config=NetworkConfig(connections_max_idle_ms=-1)) as server:
        peer = await server.peer()
        server.timer.advance(10**9)
        await peer.send(framed(b"still here"))
        assert await peer.receive_frame() == b"still here"


# What a connection knows of itself.


async def test_a_connection_knows_both_ends_and_its_listener():
    async with opened() as server:
        peer = await server.peer()
        (connection,) = server.listener.connections
        assert tuple(connection.peer) == peer.sock.getsockname()
        assert tuple(connection.local) == peer.sock.getpeername()
        assert connection.listener_name == "PLAINTEXT"
        assert isinstance(connection, Connection)


async def test_small_responses_do_not_wait_for_the_peers_acknowledgement():
    async with opened() as server:
        await server.peer()
        (connection,) = server.listener.connections
        assert isinstance(connection._transport, socket.socket)
        assert connection._transport.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_responses_of_one_turn_leave_with_one_call(monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []
    from ottla.network.output_queue import OutputQueue

    for name in ("_send_last", "send_only", "_send_gathered", "sent"):
        real = getattr(OutputQueue, name)

        def counted(self: OutputQueue, *arguments: Any, name: str = name, real: Any = real) -> Any:
            result = real(self, *arguments)
            if name != "send_only" or result:
                calls.append(name)
            return result

        monkeypatch.setattr(OutputQueue, name, counted)
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"".join(framed(b"%d" % number) for number in range(100)))
        await until(lambda: len(handler.requests) == 100)
        for number in range(100):
            handler.answer(number)
        assert [await peer.receive_frame() for _ in range(100)] == [b"%d" % number for number in range(100)]
        assert len(calls) == 1, "the bytes of one call are counted once"


async def test_metrics_count_bytes_and_requests():
    async with opened() as server:
        peer: Peer = await server.peer()
        await peer.send(framed(b"12345") * 3)
        await peer.receive(27)
        metrics = server.listener.metrics
        assert (metrics.bytes_in, metrics.bytes_out, metrics.requests) == (27, 27, 3)
        assert (metrics.connections_open, metrics.connections_accepted) == (1, 1)
