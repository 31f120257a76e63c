"""Other framings than a length: lines that are echoed, and pushed when nobody asked."""

import asyncio

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection import ResponseSlot
from ottla.network.connection_state import State
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from tests.unit.network.line_reader import LineReader
from tests.unit.network.peers import Collect, Echo, opened, turns, until

MIB = 1024 * KIB


class EchoLine(Echo):
    """Answers a line with itself."""

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        slot.send((bytes(frame) + b"\r\n",))


async def test_lines_are_cut_wherever_they_come_apart():
    async with opened(EchoLine, framing=LineReader) as server:
        peer = await server.peer()
        for byte in b"first\r\n\r\nthird \r with a return\r\n":
            await peer.send(bytes([byte]))
            await turns(3)
        peer.finish()
        assert await peer.receive_end() == b"first\r\n\r\nthird \r with a return\r\n"


@pytest.mark.parametrize("size", [1, 16 * KIB - 2, 16 * KIB - 1, 16 * KIB, 100_000, 3 * MIB])
async def test_lines_of_any_size_arrive_whole(size: int):
    line = (bytes(range(1, 10)) * size)[:size] + b"\r\n"
    async with opened(EchoLine, framing=LineReader) as server:
        peer = await server.peer()
        sending = asyncio.ensure_future(peer.send(line * 3))
        assert await peer.receive(3 * len(line)) == line * 3
        await sending
        await turns()
        assert server.memory.pool.in_use_bytes == 0


async def test_a_line_that_never_ends_is_cut_off_at_the_limit(caplog: pytest.LogCaptureFixture):
    config = NetworkConfig(socket_request_max_bytes=100_000)
    async with opened(EchoLine, config, framing=LineReader) as server:
        peer = await server.peer()
        await peer.send(b"fine\r\n" + bytes(100_001))
        assert await peer.receive_end() == b"fine\r\n"
        assert "a line is longer than 100000 bytes" in caplog.text


# Pushing.


class Pushing(Collect):
    """Keeps its requests, and is told when it may push again."""

    resumed = 0

    def resume(self) -> None:
        self.resumed += 1


async def test_what_is_pushed_does_not_wait_for_requests_that_are_not_answered():
    async with opened(Pushing, framing=LineReader) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"subscribe\r\n")
        await until(lambda: handler.requests)
        assert handler.connection.push((b"message 1\r\n", b"message 2\r\n"), handler.resume)
        assert handler.connection.push((b"heartbeat\r\n",), handler.resume)
        assert await peer.receive(33) == b"message 1\r\nmessage 2\r\nheartbeat\r\n"
        assert handler.resumed == 0


async def test_what_is_pushed_follows_the_answers_that_are_ready():
    class Greeting(EchoLine):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            super().on_frame(frame, buffer, slot)
            self.connection.push((b"and a message\r\n",), pytest.fail)

    async with opened(Greeting, framing=LineReader) as server:
        peer = await server.peer()
        await peer.send(b"a\r\nb\r\n")
        assert await peer.receive(36) == b"a\r\nand a message\r\nb\r\nand a message\r\n"


async def test_who_pushes_to_a_peer_that_does_not_read_is_stopped_and_goes_on_when_half_is_taken():
    config = NetworkConfig(out_bytes_max=256 * KIB, socket_send_buffer_bytes=16 * KIB)
    async with opened(Pushing, config, framing=LineReader) as server:
        peer = await server.peer(receive_buffer_bytes=8 * KIB)
        (handler,) = server.handlers
        connection, pushed = handler.connection, 0
        while connection.push((bytes(10_000),), handler.resume):
            pushed += 1
            await asyncio.sleep(0)
        pushed += 1
        assert 256 * KIB < connection.pending_bytes <= 256 * KIB + 10_000
        assert connection.pending_bytes == server.listener.metrics.out_bytes
        await turns()
        assert handler.resumed == 0
        await peer.receive(pushed * 10_000 - 100_000)
        await until(lambda: handler.resumed)
        assert connection.pending_bytes <= 128 * KIB
        await peer.receive(100_000)
        assert handler.resumed == 1


async def test_who_pushed_too_much_goes_on_when_the_socket_takes_all_of_it_at_once():
    async with opened(Pushing, NetworkConfig(out_bytes_max=1), framing=LineReader) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        for number in range(1, 4):
            assert not handler.connection.push((b"message\r\n",), handler.resume)
            assert await peer.receive(9) == b"message\r\n"
            assert (handler.resumed, server.listener.metrics.out_bytes) == (number, 0)


async def test_while_too_much_is_pushed_requests_wait():
    config = NetworkConfig(out_bytes_max=64 * KIB, socket_send_buffer_bytes=16 * KIB)
    async with opened(Pushing, config, framing=LineReader) as server:
        peer = await server.peer(receive_buffer_bytes=8 * KIB)
        (handler,) = server.handlers
        assert not handler.connection.push((bytes(4 * MIB),), handler.resume)
        await peer.send(b"a\r\nb\r\n")
        await until(lambda: handler.connection.state is State.PAUSED)
        assert handler.payloads == [b"a"]
        await peer.receive(4 * MIB)
        await until(lambda: handler.payloads == [b"a", b"b"])


async def test_those_who_do_not_read_what_is_pushed_are_closed_when_it_is_too_much_in_all():
    config = NetworkConfig(out_bytes_total_max=MIB, socket_send_buffer_bytes=16 * KIB)
    async with opened(Pushing, config, framing=LineReader) as server:
        for _ in range(4):
            await server.peer(receive_buffer_bytes=8 * KIB)
        for handler in server.handlers:
            handler.connection.push((bytes(MIB),), handler.resume)
            await turns()
            server.timer.advance(1)
        assert [handler.closed for handler in server.handlers] == [1, 1, 0, 0]
        assert server.listener.metrics.out_bytes <= MIB * 2


async def test_a_connection_that_is_ending_or_closed_takes_nothing():
    async with opened(Pushing, framing=LineReader) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"a\r\n")
        await until(lambda: handler.requests)
        peer.finish()
        await until(lambda: handler.ended)
        assert not handler.connection.push((b"too late\r\n",), handler.resume)
        handler.answer(0, b"")
        await peer.receive_end()
        assert not handler.connection.push((b"too late\r\n",), handler.resume)
        assert (handler.resumed, server.listener.metrics.out_bytes) == (0, 0)
