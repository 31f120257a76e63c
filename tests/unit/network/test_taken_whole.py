"""All that one connection sent in a turn, served as one where it lies: its order, its limit, its end."""

from ottla.network.config import NetworkConfig
from ottla.network.connection_state import State
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.together import Requester
from tests.unit.network.peers import Collect, framed, opened, turns, until
from tests.unit.network.test_together import TakesSmall, all_send, padded

SOCKETS = ("reactor",)  # where each socket is received from by itself, the reader of frames is asked first


async def test_all_that_one_sent_has_its_place_behind_what_it_asked_for_before():
    together = TakesSmall()
    together.takes_whole = True
    async with opened(Collect, together=together) as server:
        peer = await server.peer()
        await all_send([peer], framed(b"-a"))
        await until(lambda: server.handlers[0].requests)
        await all_send([peer], framed(b"b"))
        await until(lambda: together.taken == [1])
        await all_send([peer], padded("c") + framed(b"d"))
        await until(lambda: together.taken == [1, 2])
        await all_send([peer], framed(b"-e"))
        await until(lambda: len(server.handlers[0].requests) == 2)
        together.answer()
        await turns()
        assert server.listener.metrics.bytes_out == 0, "the first is not answered"
        server.handlers[0].answer(0)
        answers = framed(b"-a") + framed(b"b") + padded("c") + framed(b"d")
        assert await peer.receive(len(answers)) == answers
        server.handlers[0].answer(1)
        assert await peer.receive_frame() == b"-e"
        assert server.listener.metrics.requests == 5


async def test_of_all_that_one_sent_no_more_is_taken_than_may_be_in_flight():
    together = TakesSmall()
    together.takes_whole = True
    async with opened(together=together, config=NetworkConfig(in_flight_requests_max=3)) as server:
        peer = await server.peer()
        await until(lambda: server.listener.connections)
        [connection] = server.listener.connections
        requests = [padded(f"{n}") for n in range(7)]
        await all_send([peer], b"".join(requests[:3]))
        await until(lambda: connection.state is State.PAUSED)
        assert (together.taken, connection.in_flight_count) == ([3], 3)
        await all_send([peer], b"".join(requests[3:]))
        await turns()
        assert together.taken == [3]
        while server.listener.metrics.requests < len(requests) or together.waiting:
            together.answer()
            await turns()
        assert max(together.taken) == 3
        assert await peer.receive(sum(map(len, requests))) == b"".join(requests)
        assert (connection.state, connection.in_flight_count) == (State.OPEN, 0)


async def test_who_is_closed_by_what_it_sent_is_looked_at_no_more():
    class Closing(TakesSmall):
        def take_of_one(
            self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int, *, is_whole: bool
        ) -> int:
            assert is_whole
            connection.close()
            return begin

    async with opened(Collect, together=Closing()) as server:
        peer = await server.peer()
        await all_send([peer], framed(b"a"))
        await until(lambda: not server.listener.connections)
        assert not server.handlers[0].requests
        assert server.memory.pool.in_use_bytes == 0
