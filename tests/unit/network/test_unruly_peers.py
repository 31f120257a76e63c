"""Many peers at once that do as they please, under limits that are always reached: nothing is lost or left over."""

import asyncio
from random import Random

import pytest

from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection, ResponseSlot
from ottla.network.receive_buffer import KIB, ReceiveBuffer
from tests.unit.network.peers import Echo, OpenListener, Peer, framed, opened, turns, until

pytestmark = pytest.mark.slow

MIB = 1024 * KIB
CONFIG = NetworkConfig(
    in_flight_requests_max=6,
    out_bytes_max=64 * KIB,
    out_bytes_total_max=16 * MIB,
    queued_max_request_bytes=4 * MIB,
    socket_send_buffer_bytes=16 * KIB,
)


class Unruly(Echo):
    """Answers in whatever order and turn it likes, now and then with something pushed between."""

    def __init__(self, connection: Connection, rng: Random) -> None:
        super().__init__(connection)
        self.rng = rng
        self.unanswered: list[tuple[bytes, ReceiveBuffer, ResponseSlot]] = []
        self.may_push = True

    def on_frame(self, frame: memoryview, buffer: ReceiveBuffer, slot: ResponseSlot) -> None:
        buffer.retain()
        self.unanswered.append((bytes(frame[:8]) + b"x" * self.rng.choice((0, 10, 40_000)), buffer, slot))
        if self.rng.random() < 0.7:
            asyncio.get_running_loop().call_soon(self.answer)

    def answer(self) -> None:
        """Some of those that wait."""
        for _ in range(self.rng.randint(1, 4)):
            if self.unanswered:
                payload, buffer, slot = self.unanswered.pop(self.rng.randrange(len(self.unanswered)))
                slot.send((framed(payload),))
                buffer.release()
        if self.may_push and self.rng.random() < 0.2:
            self.may_push = self.connection.push((framed(b"pushed" + bytes(5_000)),), self.resume)

    def resume(self) -> None:
        self.may_push = True

    def on_end_of_input(self) -> None:
        super().on_end_of_input()
        while self.unanswered:
            self.answer()


async def behave(server: OpenListener, rng: Random) -> int:
    """One peer's life; how many answers it got."""
    peer = await Peer.connect(server.listener)
    count = rng.randint(1, 60)
    sizes = [rng.choice((8, 8, 100, 20_000, 300_000)) for _ in range(count)]
    data = b"".join(framed(number.to_bytes(8, "big") + bytes(size - 8)) for number, size in enumerate(sizes))
    end = rng.choice(("reads", "reads", "finishes", "finishes", "resets", "hangs up", "in the middle"))
    if end == "in the middle":
        data = data[: rng.randrange(len(data))]

    async def send() -> None:
        position = 0
        while position < len(data):
            size = rng.choice((1, 5, 1_000, 100_000, 1_000_000))
            await peer.send(data[position : position + size])
            position += size
            await turns(rng.randint(0, 3))
        if end in ("finishes", "in the middle"):
            peer.finish()

    sending = asyncio.ensure_future(send())
    got = 0
    try:
        if end in ("resets", "hangs up"):
            await turns(rng.randint(0, 100))
            return 0
        while got < count:
            answer = await peer.receive_frame()
            if not answer.startswith(b"pushed"):
                assert answer[:8] == got.to_bytes(8, "big"), "answers leave in the order of the requests"
                got += 1
        if end == "finishes":
            await peer.receive_end()
    except ConnectionError:
        assert end == "in the middle"
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        peer.reset() if end == "resets" else peer.close()
    return got


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_is_lost_and_nothing_left_over(seed: int):
    rng = Random(seed)
    async with opened(lambda connection: Unruly(connection, rng), CONFIG) as server:
        stop = asyncio.Event()

        async def answer_what_waits() -> None:
            while not stop.is_set():
                for handler in server.handlers:
                    assert isinstance(handler, Unruly)
                    handler.answer()
                await turns(2)

        answering = asyncio.ensure_future(answer_what_waits())
        async with asyncio.timeout(60):
            for _ in range(2):
                await asyncio.gather(*(behave(server, rng) for _ in range(15)))
        await until(lambda: not server.listener.connections)
        stop.set()
        await answering
        for handler in server.handlers:
            assert isinstance(handler, Unruly)
            while handler.unanswered:
                handler.answer()
        assert server.listener.metrics.out_bytes == 0
        assert (server.memory.pool.in_use_bytes, server.memory.assembling_bytes, server.memory.waiting_count) == (
            0,
            0,
            0,
        )
        assert all(handler.closed == 1 for handler in server.handlers)
