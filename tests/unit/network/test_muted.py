"""A connection whose client is over a quota (KIP-219): not read, nothing is lost, and nothing is held against it."""

import asyncio

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.connection_state import State
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from tests.unit.network.peers import Collect, Echo, OpenListener, framed, opened, turns, until

MIB = 1024 * KIB
MINUTE = 60_000


class MutesAfterEach(Echo):
    """Answers each request, and has its connection muted for a second by it."""

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        super().on_frame(frame, buffer, slot)
        self.connection.mute(1_000)


def connection_of(server: OpenListener[Echo]) -> Connection:
    (connection,) = server.listener.connections
    return connection


async def test_the_answer_leaves_at_once_and_the_next_request_waits_for_the_end_of_the_time():
    async with opened(MutesAfterEach) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        assert await peer.receive_frame() == b"a"
        connection = connection_of(server)
        await peer.send(framed(b"b"))
        await turns()
        assert (connection.state, server.listener.metrics.requests) == (State.MUTED, 1)
        server.timer.advance(999)
        await turns()
        assert (connection.state, server.listener.metrics.requests) == (State.MUTED, 1)
        server.timer.advance(1)
        assert await peer.receive_frame() == b"b"


async def test_what_comes_meanwhile_is_left_in_the_socket_until_the_time_is_over():
    async with opened() as server:
        peer = await server.peer()
        connection_of(server).mute(MINUTE)
        request = framed(b"a" * KIB)
        await peer.send(request)
        peer.wait_until_arrived(len(request))
        await turns()
        assert peer.unread() == len(request)
        server.timer.advance(MINUTE)
        assert await peer.receive_frame() == b"a" * KIB


async def test_of_requests_that_came_together_one_is_served_a_time():
    async with opened(MutesAfterEach) as server:
        peer = await server.peer()
        await peer.send(b"".join(framed(b"%d" % number) for number in range(4)))
        for number in range(4):
            assert await peer.receive_frame() == b"%d" % number
            await turns()
            assert server.listener.metrics.requests == number + 1
            server.timer.advance(1_000)


async def test_the_later_of_two_times_counts():
    async with opened() as server:
        peer = await server.peer()
        connection = connection_of(server)
        connection.mute(5_000)
        connection.mute(1_000)
        await peer.send(framed(b"a"))
        server.timer.advance(4_000)
        connection.mute(3_000)
        server.timer.advance(2_999)
        await turns()
        assert (connection.state, server.listener.metrics.requests) == (State.MUTED, 0)
        server.timer.advance(1)
        assert await peer.receive_frame() == b"a"


async def test_requests_that_are_handed_out_are_answered_while_it_is_muted():
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        connection_of(server).mute(MINUTE)
        handler.answer(0)
        assert await peer.receive_frame() == b"a"


async def test_half_a_request_stays_counted_and_is_not_taken_for_stalled():
    config = NetworkConfig(queued_max_request_bytes=4 * MIB, stalled_request_ms=1_000)
    async with opened(Collect, config) as server:
        muted = await server.peer()
        request = framed(b"m" * MIB)
        await muted.send(request[: 512 * KIB])
        await until(lambda: server.memory.assembling_bytes >= 512 * KIB)
        (connection,) = server.listener.connections
        connection.mute(MINUTE)
        held = server.memory.assembling_bytes
        others = [await server.peer() for _ in range(4)]
        sending = [asyncio.ensure_future(other.send(framed(b"o" * 2 * MIB)[: 700 * KIB])) for other in others]
        await until(lambda: server.memory.waiting_count)  # so that whoever stalls is closed
        server.timer.advance(MINUTE - 1)
        await turns()
        assert not connection.is_closed
        assert server.memory.assembling_bytes >= held
        for task in sending:
            task.cancel()
        await asyncio.wait(sending)
        for other in others:
            other.close()
        server.timer.advance(1)
        await muted.send(request[512 * KIB :])
        handler = server.handlers[0]
        await until(lambda: handler.requests)
        assert handler.payloads == [b"m" * MIB]
        handler.answer(0)
        assert await muted.receive_frame() == b"m" * MIB


async def test_it_is_not_closed_as_idle_and_begins_to_be_idle_anew():
    async with opened(config=NetworkConfig(connections_max_idle_ms=10_000)) as server:
        peer = await server.peer()
        connection = connection_of(server)
        connection.mute(MINUTE)
        server.timer.advance(MINUTE)
        await turns()
        assert connection.state is State.OPEN
        await peer.send(framed(b"a"))
        assert await peer.receive_frame() == b"a"
        server.timer.advance(20_001)
        assert await peer.receive_end() == b""


