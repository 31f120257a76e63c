"""Requests that are served as one: whose they are, in which order they are answered, and that all limits hold."""

import struct

from ottla.network.config import KIB, MIB, NetworkConfig
from ottla.network.connection_state import State
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.response_slots import ResponseSlots
from ottla.network.together import Arrival, Requester
from tests.unit.network.peers import Collect, Peer, framed, opened, turns, until

SMALL = 100


class TakesSmall:
    """Takes whole requests of less than 100 bytes but those that begin with a minus; echoes them when it is told."""

    def __init__(self) -> None:
        self.waiting: list[tuple[ResponseSlots, list[bytes]]] = []
        self.taken: list[int] = []
        self.taken_at_once: list[int] | None = None
        """How many each time; none while it does not."""
        self.takes_whole = False

    def take(self, received: list[Arrival], buffer: ReceiveBuffer) -> list[Arrival]:
        taken = [each for each in received if self._end(buffer, *each[1:]) == each[2]]
        if not taken:
            return received
        self._serve([each[0] for each in taken], [bytes(buffer.view[begin:end]) for _, begin, end in taken])
        return [each for each in received if each not in taken]

    def take_of_one(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int, *, is_whole: bool
    ) -> int:
        if is_whole and not (self.takes_whole and self._count(buffer, begin, end, count_max)):
            return begin
        frames: list[bytes] = []
        while len(frames) < count_max and (frame_end := self._end(buffer, begin, end)) is not None:
            frames.append(bytes(buffer.view[begin:frame_end]))
            begin = frame_end
        if frames:
            self._serve([connection] * len(frames), frames)
        return begin

    def take_at_once(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> tuple[int, bytes] | None:
        count = self._count(buffer, begin, end, count_max)
        if self.taken_at_once is None or not count:
            return None
        self.taken_at_once.append(count)
        return count, bytes(buffer.view[begin:end])

    def _count(self, buffer: ReceiveBuffer, begin: int, end: int, count_max: int) -> int:
        """How many requests all of it is; 0 if it is not."""
        count = 0
        while begin < end and count < count_max and (frame_end := self._end(buffer, begin, end)) is not None:
            begin, count = frame_end, count + 1
        return 0 if begin < end else count

    def answer(self) -> None:
        waiting, self.waiting = self.waiting, []
        for slots, answers in waiting:
            slots.send(answers)

    def _serve(self, connections: list[Requester], frames: list[bytes]) -> None:
        self.taken.append(len(frames))
        self.waiting.append((ResponseSlots([each.responses for each in connections]), frames))

    @staticmethod
    def _end(buffer: ReceiveBuffer, begin: int, end: int) -> int | None:
        if end - begin < 5 or buffer.view[begin + 4] == ord("-"):
            return None
        (size,) = struct.unpack_from(">i", buffer.view, begin)
        return begin + 4 + size if size < SMALL and begin + 4 + size <= end else None


async def all_send(peers: list[Peer], *data: bytes) -> None:
    """Each its own, and all of it has arrived, before the loop turns."""
    for peer, each in zip(peers, data, strict=True):
        assert peer.sock.send(each) == len(each)
    for peer, each in zip(peers, data, strict=True):
        peer.wait_until_arrived(len(each))


def padded(text: str) -> bytes:
    return framed(text.encode() + b" " * 60)


async def test_what_is_left_is_handed_out_one_by_one(sockets: str):
    together = TakesSmall()
    async with opened(together=together) as server:
        peers = [await server.peer() for _ in range(6)]
        requests = [framed(b"%d" % n) for n in range(4)] + [framed(b"-"), framed(b"x" * 5_000)]
        await all_send(peers, *requests)
        for peer, request in zip(peers[4:], requests[4:], strict=True):
            assert await peer.receive(len(request)) == request
        assert together.taken == ([4] if sockets == "reactor" else [])
        assert server.listener.metrics.requests == 6
        assert server.listener.metrics.bytes_in == sum(map(len, requests))
        together.answer()
        for peer, request in zip(peers[:4], requests[:4], strict=True):
            assert await peer.receive(len(request)) == request
        assert server.listener.metrics.out_bytes == 0


async def test_who_waits_for_an_answer_is_not_among_them_and_keeps_its_order(sockets: str):
    together = TakesSmall()
    async with opened(Collect, together=together) as server:
        peers = [await server.peer() for _ in range(3)]
        await all_send(peers, *[framed(b"-%d" % n) for n in range(3)])
        await until(lambda: all(handler.requests for handler in server.handlers))
        await all_send(peers, *[framed(b"+%d" % n) for n in range(3)])
        await until(lambda: together.taken or all(len(handler.requests) == 2 for handler in server.handlers))
        assert together.taken == []
        for handler in server.handlers:
            handler.answer(1)
            handler.answer(0)
        for number, peer in enumerate(peers):
            assert await peer.receive_frame() == b"-%d" % number
            assert await peer.receive_frame() == b"+%d" % number


async def test_who_has_not_taken_its_answers_is_served_one_by_one(sockets: str):
    together = TakesSmall()
    config = NetworkConfig(socket_send_buffer_bytes=4 * KIB, out_bytes_max=MIB)
    async with opened(Collect, together=together, config=config) as server:
        peer = await server.peer(receive_buffer_bytes=8 * KIB)
        await all_send([peer], framed(b"-"))
        [handler], [connection] = server.handlers, server.listener.connections
        await until(lambda: handler.requests)
        handler.answer(0, b"x" * (MIB // 2))
        await until(lambda: connection.is_blocked)
        alone, several = padded("a"), padded("b") + padded("c")
        others = [await server.peer() for _ in range(2)]  # who are served together, where there is a reactor
        await all_send([peer, *others], alone, alone, alone)
        await until(lambda: len(handler.requests) == 2 or sum(together.taken) > 2)
        assert together.taken == ([2] if sockets == "reactor" else [])
        await all_send([peer], several)
        await until(lambda: len(handler.requests) == 4 or len(together.taken) > 1)
        assert together.taken == ([2] if sockets == "reactor" else [])
        assert connection.state is State.OPEN
        for index in (3, 2, 1):
            handler.answer(index)
        assert await peer.receive_frame() == b"x" * (MIB // 2)
        assert await peer.receive(len(alone + several)) == alone + several


async def test_behind_answers_that_are_held_requests_are_served_one_by_one(sockets: str):
    together = TakesSmall()
    async with opened(Collect, together=together) as server:
        peer = await server.peer()
        [handler] = server.handlers
        before, behind = framed(b"-a") + framed(b"-b"), padded("c") + padded("d")
        await all_send([peer], before)
        await until(lambda: len(handler.requests) == 2)
        handler.answer(1)
        await all_send([peer], behind)
        await until(lambda: together.taken or len(handler.requests) == 4)
        assert together.taken == []
        for index in (0, 2, 3):
            handler.answer(index)
        assert await peer.receive(len(before + behind)) == before + behind


async def test_the_pipeline_of_one_is_taken_up_to_its_limit(sockets: str):
    together = TakesSmall()
    async with opened(together=together, config=NetworkConfig(in_flight_requests_max=5)) as server:
        peer = await server.peer()
        requests = [padded(f"{n}") for n in range(12)]
        await all_send([peer], b"".join(requests))
        await until(lambda: together.taken)
        await turns()
        assert together.taken == [5]
        [connection] = server.listener.connections
        assert (connection.state, connection.in_flight_count) == (State.PAUSED, 5)
        while sum(together.taken) < 12 or together.waiting:
            together.answer()
            await turns()
        assert max(together.taken) <= 5
        assert await peer.receive(sum(map(len, requests))) == b"".join(requests)
        assert server.listener.metrics.requests == 12


async def test_between_requests_that_are_not_taken_the_others_keep_their_order(sockets: str):
    together = TakesSmall()
    async with opened(Collect, together=together) as server:
        peer = await server.peer()
        requests = [padded("a"), padded("b"), padded("-c"), padded("d"), padded("e")]
        await all_send([peer], b"".join(requests))
        await until(lambda: server.handlers[0].requests)
        together.answer()
        for index in range(len(server.handlers[0].requests)):
            server.handlers[0].answer(index)
        assert await peer.receive(sum(map(len, requests))) == b"".join(requests)


async def test_those_that_closed_meanwhile_get_nothing_and_keep_nobody_waiting(sockets: str):
    together = TakesSmall()
    async with opened(together=together) as server:
        peers = [await server.peer() for _ in range(4)]
        requests = [padded(f"{n}") * 2 for n in range(4)]
        await all_send(peers, *requests)
        await until(lambda: sum(together.taken) == 8)
        peers[1].reset()
        await until(lambda: server.listener.metrics.connections_open == 3)
        together.answer()
        for number in (0, 2, 3):
            assert await peers[number].receive(len(requests[number])) == requests[number]


async def test_to_let_go_of_them_unanswered_closes_their_connections(sockets: str):
    together = TakesSmall()
    async with opened(together=together) as server:
        peers = [await server.peer() for _ in range(3)]
        await all_send(peers, *[padded("x") * 2 for _ in range(3)])
        await until(lambda: sum(together.taken) == 6)
        together.waiting.clear()
        for peer in peers:
            assert await peer.receive_end() == b""
        assert server.listener.metrics.connections_open == 0


async def test_while_answers_that_nobody_reads_take_too_much_nothing_is_taken_together(sockets: str):
    together = TakesSmall()
    async with opened(Collect, together=together) as server:
        peers = [await server.peer() for _ in range(3)]
        server.listener.metrics.out_bytes = NetworkConfig().out_bytes_hard_max + 1
        await all_send(peers, *[padded("x") * 2 for _ in range(3)])
        await until(lambda: together.taken or all(len(handler.requests) == 2 for handler in server.handlers))
        assert together.taken == []
        server.listener.metrics.out_bytes = 0


async def test_what_is_answered_at_once_has_its_place_among_the_others(sockets: str):
    together = TakesSmall()
    together.taken_at_once = []
    async with opened(Collect, together=together) as server:
        peer, metrics = await server.peer(), server.listener.metrics
        [handler] = server.handlers
        answered, sent = 0, b""

        async def send(data: bytes, requests: int) -> None:
            await all_send([peer], data)
            await until(lambda: metrics.requests == requests)

        async def receive(data: bytes) -> None:
            """When all that were not answered at once are, the last first."""
            nonlocal answered, sent
            for index in reversed(range(answered, len(handler.requests))):
                handler.answer(index)
            answered, sent = len(handler.requests), sent + data
            together.answer()
            assert await peer.receive(len(data)) == data

        await send(padded("a"), 1)
        await receive(padded("a"))
        await send(padded("b") + padded("c"), 3)
        await receive(padded("b") + padded("c"))
        await send(padded("-d"), 4)
        await send(padded("e"), 5)  # behind one that waits: not at once
        await receive(padded("-d") + padded("e"))
        await send(padded("f"), 6)
        await receive(padded("f"))
        assert together.taken_at_once == ([1, 2, 1] if sockets == "reactor" else [])
        assert (metrics.bytes_in, metrics.bytes_out, metrics.out_bytes) == (len(sent), len(sent), 0)
        [connection] = server.listener.connections
        assert (connection.in_flight_count, connection.state) == (0, State.OPEN)


async def test_at_once_no_more_is_answered_than_may_be_in_flight_and_nothing_before_the_rest_is_there(sockets: str):
    together = TakesSmall()
    together.taken_at_once = []
    async with opened(together=together, config=NetworkConfig(in_flight_requests_max=3)) as server:
        peer = await server.peer()
        requests = b"".join(padded(f"{n}") for n in range(4))
        await all_send([peer], requests)
        await until(lambda: together.waiting or server.listener.metrics.requests == 4)
        while server.listener.metrics.requests < 4 or together.waiting:
            together.answer()
            await turns()
        assert await peer.receive(len(requests)) == requests
        await all_send([peer], padded("a") + padded("b")[:10])
        await until(lambda: together.waiting or server.listener.metrics.requests > 4)
        together.answer()
        assert await peer.receive(len(padded("a"))) == padded("a")
        assert together.taken_at_once == []
        await all_send([peer], padded("b")[10:])
        assert await peer.receive(len(padded("b"))) == padded("b")


async def test_what_was_answered_at_once_and_is_not_taken_stops_the_peer_as_any_answer_does(sockets: str):
    together = TakesSmall()
    together.taken_at_once = []
    config = NetworkConfig(socket_send_buffer_bytes=4 * KIB, out_bytes_max=16 * KIB)
    async with opened(together=together, config=config) as server:
        peer = await server.peer(receive_buffer_bytes=4 * KIB)
        [connection] = server.listener.connections
        sent = b""
        while connection.state is State.OPEN:
            assert len(sent) < MIB
            await all_send([peer], padded("a"))
            sent += padded("a")
            await turns()
            together.answer()
        assert connection.state is State.PAUSED
        assert await peer.receive(len(sent)) == sent
        await until(lambda: connection.state is State.OPEN)
        assert server.listener.metrics.out_bytes == 0
