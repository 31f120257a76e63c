"""A client that has shut down its side gets the answers to what it asked for; one that is gone holds nothing."""

import asyncio
import socket
from functools import partial

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection import ResponseSlot
from ottla.network.connection_state import State
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from tests.unit.network.peers import Collect, Echo, framed, opened, turns, until

MIB = 1024 * KIB


async def test_what_was_asked_before_the_end_is_answered_and_then_the_connection_closes():
    async with opened() as server:
        peer = await server.peer()
        await peer.send(b"".join(framed(b"%d" % number) for number in range(500)))
        peer.finish()
        assert await peer.receive_end() == b"".join(framed(b"%d" % number) for number in range(500))
        await until(lambda: not server.listener.connections)


async def test_answers_that_come_later_are_waited_for():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b"))
        peer.finish()
        await until(lambda: handler.ended)
        (connection,) = server.listener.connections
        assert (connection.state, handler.closed) == (State.HALF_CLOSED, 0)
        handler.answer(1)
        await turns()
        assert not connection.is_closed
        handler.answer(0)
        assert await peer.receive_end() == framed(b"a") + framed(b"b")
        assert (connection.state, handler.closed, handler.ended) == (State.CLOSED, 1, 1)


async def test_a_request_without_an_answer_is_the_end_too():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a"))
        peer.finish()
        await until(lambda: handler.ended)
        _, buffer, slot = handler.requests[0]
        slot.skip()
        buffer.release()
        assert await peer.receive_end() == b""


async def test_what_the_end_waits_for_is_told_to_answer_now():
    class LongPoll(Collect):
        def on_end_of_input(self) -> None:
            super().on_end_of_input()
            self.answer(0, b"nothing yet")

    async with opened(LongPoll) as server:
        peer = await server.peer()
        await peer.send(framed(b"fetch"))
        await until(lambda: server.handlers[0].requests)
        peer.finish()
        assert await peer.receive_end() == framed(b"nothing yet")


async def test_requests_that_wait_for_their_turn_when_the_end_comes_are_answered():
    async with opened(Collect, NetworkConfig(in_flight_requests_max=2)) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(b"".join(framed(b"%d" % number) for number in range(9)))
        peer.finish()
        for number in range(9):
            await until(partial(lambda count: len(handler.requests) >= count, number + 1))
            handler.answer(number)
        assert await peer.receive_end() == b"".join(framed(b"%d" % number) for number in range(9))


async def test_half_a_request_before_the_end_is_nothing():
    async with opened() as server:
        peer = await server.peer()
        await peer.send(framed(b"whole") + framed(b"half of it")[:9])
        peer.finish()
        assert await peer.receive_end() == framed(b"whole")
        await until(lambda: not server.listener.connections)
        assert server.memory.pool.in_use_bytes == 0


async def test_half_of_a_large_request_before_the_end_gives_its_memory_back():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(bytes(MIB))[: MIB // 2])
        await until(lambda: server.memory.assembling_bytes)
        peer.finish()
        await until(lambda: handler.ended)
        handler.answer(0)
        assert await peer.receive_end() == framed(b"a")
        await until(lambda: not server.listener.connections)
        assert (server.memory.pool.in_use_bytes, server.memory.assembling_bytes) == (0, 0)


async def test_a_large_answer_is_sent_to_its_end():
    class Large(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((framed(bytes(8 * MIB)),))

    async with opened(Large, NetworkConfig(socket_send_buffer_bytes=32 * KIB)) as server:
        peer = await server.peer(receive_buffer_bytes=16 * KIB)
        await peer.send(framed(b"much, please"))
        peer.finish()
        assert len(await peer.receive_end()) == 8 * MIB + 4


async def test_one_that_does_not_read_its_last_answers_is_closed_after_the_idle_time():
    class Large(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            slot.send((framed(bytes(8 * MIB)),))

    config = NetworkConfig(socket_send_buffer_bytes=32 * KIB, out_bytes_max=16 * MIB, connections_max_idle_ms=1_000)
    async with opened(Large, config) as server:
        peer = await server.peer(receive_buffer_bytes=16 * KIB)
        await peer.send(framed(b"much, please"))
        peer.finish()
        await until(lambda: server.handlers[0].ended)
        (connection,) = server.listener.connections
        await turns()
        server.timer.advance(1_000)
        assert connection.is_closed


async def test_one_that_may_be_gone_is_not_kept_longer_than_the_idle_time():
    async with opened(Collect, NetworkConfig(connections_max_idle_ms=1_000)) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"join"))
        await until(lambda: handler.requests)
        server.timer.advance(5_000)
        assert not handler.closed, "its request is being handled"
        peer.finish()
        await until(lambda: handler.ended)
        server.timer.advance(999)
        assert not handler.closed
        server.timer.advance(1_000)
        assert handler.closed


async def test_the_end_is_noticed_once():
    """A socket at its end stays readable."""
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        peer.finish()
        await until(lambda: server.handlers[0].ended)
        await turns()
        assert server.handlers[0].ended == 1


async def test_a_half_closed_connection_drains():
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a"))
        peer.finish()
        await until(lambda: handler.ended)
        closing = asyncio.ensure_future(server.listener.close(drain_ms=1_000))
        await turns()
        handler.answer(0)
        await closing
        assert await peer.receive_end() == framed(b"a")


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_a_client_that_is_gone_is_found_out_when_it_is_answered(how: str):
    async with opened(Collect) as server:
        peer = await server.peer()
        (handler,) = server.handlers
        await peer.send(framed(b"a") + framed(b"b"))
        await until(lambda: len(handler.requests) == 2)
        peer.close() if how == "closed" else peer.reset()
        await until(lambda: handler.ended or handler.closed)
        handler.answer(0)
        await turns()
        handler.answer(1)
        await until(lambda: not server.listener.connections)
        assert handler.closed == 1
        assert server.memory.pool.in_use_bytes == 0


async def test_a_failure_of_the_handler_at_the_end_closes_the_connection(caplog: pytest.LogCaptureFixture):
    class Failing(Collect):
        def on_end_of_input(self) -> None:
            raise ZeroDivisionError

    async with opened(Failing) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        peer.sock.shutdown(socket.SHUT_WR)
        assert await peer.receive_end() == b""
        assert "ZeroDivisionError" in caplog.text