async def test_a_peer_that_shuts_down_meanwhile_gets_what_it_asked_for_when_the_time_is_over():
    async with opened(MutesAfterEach) as server:
        peer = await server.peer()
        await peer.send(framed(b"a") + framed(b"b"))
        peer.finish()
        assert await peer.receive_frame() == b"a"
        await turns()
        assert not connection_of(server).is_closed
        server.timer.advance(1_000)
        assert await peer.receive_frame() == b"b"
        server.timer.advance(1_000)
        assert await peer.receive_end() == b""
        await until(lambda: not server.listener.connections)


async def test_a_peer_that_is_gone_is_forgotten_when_the_time_is_over():
    async with opened() as server:
        peer = await server.peer()
        connection_of(server).mute(MINUTE)
        peer.reset()
        server.timer.advance(MINUTE)
        await until(lambda: not server.listener.connections)


@pytest.mark.parametrize("answers", [True, False])
async def test_it_drains_at_once_and_its_time_is_forgotten(answers: bool):
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        connection = connection_of(server)
        connection.mute(MINUTE)
        connection.drain()
        await turns()
        assert connection.state is State.DRAINING
        if answers:
            handler.answer(0)
            assert await peer.receive_end() == framed(b"a")
        else:
            connection.close()
            handler.answer(0)
        assert connection.is_closed
        server.timer.advance(2 * MINUTE)
        await turns()
        assert (connection.state, len(server.timer)) == (State.CLOSED, 0)


async def test_whoever_is_ending_is_not_muted():
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        peer.finish()
        (handler,) = server.handlers
        await until(lambda: handler.ended)
        connection = connection_of(server)
        connection.mute(MINUTE)
        assert connection.state is State.HALF_CLOSED
        handler.answer(0)
        assert await peer.receive_end() == framed(b"a")


async def test_a_connection_that_was_full_goes_on_only_when_it_is_not():
    async with opened(Collect, NetworkConfig(in_flight_requests_max=2)) as server:
        peer = await server.peer()
        await peer.send(b"".join(framed(b"%d" % number) for number in range(3)))
        (handler,) = server.handlers
        await until(lambda: len(handler.requests) == 2)
        connection = connection_of(server)
        assert connection.state is State.PAUSED
        connection.mute(1_000)
        server.timer.advance(1_000)
        await turns()
        assert (connection.state, len(handler.requests)) == (State.PAUSED, 2)
        handler.answer(0)
        await until(lambda: len(handler.requests) == 3)
        handler.answer(1)
        handler.answer(2)
        assert [await peer.receive_frame() for _ in range(3)] == [b"0", b"1", b"2"]


async def test_what_waits_for_the_end_of_the_time_comes_before_what_is_read_next():
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"held back"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        connection = connection_of(server)
        seen: list[int] = []
        connection.mute(1_000)
        connection.when_unmuted(lambda: seen.append(len(handler.requests)))
        await peer.send(framed(b"next"))
        await turns()
        assert (connection.is_muted, seen) == (True, [])
        server.timer.advance(1_000)
        await until(lambda: len(handler.requests) == 2)
        assert (connection.is_muted, seen) == (False, [1])
        for number in range(2):
            handler.answer(number)


async def test_whoever_waits_may_have_it_muted_again():
    async with opened() as server:
        peer = await server.peer()
        connection = connection_of(server)
        connection.mute(1_000)
        connection.when_unmuted(lambda: connection.mute(2_000))
        await peer.send(framed(b"a"))
        server.timer.advance(1_000)
        await turns()
        assert (connection.is_muted, server.listener.metrics.requests) == (True, 0)
        server.timer.advance(2_000)
        assert await peer.receive_frame() == b"a"


async def test_what_waits_goes_on_when_it_drains_and_never_when_it_is_closed():
    async with opened(Collect) as server:
        peer = await server.peer()
        await peer.send(framed(b"a"))
        (handler,) = server.handlers
        await until(lambda: handler.requests)
        connection = connection_of(server)
        connection.mute(MINUTE)
        connection.when_unmuted(lambda: handler.answer(0))
        connection.drain()
        assert await peer.receive_end() == framed(b"a")
        other = await server.peer()
        (connection,) = server.listener.connections
        resumed: list[None] = []
        connection.mute(MINUTE)
        connection.when_unmuted(lambda: resumed.append(None))
        connection.close()
        server.timer.advance(MINUTE)
        await turns()
        assert resumed == []
        other.close()
