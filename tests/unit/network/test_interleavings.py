"""Connections whose peers and handlers do as they please, step by step, in an order that a seed decides.

What a peer has received must be the beginning of what it is owed, to the byte: each answer names its peer and its
request, so that one that is lost, doubled, out of order or another's is found. Who does not hang up gets all of it.
"""

import asyncio
import socket
import struct
import tempfile
from collections.abc import Iterator
from random import Random
from typing import BinaryIO

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.frame_reader import MIXED_MAX
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from ottla.network.response_queue import Part
from ottla.network.response_slots import ResponseSlots
from ottla.network.together import Arrival, Requester
from ottla.runtime.file_slice import FileSlice
from tests.unit.network.peers import Echo, OpenListener, framed, opened, turns, until

MIB = 1024 * KIB
SOCKETS = ("reactor",)  # uvloop leaves some resets unsaid
CONFIG = NetworkConfig(
    in_flight_requests_max=5,
    out_bytes_max=64 * KIB,
    queued_max_request_bytes=4 * MIB,
    socket_send_buffer_bytes=8 * KIB,
)
REQUEST_SIZES = (8, 8, 8, 60, 2_000, 17_000, 90_000)
ANSWER_SIZES = (0, 0, 30, 3_000, 40_000)
PIECES = (1, 4, 9, 200, 5_000, 60_000)
REQUESTS_MAX = 12
STEPS = 60
FILE_BYTES = 50_000

NAME = struct.Struct(">ii")


def file_bytes() -> bytes:
    return bytes(index * 7 % 251 for index in range(FILE_BYTES))


def request(peer: int, number: int) -> bytes:
    return framed(NAME.pack(peer, number) + bytes(REQUEST_SIZES[(peer * 5 + number * 3) % len(REQUEST_SIZES)] - 8))


def has_answer(number: int) -> bool:
    return number % 7 != 3


def answer(peer: int, number: int, file: BinaryIO | None = None) -> list[Part]:
    """The answer in its parts; without a file as it arrives."""
    if not has_answer(number):
        return []
    size = ANSWER_SIZES[(peer * 3 + number * 5) % len(ANSWER_SIZES)]
    head = NAME.pack(peer, number)
    if number % 4 != 1:
        return [struct.pack(">i", 8 + size), head + bytes([number + 1]) * size]
    position = number * 100
    length = struct.pack(">i", 8 + size + 3)
    piece: Part = (
        CONTENT[position : position + size] if file is None else FileSlice(file.fileno(), position, size, file)
    )
    return [length + head, piece, b"end"]


CONTENT = file_bytes()


def owed(peer: int, count: int) -> bytes:
    """What a peer gets for its first requests."""
    return b"".join(bytes(part) for number in range(count) for part in answer(peer, number))  # type: ignore[arg-type]


class Wilful(Echo):
    """Keeps its requests until it is told to answer one of them."""

    def __init__(self, connection: Connection, rng: Random, file: BinaryIO) -> None:
        super().__init__(connection)
        self.rng = rng
        self.file = file
        self.peer: int | None = None
        self.count = 0
        self.unanswered: list[tuple[int, ReceiveBuffer, ResponseSlot]] = []

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        peer, number = NAME.unpack_from(frame)
        assert self.peer in (None, peer), "a request of another peer"
        assert number == self.count, "requests are handed out once and in order"
        assert framed(bytes(frame)) == request(peer, number)
        self.peer, self.count = peer, number + 1
        buffer.retain()
        self.unanswered.append((number, buffer, slot))
        if self.rng.random() < 0.3:
            self.answer()

    def answer(self) -> None:
        if self.unanswered:
            number, buffer, slot = self.unanswered.pop(self.rng.randrange(len(self.unanswered)))
            assert self.peer is not None
            parts = answer(self.peer, number, self.file)
            if parts:
                slot.send(parts)
            else:
                slot.skip()
            buffer.release()

    def on_end_of_input(self) -> None:
        super().on_end_of_input()
        while self.rng.random() < 0.5:
            self.answer()


