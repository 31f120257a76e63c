"""What is received together, and sent together, is each connection's own."""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from ottla.model.errors import InvalidInputError
from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.connection_state import State
from ottla.network.reactor import SHARE_BYTES, TOLD_A_TURN, TURN_BYTES, Reactor
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from ottla.runtime.cork import Answers, NoCork
from tests.unit.network.peers import Collect, Echo, OpenListener, Peer, framed, opened, turns, until

MIB = 1024 * KIB
SOCKETS = ("reactor",)


class Together(NoCork):
    """How often requests were handed out in one run, and how many in each."""

    def __init__(self) -> None:
        self.server: OpenListener[Echo] | None = None
        self.runs: list[int] = []
        self._before = 0

    def cork(self) -> None:
        assert self.server is not None
        self._before = self.server.listener.metrics.requests

    def uncork(self) -> None:
        assert self.server is not None
        if count := self.server.listener.metrics.requests - self._before:
            self.runs.append(count)

    def uncork_now(self) -> None:
        self.uncork()


class Spied:
    """A poll that says what it was asked to do."""

    def __init__(self, poll: Any) -> None:
        self._poll = poll
        self.received: list[int] = []
        self.sent: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)

    def receive(self, *arguments: Any) -> Any:
        received, ready, lost = self._poll.receive(*arguments)
        if received:
            self.received.append(len(received))
        return received, ready, lost

    def send(self, sockets: Sequence[int], outputs: Sequence[list[Any]]) -> Any:
        self.sent.append(len(sockets))
        return self._poll.send(sockets, outputs)


def reactor_of(server: OpenListener[Any]) -> Reactor:
    services = server.listener._services
    assert services is not None
    assert isinstance(services.sockets, Reactor)
    return services.sockets


def spy(server: OpenListener[Any]) -> Spied:
    reactor = reactor_of(server)
    spied = Spied(reactor._poll)
    reactor._poll = spied  # type: ignore[assignment]
    return spied


async def all_send(peers: Sequence[Peer], *data: bytes) -> None:
    """All of them, and all of it has arrived, before the loop turns."""
    sent = list(zip(peers, data * len(peers) if len(data) == 1 else data, strict=True))
    for peer, each in sent:
        assert peer.sock.send(each) == len(each)
    for peer, each in sent:
        peer.wait_until_arrived(len(each))


async def test_what_all_have_sent_is_received_handled_and_answered_together():
    cork = Together()
    async with opened(cork=cork) as server:
        cork.server = server
        peers = [await server.peer() for _ in range(50)]
        poll = spy(server)
        await all_send(peers, *(framed(b"%d" % number) for number in range(50)))
        for number, peer in enumerate(peers):
            assert await peer.receive_frame() == b"%d" % number
        assert (cork.runs, poll.received, poll.sent) == ([50], [50], [50])


async def test_more_than_one_turn_takes_comes_in_the_next():
    async with opened() as server:
        peers = [await server.peer() for _ in range(300)]
        await all_send(peers, *(framed(b"%d" % number) for number in range(300)))
        for number, peer in enumerate(peers):
            assert await peer.receive_frame() == b"%d" % number


async def test_who_finds_no_room_in_the_turn_receives_by_itself():
    size = SHARE_BYTES - 100
    async with opened() as server:
        peers = [await server.peer() for _ in range(3 * TURN_BYTES // size)]
        poll = spy(server)
        await all_send(peers, *(framed(bytes([number]) * size) for number in range(len(peers))))
        for number, peer in enumerate(peers):
            assert await peer.receive_frame() == bytes([number]) * size
        assert poll.received[0] < len(peers)
        assert server.memory.pool.in_use_bytes == 0


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 100])
async def test_what_is_cut_off_goes_on_where_it_was_cut(cut: int):
    async with opened() as server:
        peers = [await server.peer() for _ in range(5)]
        data = framed(b"whole") + framed(bytes(200))
        for _ in range(2):
            await all_send(peers, data[: 9 + cut])
            for peer in peers:
                assert await peer.receive_frame() == b"whole"
            await all_send(peers, data[9 + cut :])
            for peer in peers:
                assert await peer.receive_frame() == bytes(200)
        assert server.memory.pool.in_use_bytes == 0


async def test_who_sends_much_has_a_buffer_of_its_own_until_it_sends_little_again():
    async with opened() as server:
        peer = await server.peer()
        poll = spy(server)
        small, large = framed(b"small"), framed(bytes(MIB))

        async def asks(data: bytes) -> int:
            before = len(poll.received)
            sending = asyncio.ensure_future(peer.send(data))
            assert await peer.receive(len(data)) == data
            await sending
            return len(poll.received) - before

        assert await asks(small) == 1
        assert await asks(large) == 1, "its beginning"
        assert await asks(large) == 0
        for _ in range(20):
            await asks(small)
        assert await asks(small) == 1
        assert server.memory.pool.in_use_bytes == 0


