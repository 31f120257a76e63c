"""What a broker that leads, and one whose clients read there, may be sent by each other as ShareReads: nothing but what
both can do comes of it.

    kind, 1 byte | length of what follows, 2 bytes | bytes        and the next, up to eight

    0 asked of the leader of five messages by another broker         1 an answer to what a reader asks next

An answer that is none is an ApiError; a reader gets no more than it asked for; nothing crashes or takes long.
"""

import asyncio
import contextlib
import logging
import os
import struct
import tempfile
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from ottla.broker import share_readers
from ottla.broker.access import ALLOW_ALL
from ottla.broker.cluster_share_groups import ShareGroupChannel
from ottla.broker.remote_shares import RemoteShares
from ottla.broker.share_readers import ShareReaders
from ottla.client.errors import ConnectionLostError
from ottla.gateways.nsq.in_flight import InFlight
from ottla.groups.share.exchange import ShareOffsetsAnswer
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.native import build_batch
from ottla.protocol.messages.share_reads import ShareReadsResponse
from ottla.queues.acknowledgements import ACCEPT
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import StateAnswer
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from tests.fuzz.targets.requests import Failures
from tests.unit.gateways.nsq.test_channel_reader import LIMITS, Partitions
from tests.unit.queues.test_share_partition import share_over

ASKED, ANSWERED = range(2)
STEPS_MAX = 8
TURNS = 12
STEP_MS = 700
MESSAGES = 5
READY = 3
TOPIC_ID = UUID(int=1)


class World:
    """The log, and what is logged."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - it stays
        batches = [build_batch([(7, None, b"m%d" % number, ())]) for number in range(MESSAGES)]
        self.file.write(b"".join(at.to_bytes(8, "big") + batch[8:] for at, batch in enumerate(batches)))
        self.file.flush()
        self.failures = Failures()
        logging.getLogger("ottla").addHandler(self.failures)
        share_readers.WATCH_MS_MAX = 0  # type: ignore[misc]  # what is new is told at once, or not


class Groups:
    """Begins whatever it is asked for."""

    async def begin(self, principal: object, group_id: str, starts: Any) -> Any:
        """As `ShareGroupService.begin`."""
        assert all(-1 <= start < 1 << 63 for start in starts.values())
        return ShareOffsetsAnswer(), dict.fromkeys(starts, StateAnswer())


class Answers:
    """A leader that says what it is told to, and then is gone."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []

    async def ask(self, broker_id: int, data: bytes, lane: str, timeout_ms: int) -> bytes:
        """As `RemoteReaders`."""
        if not self.waiting:
            raise ConnectionLostError("it is gone")
        return self.waiting.pop(0)

    async def request(self, broker_id: int, request: object, response: object, *, timeout_ms: int) -> Any:
        """As `BrokerChannels`."""
        return ShareReadsResponse(data=await self.ask(broker_id, b"", "", timeout_ms))


async def _asked(readers: ShareReaders, data: bytes) -> None:
    with contextlib.suppress(ApiError):
        assert isinstance(await readers.answered(2, data), bytes)


async def _read(shares: RemoteShares) -> None:
    """One reader, until it is gone."""
    share, in_flight = shares.get(ANONYMOUS, "c", (TOPIC_ID, 0)), InFlight()

    def on_timed_out(runs: Any) -> None:
        for first, last, _, attempts in runs:
            in_flight.take_timed_out(0, first, last, attempts)

    share.watch_timeouts("r", on_timed_out)
    try:
        acquired = await share.acquire("r", LIMITS, max_bytes=1_000, max_records=READY, exact=True)
        assert in_flight.add(0, acquired.runs, 0) <= READY
        settled = share.begin_settle("r", [(first, last, ACCEPT) for first, last, _ in acquired.runs], LIMITS)
        assert isinstance(settled if isinstance(settled, ErrorCode) else await settled, ErrorCode)
    except ApiError:
        pass
    finally:
        share.forget_member("r")


async def _count(shares: RemoteShares) -> None:
    assert isinstance(await shares.has_readers("c", TOPIC_ID, if_unknown=False), bool)


async def _begin(answers: Answers) -> None:
    channel = ShareGroupChannel(cast("Any", answers), lambda: cast("Any", None))
    try:
        answer, begun = await channel.begin(1, "c", {ShareKey("c", TOPIC_ID, 0): 0})
    except ConnectionLostError:
        return
    assert answer.error or len(begun) == 1


async def _converse(world: World, data: bytes) -> None:
    tasks = Tasks("fuzz")
    share = share_over(world.file.fileno(), MESSAGES, tasks)
    partitions, timer = Partitions(share), cast("Any", share)._leases._timer
    cast("Any", share.partition).subscribe = cast("Any", share.partition).unsubscribe = lambda on_change: None
    share._on_released = share._on_lost = partitions.tell
    readers = ShareReaders(cast("Any", partitions), cast("Any", Groups()), 1, timer)
    topic = SimpleNamespace(name="t", partitions=[SimpleNamespace(leader=1)])
    image: Any = SimpleNamespace(topic_by_id=lambda topic_id: topic, active_brokers=lambda: {1, 2})
    answers = Answers()
    shares = RemoteShares(answers, lambda: image, 2, ALLOW_ALL, rng=SeededRng(1), tasks=tasks)
    try:
        for _ in range(STEPS_MAX):
            if len(data) < 3:
                break
            kind, (size,) = data[0] % 2, struct.unpack_from(">H", data, 1)
            body, data = data[3 : 3 + size], data[3 + size :]
            if kind == ASKED:
                tasks.spawn(_asked(readers, body), "asked")
            else:
                for reads in (_read(shares), _count(shares), _begin(answers)):
                    answers.waiting = [body] * 2
                    tasks.spawn(reads, "reads")
                    await _turns()
            await _turns()
            timer.advance(STEP_MS)
        answers.waiting = []
        await _turns()
    finally:
        await tasks.close()
    assert 0 <= share.ledger.start_offset <= share.ledger.end_offset <= MESSAGES


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


_worlds: list[World] = []


def check(data: bytes) -> None:
    """See the top of the file."""
    if not _worlds:
        _worlds.append(World())
    world = _worlds[0]
    world.loop.run_until_complete(_converse(world, data))
    assert not world.failures.lines, world.failures.lines
    assert os.fstat(world.file.fileno()).st_size


def said(*steps: tuple[int, bytes]) -> bytes:
    """An input that says these one after the other."""
    return b"".join(bytes([kind]) + struct.pack(">H", len(data)) + data for kind, data in steps)