class WilfulTogether:
    """Takes requests of many peers, or several of one, as it pleases; answers them together when it is told to, or has
    each answered by itself.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.unanswered: list[tuple[ResponseSlots, list[bytes], ReceiveBuffer]] = []
        self.taken_count = 0

    def take(self, received: list[Arrival], buffer: ReceiveBuffer) -> list[Arrival]:
        taken, left = [], []
        for connection, begin, end in received:
            is_whole = frame_end(buffer, begin, end) == end
            wanted = is_whole and has_answer(handler_of(connection).count) and self.rng.random() < 0.8
            (taken if wanted else left).append((connection, begin, end))
        answers = [self._asked(connection, buffer, begin, end) for connection, begin, end in taken]
        self._keep([connection for connection, *_ in taken], answers, buffer)
        return left

    def take_of_one(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int, *, is_whole: bool
    ) -> int:
        if is_whole:
            # All that is whole, or what a look at them leaves of that.
            ends = self._ends(connection, buffer, begin, end, count_max)
            if ends is None:
                return begin
            count_max = len(ends)
        answers: list[bytes] = []
        while len(answers) < count_max and self.rng.random() < 0.8 and has_answer(handler_of(connection).count):
            next_begin = frame_end(buffer, begin, end)
            if next_begin is None:
                break
            answers.append(self._asked(connection, buffer, begin, next_begin))
            begin = next_begin
        self._keep([connection] * len(answers), answers, buffer)
        return begin

    def take_at_once(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> tuple[int, bytes] | None:
        ends = self._ends(connection, buffer, begin, end, count_max)
        if ends is None or self.rng.random() < 0.5:
            return None
        starts = [begin, *ends[:-1]]
        answers = [self._asked(connection, buffer, *place) for place in zip(starts, ends, strict=True)]
        self.taken_count += len(answers)
        return len(answers), b"".join(answers)

    def _ends(
        self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int, count_max: int
    ) -> list[int] | None:
        """Where the requests end that all of it is, each with an answer; None if it is not."""
        ends: list[int] = []
        at = begin
        while at < end:
            next_at = frame_end(buffer, at, end)
            if next_at is None:
                return None
            ends.append(at := next_at)
        count = handler_of(connection).count
        has_answers = all(has_answer(count + index) for index in range(len(ends)))
        return ends if len(ends) <= count_max and has_answers else None

    def _asked(self, connection: Requester, buffer: ReceiveBuffer, begin: int, end: int) -> bytes:
        handler = handler_of(connection)
        peer, number = NAME.unpack_from(buffer.view, begin + 4)
        assert handler.peer in (None, peer), "a request of another peer"
        assert number == handler.count, "requests are handed out once and in order"
        assert bytes(buffer.view[begin:end]) == request(peer, number)
        handler.peer, handler.count = peer, number + 1
        return b"".join(bytes(part) for part in answer(peer, number))  # type: ignore[arg-type]

    def _keep(self, connections: list[Requester], answers: list[bytes], buffer: ReceiveBuffer) -> None:
        if not answers:
            return
        self.taken_count += len(answers)
        slots = ResponseSlots([each.responses for each in connections])
        if self.rng.random() < 0.2:
            handlers = [handler_of(each) for each in connections]
            for slot, handler in zip(slots.apart(), handlers, strict=True):
                buffer.retain()
                handler.unanswered.append((slot.number, buffer, slot))
            return
        buffer.retain()
        self.unanswered.append((slots, answers, buffer))
        if self.rng.random() < 0.3:
            self.answer()

    def answer(self) -> None:
        if self.unanswered:
            slots, answers, buffer = self.unanswered.pop(self.rng.randrange(len(self.unanswered)))
            if len({id(queue) for queue in slots.queues}) == 1:
                slots.send_to_one(answers)
            else:
                slots.send(answers)
            buffer.release()


def handler_of(connection: Requester) -> Wilful:
    assert isinstance(connection.handler, Wilful)
    return connection.handler


def frame_end(buffer: ReceiveBuffer, begin: int, end: int) -> int | None:
    """Where the frame ends that begins there, if it does."""
    if end - begin < 4:
        return None
    (size,) = struct.unpack_from(">i", buffer.view, begin)
    return begin + 4 + size if begin + 4 + size <= end and size <= MIXED_MAX else None


class Stepper:
    """A peer that takes one step when it is told to."""

    def __init__(self, number: int, server: OpenListener[Wilful], rng: Random) -> None:
        self.number = number
        self.rng = rng
        self.count = rng.randint(1, REQUESTS_MAX)
        self.unsent = memoryview(self.asked(self.count))
        self.ends = list(self._ends())
        self.sent = 0
        self.received = bytearray()
        self.has_finished = self.is_gone = self.has_ended = False
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * KIB)
        # With loopback's segments of 64 KiB a window so small would open by timers only.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1_000)
        self.sock.connect(tuple(server.listener.address))
        self.sock.setblocking(False)

    def _ends(self) -> Iterator[int]:
        end = 0
        for index in range(self.count):
            end += len(request(self.number, index))
            yield end

    def asked(self, count: int) -> bytes:
        """Its first requests."""
        return b"".join(request(self.number, index) for index in range(count))

    @property
    def whole_count(self) -> int:
        """Requests that it has sent to their end."""
        return sum(end <= self.sent for end in self.ends)

    def send(self, size: int) -> None:
        if self.has_finished or self.is_gone or not self.unsent:
            return
        try:
            count = self.sock.send(self.unsent[:size])
        except BlockingIOError:
            return
        except OSError:  # the broker is closing
            self.has_finished = True
            return
        self.unsent = self.unsent[count:]
        self.sent += count

    def receive(self, size: int) -> None:
        if self.is_gone or self.has_ended:
            return
        try:
            data = self.sock.recv(size)
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.has_ended = True
            return
        self.has_ended = not data
        self.received += data

    def finish(self) -> None:
        if not self.is_gone and not self.has_finished:
            self.has_finished = True
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:  # the broker has closed it
                self.has_ended = True

    def reset(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()

    def check(self, handed_out: int, *, is_complete: bool) -> None:
        """`handed_out`: how many of its requests the handler got."""
        expected = owed(self.number, self.count)
        assert expected.startswith(self.received), "every answer is its own, once and in order"
        if is_complete:
            assert len(self.received) == len(owed(self.number, handed_out)), "no answer is lost"


class Life:
    """A listener, its peers, and what happens to them."""

    def __init__(self, server: OpenListener[Wilful], rng: Random, together: WilfulTogether) -> None:
        self.server = server
        self.rng = rng
        self.together = together
        self.peers = [Stepper(number, server, rng) for number in range(rng.randint(1, 5))]
        self.closing: asyncio.Task[None] | None = None

    async def step(self) -> None:
        """One thing that happens."""
        peer, choice, rng = self.rng.choice(self.peers), self.rng.random(), self.rng
        if choice < 0.35:
            peer.send(rng.choice(PIECES))
        elif choice < 0.6:
            peer.receive(rng.choice(PIECES))
        elif choice < 0.75 and self.server.handlers:
            who: list[Wilful | WilfulTogether] = [*self.server.handlers, self.together]
            rng.choice(who).answer()
        elif choice < 0.97:
            await turns(rng.randint(1, 3))
        elif choice < 0.99:
            peer.finish()
        else:
            peer.reset()

    def shut_down(self) -> None:
        """The listener closes once all is answered that was handed out."""
        self.closing = asyncio.ensure_future(self.server.listener.close(drain_ms=1_000))

    async def end(self) -> None:
        """Who has not hung up sends and reads to the end, and everything is answered."""
        async with asyncio.timeout(60):
            while not all(peer.is_gone or peer.has_ended for peer in self.peers) or self.server.listener.connections:
                for peer in self.peers:
                    peer.send(1 << 20)
                    peer.receive(1 << 20)
                    if not peer.unsent:
                        peer.finish()
                for handler in self.server.handlers:
                    handler.answer()
                self.together.answer()
                await asyncio.sleep(0)
            if self.closing is not None:
                await self.closing

    def check(self) -> None:
        """Everybody has what is owed, and nothing is left over."""
        server = self.server
        counts = {handler.peer: handler.count for handler in server.handlers}
        for peer in self.peers:
            handed_out = counts.get(peer.number, 0)
            # What reaches a closed socket has the system drop what it has still to send.
            is_unheard = self.closing is not None and peer.sent > len(peer.asked(handed_out))
            peer.check(handed_out, is_complete=not peer.is_gone and not is_unheard)
            assert peer.is_gone or self.closing is not None or handed_out == peer.whole_count
            peer.sock.close()
        for handler in server.handlers:
            while handler.unanswered:
                handler.answer()
            assert handler.closed == 1
        while self.together.unanswered:
            self.together.answer()
        assert server.listener.metrics.out_bytes == 0
        assert (server.memory.pool.in_use_bytes, server.memory.assembling_bytes, server.memory.waiting_count) == (
            0,
            0,
            0,
        )


async def live(seed: int, file: BinaryIO) -> int:
    """How many requests were taken together: none with every other seed."""
    rng = Random(seed)
    together = WilfulTogether(rng)
    taking = together if seed % 2 else None
    async with opened(lambda connection: Wilful(connection, rng, file), CONFIG, together=taking) as server:
        life = Life(server, rng, together)
        shut_down_at = rng.randrange(STEPS) if rng.random() < 0.2 else None
        for step in range(STEPS):
            await life.step()
            if step == shut_down_at:
                life.shut_down()
        await life.end()
        life.check()
    return together.taken_count


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(20), id="few"),
        pytest.param(range(20, 1_020), id="some", marks=pytest.mark.slow),
        pytest.param(range(1_020, 50_000), id="many", marks=pytest.mark.long),
    ],
)
async def test_no_answer_is_lost_doubled_or_anothers(seeds: range):
    with tempfile.TemporaryFile() as file:
        file.write(CONTENT)
        file.flush()
        taken_count = 0
        for seed in seeds:
            try:
                taken_count += await live(seed, file)
            except BaseException as error:
                error.add_note(f"the seed is {seed}")
                raise
        assert taken_count > len(seeds)


async def test_the_checker_notices_an_answer_that_is_lost_doubled_or_anothers():
    rng = Random(1)
    with tempfile.TemporaryFile() as file:
        async with opened(lambda connection: Wilful(connection, rng, file), CONFIG) as server:
            check_the_checker(Stepper(3, server, rng))
            await until(lambda: not server.listener.connections)


def check_the_checker(peer: Stepper) -> None:
    peer.count = 4
    whole = owed(3, 4)
    first = owed(3, 1)
    for received in (whole[len(first) :], first + whole, owed(2, 4), whole[:-1] + b"x"):
        peer.received = bytearray(received)
        with pytest.raises(AssertionError):
            peer.check(4, is_complete=False)
    peer.received = bytearray(whole[:-1])
    peer.check(4, is_complete=False)
    with pytest.raises(AssertionError):
        peer.check(4, is_complete=True)
    peer.received = bytearray(whole)
    peer.check(4, is_complete=True)
    peer.sock.close()
