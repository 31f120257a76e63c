"""The budget holds, small requests flow under it, and somebody can always go on."""

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.receive_buffer import KIB, LARGEST, SMALLEST, ReceiveBuffer
from ottla.network.request_memory import RequestMemory
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import framed

MIB = 1024 * KIB
FRAME_MAX = 8 * MIB


class Turns:
    """Stands in for the loop's `call_soon`."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.calls.append(callback)

    def run(self) -> None:
        for _ in range(1_000):
            if not self.calls:
                return
            self.calls.popleft()()
        pytest.fail("the connections wake each other for ever")


class Sender:
    """A connection whose peer has sent some bytes that may not have been received yet."""

    def __init__(self, memory: RequestMemory) -> None:
        self.reader = LengthPrefixReader(memory, self, FRAME_MAX)
        self.sent = bytearray()
        self.frames = 0
        self.held: list[ReceiveBuffer] = []
        self.is_waiting = False
        self.is_closed = False

    def send(self, data: bytes) -> None:
        self.sent += data
        self.receive()

    def receive(self) -> None:
        while self.sent and not self.is_waiting and not self.is_closed:
            self.receive_once()

    def receive_once(self) -> None:
        window = self.reader.window()
        if window is None:
            self.is_waiting = True
            return
        count = min(len(window), len(self.sent))
        if not count:
            self.reader.trim()
            return
        window[:count] = self.sent[:count]
        del self.sent[:count]
        self.reader.received(count)
        while self.reader.next_frame() is not None:
            self.frames += 1
            assert self.reader.buffer is not None
            self.reader.buffer.retain()
            self.held.append(self.reader.buffer)
        self.reader.trim()

    def resume_for_memory(self) -> None:
        assert self.is_waiting
        self.is_waiting = False
        self.receive_once()

    def close_for_memory(self, stalled_ms: int) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True
        self.reader.close()
        self.finish()

    def finish(self) -> None:
        """The handler is done with everything."""
        while self.held:
            self.held.pop().release()


class World:
    def __init__(self, budget_bytes: int = 8 * MIB) -> None:
        self.turns = Turns()
        self.timer = ManualTimer()
        self.budget_bytes = budget_bytes
        self.memory = RequestMemory(
            budget_bytes,
            stalled_ms=10_000,
            clock=self.timer.clock,
            timer=self.timer,
            call_soon=self.turns.call_soon,
        )

    def senders(self, count: int) -> list[Sender]:
        return [Sender(self.memory) for _ in range(count)]


@pytest.fixture
def world() -> World:
    return World()


def half_sent(size: int, sent: int) -> bytes:
    return framed(bytes(size))[:sent]


def test_requests_that_are_never_completed_take_half_of_the_budget_and_one_request_at_most(world: World):
    for sender in world.senders(20):
        sender.send(half_sent(FRAME_MAX, 3 * MIB))
        world.turns.run()
    assert world.memory.assembling_bytes <= world.budget_bytes // 2 + FRAME_MAX
    assert world.memory.pool.in_use_bytes <= world.budget_bytes + FRAME_MAX


def test_small_requests_flow_while_large_ones_have_used_up_their_half(world: World):
    for sender in world.senders(20):
        sender.send(half_sent(FRAME_MAX, MIB))
    (client,) = world.senders(1)
    for _ in range(50):
        client.send(framed(bytes(10_000)))
        client.finish()
    assert client.frames == 50


def test_who_has_earned_a_large_buffer_gets_a_small_one_when_memory_is_short(world: World):
    senders = world.senders(60)
    for sender in senders:
        sender.send(framed(bytes(MIB)))
        sender.finish()
    for sender in senders:
        sender.send(half_sent(MIB, 60 * KIB))
    assert world.memory.pool.in_use_bytes <= world.budget_bytes // 2 + FRAME_MAX


def test_the_longest_waiting_large_request_grows_when_nobody_else_can(world: World):
    senders = world.senders(20)
    for sender in senders:
        sender.send(half_sent(FRAME_MAX, MIB))
    waiting = [sender for sender in senders if sender.is_waiting]
    assert waiting, "the budget was meant to be too small for all of them"
    for sender in senders:
        sender.sent += framed(bytes(FRAME_MAX))[MIB:]
    for _ in range(len(senders) * 10):
        for sender in senders:
            sender.receive()
            sender.finish()
            world.turns.run()
    assert [sender.frames for sender in senders] == [1] * len(senders)


def test_nobody_reads_while_requests_being_handled_take_half_of_the_budget(world: World):
    busy, client = world.senders(2)
    while not busy.is_waiting:
        busy.send(framed(bytes(MIB - 100)))
    client.send(framed(b"small"))
    assert (client.frames, client.is_waiting) == (0, True)
    busy.finish()
    world.turns.run()
    assert (client.frames, client.is_waiting) == (1, False)
    assert world.memory.waiting_count == 0


def test_requests_that_have_begun_do_not_grow_while_nothing_is_finished(world: World):
    """A disk that stands still must not let every connection fill one more buffer."""
    busy, *begun = world.senders(200)
    for sender in begun:
        sender.send(half_sent(MIB, 3_000))
    while not busy.is_waiting:
        busy.send(framed(bytes(MIB - 100)))
    for sender in begun:
        sender.send(framed(bytes(MIB))[3_000:])
    assert world.memory.pool.in_use_bytes <= world.budget_bytes + FRAME_MAX
    while not all(sender.frames for sender in begun):
        for sender in (busy, *begun):
            sender.finish()
        world.turns.run()
        for sender in begun:
            sender.receive()


def test_who_holds_part_of_a_request_and_sends_nothing_is_closed_when_others_wait(world: World):
    stalled = world.senders(6)
    for sender in stalled:
        sender.send(half_sent(FRAME_MAX, MIB))
    honest = world.senders(1)[0]
    honest.send(framed(bytes(FRAME_MAX)))
    assert honest.frames == 0
    for _ in range(20):
        world.timer.advance(1_000)
        world.turns.run()
        honest.receive()
    assert honest.frames == 1


def test_a_slow_request_that_moves_is_not_closed(world: World):
    others = world.senders(6)
    for sender in others:
        sender.send(half_sent(FRAME_MAX, MIB))
    moving = next(sender for sender in others if not sender.is_waiting)
    for _ in range(30):
        world.timer.advance(1_000)
        moving.send(b"x")
        world.turns.run()
    assert not moving.is_closed


def test_nobody_is_closed_when_nobody_waits(world: World):
    (sender,) = world.senders(1)
    sender.send(half_sent(FRAME_MAX, 100 * KIB))
    world.timer.advance(3_600_000)
    assert not sender.is_closed
    assert len(world.timer) == 0


def test_a_connection_that_closes_while_it_waits_is_forgotten(world: World):
    busy, client = world.senders(2)
    while not busy.is_waiting:
        busy.send(framed(bytes(MIB - 100)))
    client.send(framed(b"small"))
    client.close()
    busy.finish()
    world.turns.run()
    assert (client.frames, world.memory.waiting_count) == (0, 0)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(min_value=0, max_value=19),
            st.sampled_from(["send", "send", "send", "finish", "close", "time"]),
            st.sampled_from([1, 3_000, 20 * KIB, 70 * KIB, 300 * KIB, MIB, 3 * MIB]),
        ),
        max_size=120,
    )
)
def test_the_bound_holds_whatever_happens_and_in_the_end_all_is_free(steps: list[tuple[int, str, int]]):
    world = World()
    senders = world.senders(20)
    streams = [framed(bytes(size)) * (16 * MIB // size) for size in (10, 10_000, 400 * KIB, FRAME_MAX)]
    positions = [0] * 20
    for index, action, number in steps:
        sender = senders[index]
        if action == "send" and not sender.is_closed and len(sender.sent) < MIB:
            sender.send(streams[index % 4][positions[index] : positions[index] + number])
            positions[index] += number
        elif action == "finish":
            sender.finish()
        elif action == "close" and not sender.is_closed:
            sender.close()
        elif action == "time":
            world.timer.advance(number // 1_000)
        world.turns.run()
        bound = world.budget_bytes + FRAME_MAX + LARGEST + SMALLEST * len(senders)
        assert world.memory.pool.in_use_bytes <= bound
        assert world.memory.assembling_bytes >= 0
        assert world.memory.handled_bytes >= 0
    for sender in senders:
        sender.sent.clear()
        if not sender.is_closed:
            sender.close()
    world.turns.run()
    assert world.memory.pool.in_use_bytes == 0
    assert world.memory.assembling_bytes == 0
    assert world.memory.waiting_count == 0