async def test_bytes_of_a_connection_that_another_ended_meanwhile_go_nowhere():
    class Closing(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            for handler in server.handlers:
                if handler is not self:
                    handler.connection.close()
            super().on_frame(frame, buffer, slot)

    async with opened(Closing) as server:
        peers = [await server.peer() for _ in range(10)]
        await all_send(peers, framed(b"me"))
        answers = [await peer.receive_end() for peer in peers if peer is not peers[0]]
        assert answers.count(framed(b"me")) <= 1
        await until(lambda: len(server.listener.connections) == 1)
        assert server.listener.metrics.requests == 1
        assert sorted(handler.closed for handler in server.handlers) == [0] + [1] * 9
        assert (server.listener.metrics.out_bytes, server.memory.pool.in_use_bytes) == (0, 0)


async def test_a_number_that_is_given_to_the_next_connection_brings_it_nothing_of_the_last():
    """The system gives the lowest number that is free."""
    numbers = []
    async with opened(Collect) as server:
        for number in range(20):
            peer = await server.peer()
            await peer.send(framed(b"%d" % number))
            handler = server.handlers[-1]
            await until(lambda: handler.requests)  # noqa: B023
            assert handler.payloads == [b"%d" % number]
            numbers.append(handler.connection.fd)
            peer.reset()
            await until(lambda: not server.listener.connections)
            handler.answer(0)
            await turns(3)
    assert len(set(numbers)) < len(numbers)


async def test_a_bad_request_and_a_handler_that_fails_end_their_own_connections_only(
    caplog: pytest.LogCaptureFixture,
):
    class Picky(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            if frame == b"bad":
                raise InvalidInputError("this is bad")
            if frame == b"fail":
                raise ZeroDivisionError
            super().on_frame(frame, buffer, slot)

    async with opened(Picky) as server:
        peers = [await server.peer() for _ in range(4)]
        await all_send(peers, framed(b"a"), framed(b"bad"), framed(b"fail"), framed(b"d") + b"\xff\xff\xff\xff")
        assert await peers[0].receive_frame() == b"a"
        assert await peers[1].receive_end() == b""
        assert await peers[2].receive_end() == b""
        assert await peers[3].receive_end() == framed(b"d")
        assert len(server.listener.connections) == 1
        assert "this is bad" in caplog.text
        assert "ZeroDivisionError" in caplog.text
        assert "negative length" in caplog.text


async def test_a_run_that_cannot_be_ended_is_said_and_the_answers_leave(caplog: pytest.LogCaptureFixture):
    class Broken(Together):
        def uncork(self) -> None:
            raise ZeroDivisionError

    async with opened(cork=Broken()) as server:
        cork = server.listener._cork
        assert isinstance(cork, Broken)
        cork.server = server
        peers = [await server.peer() for _ in range(3)]
        await all_send(peers, framed(b"a"))
        for peer in peers:
            assert await peer.receive_frame() == b"a"
        assert "ZeroDivisionError" in caplog.text


async def test_requests_that_are_kept_share_a_buffer_and_give_it_back_at_the_end():
    async with opened(Collect) as server:
        peers = [await server.peer() for _ in range(10)]
        for number in range(30):
            await all_send(peers, framed(b"%d" % number))
            await until(lambda: all(len(handler.requests) == number + 1 for handler in server.handlers))  # noqa: B023
        assert server.memory.pool.in_use_bytes == TURN_BYTES
        for number in range(30):
            for handler in server.handlers:
                assert bytes(handler.requests[number][0]) == b"%d" % number
                handler.answer(number)
        assert server.memory.pool.in_use_bytes == 0
        for peer in peers:
            assert [await peer.receive_frame() for _ in range(30)] == [b"%d" % number for number in range(30)]


async def test_without_memory_for_requests_all_wait_and_go_on_when_there_is_some():
    async with opened(Collect, NetworkConfig(queued_max_request_bytes=4 * MIB)) as server:
        hoarder = await server.peer()
        size = 100 * KIB
        sending = asyncio.ensure_future(hoarder.send(framed(bytes(size)) * 40))
        await until(lambda: server.memory.waiting_count)
        others = [await server.peer() for _ in range(5)]
        await all_send(others, framed(b"me too"))
        await until(lambda: server.memory.waiting_count == 6)
        states = [connection.state for connection in server.listener.connections]
        assert states == [State.STARVED] * 6
        for handler in server.handlers:
            while handler.requests:
                handler.answer(0, b"")
                del handler.requests[0]
        await until(lambda: all(handler.requests for handler in server.handlers[1:]))
        for handler in server.handlers[1:]:
            assert handler.payloads == [b"me too"]
        sending.cancel()


async def test_requests_that_wait_for_their_turn_take_memory_of_their_own():
    async with opened(Collect, NetworkConfig(in_flight_requests_max=2)) as server:
        peers = [await server.peer() for _ in range(3)]
        await all_send(peers, b"".join(framed(b"%d" % number) for number in range(9)))
        await until(lambda: all(len(handler.requests) == 2 for handler in server.handlers))
        assert server.memory.assembling_bytes == 3 * SHARE_BYTES
        assert server.memory.handled_bytes == TURN_BYTES
        for handler, peer in zip(server.handlers, peers, strict=True):
            for number in range(9):
                await until(lambda: len(handler.requests) > number)  # noqa: B023
                handler.answer(number)
                assert await peer.receive_frame() == b"%d" % number
        assert (server.memory.assembling_bytes, server.memory.pool.in_use_bytes) == (0, 0)


def pattern(number: int) -> bytes:
    """300,000 bytes that differ from their neighbours, and from those of other numbers."""
    return bytes((number * 11 + position * 7) % 251 for position in range(251)) * 1_195 + bytes(55)


async def test_who_does_not_read_gets_the_rest_later_and_keeps_nobody_waiting():
    class Large(Echo):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            answer = pattern(frame[0])
            slot.send((framed(answer)[:1000], framed(answer)[1000:]))

    async with opened(Large, NetworkConfig(socket_send_buffer_bytes=16 * KIB)) as server:
        peers = [await server.peer(receive_buffer_bytes=8 * KIB) for _ in range(5)]
        await all_send(peers, *(framed(bytes([number])) for number in range(5)))
        await until(lambda: all(connection.is_blocked for connection in server.listener.connections))
        for number in (3, 0, 4, 1, 2):
            assert await peers[number].receive_frame() == pattern(number)
        assert server.listener.metrics.out_bytes == 0
        assert server.listener.metrics.bytes_out == 5 * 300_004


async def test_answers_to_a_peer_that_is_gone_end_its_connection_only():
    async with opened(Collect) as server:
        peers = [await server.peer() for _ in range(3)]
        await all_send(peers, framed(b"a"))
        await until(lambda: all(handler.requests for handler in server.handlers))
        gone = next(h for h in server.handlers if h.connection.peer.port == peers[1].sock.getsockname()[1])
        peers[1].reset()
        for handler in server.handlers:
            handler.answer(0)
        assert await peers[0].receive_frame() == b"a"
        assert await peers[2].receive_frame() == b"a"
        await until(lambda: len(server.listener.connections) == 2)
        assert gone.closed == 1
        assert (server.listener.metrics.out_bytes, server.memory.pool.in_use_bytes) == (0, 0)


async def test_handlers_that_answer_others_in_the_same_turn_answer_each_once():
    """One that closes another while both have answers to be sent, too."""

    class Crosswise(Collect):
        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            super().on_frame(frame, buffer, slot)
            if frame == b"go":
                for handler in server.handlers:
                    for number in range(len(handler.requests)):
                        handler.answer(number)
                    handler.requests.clear()
                server.handlers[0].connection.close()

    async with opened(Crosswise) as server:
        peers = [await server.peer() for _ in range(4)]
        for peer, handler in zip(peers, server.handlers, strict=True):
            await peer.send(framed(b"a") + framed(b"b"))
            await until(lambda: len(handler.requests) == 2)  # noqa: B023
        await peers[3].send(framed(b"go"))
        for peer in peers[1:3]:
            assert [await peer.receive_frame() for _ in range(2)] == [b"a", b"b"]
        assert [await peers[3].receive_frame() for _ in range(3)] == [b"a", b"b", b"go"]
        assert await peers[0].receive_end() in (b"", framed(b"a") + framed(b"b"))
        assert server.listener.metrics.out_bytes == 0


async def test_closing_the_listener_lets_go_of_everything():
    async with opened() as server:
        reactor = reactor_of(server)
        fd = reactor._poll.fileno()
        peer = await server.peer()
        await peer.send(framed(b"a"))
        assert await peer.receive_frame() == b"a"
        await server.listener.close()
        assert await peer.receive_end() == b""
        with pytest.raises(OSError, match="Bad file descriptor"):
            reactor._poll.fileno()
        with socket.socket() as other:
            assert other.fileno() <= fd, "the number is free again"


async def test_where_the_system_has_no_epoll_the_loop_watches_each_socket(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ottla.network.listener.HAS_EPOLL", False)
    async with opened() as server:
        services = server.listener._services
        assert services is not None
        assert not isinstance(services.sockets, Reactor)
        peer = await server.peer()
        await peer.send(struct.pack(">i", 2) + b"ok")
        assert await peer.receive_frame() == b"ok"


async def test_of_many_who_leave_at_once_a_few_are_closed_in_a_turn():
    async with opened(Echo) as server:
        peers = [await server.peer() for _ in range(4 * TOLD_A_TURN + 1)]
        await until(lambda: len(server.handlers) == len(peers))
        stays = peers.pop()
        for peer in peers:
            peer.close()
        await stays.send(framed(b"still here"))
        counts = [0]
        while counts[-1] < len(peers):
            await asyncio.sleep(0)
            counts.append(sum(handler.closed for handler in server.handlers))
        assert max(after - before for before, after in pairwise(counts)) <= TOLD_A_TURN
        assert await stays.receive(4 + len(b"still here")) == framed(b"still here")


async def test_a_connection_that_another_ends_before_its_own_readiness_is_looked_at_stays_ended():
    """A turn says of both that they are readable; the first closes the second."""
    ended: list[Connection] = []

    class Ending(Echo):
        def on_end_of_input(self) -> None:
            raise AssertionError("nothing is unanswered")

        def on_close(self) -> None:
            super().on_close()
            if not ended:
                ended.append(self.connection)
                for handler in server.handlers:
                    handler.connection.close()

    async with opened(Ending) as server:
        peers = [await server.peer() for _ in range(3)]
        for peer in peers:
            peer.finish()
        for peer in peers:
            assert await peer.receive_end() == b""
        assert [handler.closed for handler in server.handlers] == [1, 1, 1]


class Completions(NoCork):
    """Somebody whose work is done all at once, and who tells of it."""

    def __init__(self) -> None:
        self.answers: list[Answers] = []

    def add_answers(self, answers: Answers) -> None:
        self.answers.append(answers)

    def remove_answers(self, answers: Answers) -> None:
        self.answers.remove(answers)

    def complete(self, tell: Callable[[], None]) -> None:
        for each in self.answers:
            each.gather()
        tell()
        for each in self.answers:
            each.send()


def answer_all(handlers: Sequence[Collect]) -> None:
    for handler in handlers:
        handler.answer(0)


async def test_what_is_answered_because_work_is_done_has_left_before_the_loop_turns():
    work = Completions()
    async with opened(Collect, cork=work) as server:
        peers = [await server.peer() for _ in range(3)]
        await all_send(peers, framed(b"a"))
        await until(lambda: all(handler.requests for handler in server.handlers))
        poll = spy(server)
        for first, last in ((0, 2), (2, 3)):
            before = server.listener.metrics.bytes_out
            work.complete(partial(answer_all, server.handlers[first:last]))
            assert server.listener.metrics.bytes_out == before + (last - first) * len(framed(b"a"))
        assert poll.sent == [2], "one by itself is sent by its connection"
        for peer in peers:
            assert await peer.receive_frame() == b"a"
    assert work.answers == [], "a listener that is closed gathers nothing"


async def test_what_is_done_within_a_turn_or_while_answers_are_sent_is_answered_with_the_rest():
    work = Completions()

    class Nested(Collect):
        """Answers each request by work that is done at once."""

        def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
            super().on_frame(frame, buffer, slot)
            number = len(self.requests) - 1
            work.complete(lambda: work.complete(lambda: self.answer(number)))

    config = NetworkConfig(in_flight_requests_max=2, out_bytes_max=16 * KIB, socket_send_buffer_bytes=4 * KIB)
    async with opened(Nested, cork=work, config=config) as server:
        peers = [await server.peer() for _ in range(3)]
        requests = [framed(b"%d" % number + b"x" * 2_000) for number in range(40)]
        sending = [asyncio.ensure_future(peer.send(b"".join(requests))) for peer in peers]
        for peer in peers:
            assert await peer.receive(sum(map(len, requests))) == b"".join(requests)
        await asyncio.gather(*sending)
        reactor = reactor_of(server)
        assert (reactor.unsent, reactor.is_turning) == ({}, False)


async def test_answers_that_cannot_be_sent_keep_nobody_else_from_being_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def fail(_: Reactor) -> None:
        raise ZeroDivisionError

    work = Completions()
    async with opened(Collect, cork=work) as server:
        peer = await server.peer()
        await all_send([peer], framed(b"a"))
        await until(lambda: server.handlers and server.handlers[0].requests)
        with monkeypatch.context() as patched:
            patched.setattr(Reactor, "_flush_all", fail)
            work.complete(partial(answer_all, server.handlers))
        reactor = reactor_of(server)
        assert "could not send responses" in caplog.text
        assert (reactor.is_turning, reactor._is_flushing) == (False, False)
        work.complete(lambda: None)
        assert await peer.receive_frame() == b"a"
