"""What was noted of records is stored and found again, while leaders fail, logs are cut and strangers write there."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker import history_topic
from ottla.broker.history_topic import CLOSE_MS, CLOSE_RETRY_MS, RETRY_MS, WRITE_MS, HistoryTopic
from ottla.broker.records import OutOfRangeError, RecordRead
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_offsets, build_batch
from ottla.queues.history import Event
from ottla.queues.share_state import ShareKey
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.broker.other_brokers import settle

KEY = ShareKey("workers", UUID(int=1), 3)
OTHER = ShareKey("others", UUID(int=1), 3)


class World:
    """A topic in memory."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.errors: list[ErrorCode] = []
        self.is_stuck = False
        self.batches: dict[int, list[tuple[int, bytes]]] = {}
        self.ends: dict[int, int] = {}
        self.start = 0
        topic = SimpleNamespace(partitions=range(history_topic.PARTITIONS))

        async def ensure(topic_: object) -> object:
            return topic

        self.history = HistoryTopic(
            cast("Any", self),
            cast("Any", SimpleNamespace(ensure=ensure)),
            lambda: cast("Any", SimpleNamespace(topic=lambda name: topic)),
            1,
            self.timer.clock,
            self.timer,
            Tasks("test"),
        )

    async def append_batch(self, principal: object, place: TopicPartition, batch: bytearray, timeout_ms: int) -> int:
        if self.errors:
            raise ApiError(self.errors.pop())
        if self.is_stuck:
            await asyncio.get_running_loop().create_future()
        base = self.ends.get(place.partition, 0)
        self.ends[place.partition] = assign_offsets(batch, base, 1)
        self.batches.setdefault(place.partition, []).append((base, bytes(batch)))
        return base

    async def read(self, principal: object, place: TopicPartition, offset: int, **limits: int) -> RecordRead:
        if offset < self.start:
            raise OutOfRangeError("cut", self.start)
        there = [data for base, data in self.batches.get(place.partition, []) if base >= max(offset, self.start)]
        return RecordRead(b"".join(there[:1]), self.ends.get(place.partition, 0), 0, self.start)

    async def pass_by(self, ms: int) -> None:
        await settle()
        self.timer.advance(ms)
        await settle()

    @property
    def batch_count(self) -> int:
        return sum(map(len, self.batches.values()))


def event(at_ms: int, first: int = 0, last: int = 0, what: str = "delivered") -> Event:
    return Event(at_ms, what, first, last, 1, "m")


async def test_events_are_gathered_stored_and_found_by_offset_and_time() -> None:
    world = World()
    world.history.note(KEY, [event(1, 0, 9)])
    world.history.note(KEY, [event(2, 10, 19), event(3, 5, 5, "accepted")])
    world.history.note(OTHER, [event(4, 5, 5)])
    assert world.batch_count == 0
    await world.pass_by(WRITE_MS)
    assert world.batch_count <= 2
    assert await world.history.read(KEY, 5, 0) == [event(1, 0, 9), event(3, 5, 5, "accepted")]
    assert await world.history.read(KEY, 5, 1) == [event(3, 5, 5, "accepted")]
    assert await world.history.read(KEY, 20, 0) == []
    assert await world.history.read(OTHER, 5, 0) == [event(4, 5, 5)]
    world.history.note(KEY, [event(6, 5, 5)])
    await world.pass_by(WRITE_MS)
    assert await world.history.read(KEY, 5, 1) == [event(3, 5, 5, "accepted"), event(6, 5, 5)]


async def test_what_cannot_be_written_waits_and_comes_in_order() -> None:
    world = World()
    world.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    world.history.note(KEY, [event(1)])
    await world.pass_by(WRITE_MS)
    world.history.note(KEY, [event(2)])
    await world.pass_by(RETRY_MS)
    await world.pass_by(WRITE_MS)
    assert await world.history.read(KEY, 0, 0) == [event(1), event(2)]


async def test_a_broker_that_is_stopped_writes_what_waits_at_once() -> None:
    world = World()
    world.history.note(KEY, [event(1)])
    await settle()
    await world.history.close()
    world.history.note(KEY, [event(2)])
    await settle()
    assert await world.history.read(KEY, 0, 0) == [event(1)]


async def test_a_broker_that_is_stopped_tries_again_what_it_could_not_write() -> None:
    world = World()
    world.errors = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS]
    world.history.note(KEY, [event(1)])
    await world.pass_by(WRITE_MS)
    closing = asyncio.ensure_future(world.history.close())
    await world.pass_by(0)
    assert world.batch_count == 0
    await world.pass_by(CLOSE_RETRY_MS)
    await closing
    assert await world.history.read(KEY, 0, 0) == [event(1)]


async def test_a_broker_that_is_stopped_waits_only_so_long_for_its_history(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.is_stuck = True
    world.history.note(KEY, [event(1)])
    await world.pass_by(WRITE_MS)
    closing = asyncio.ensure_future(world.history.close())
    await world.pass_by(CLOSE_MS - 1)
    assert not closing.done()
    await world.pass_by(1)
    await closing
    assert "not stored" in caplog.text


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_topic, "WAITING_MAX", 10)
    monkeypatch.setattr(history_topic, "RECORD_EVENTS_MAX", 2)
    world = World()
    world.history.note(KEY, [event(1) for _ in range(9)])
    world.history.note(OTHER, [event(2) for _ in range(5)])
    await world.pass_by(WRITE_MS)
    assert await world.history.read(KEY, 0, 0) == []
    assert await world.history.read(OTHER, 0, 0) == [event(2)] * 5


async def test_a_topic_that_is_cut_and_written_by_others_is_read_all_the_same() -> None:
    world = World()
    for at in (1, 2):
        world.history.note(KEY, [event(at)])
        await world.pass_by(WRITE_MS)
    [(place, _)] = world.batches.items()
    key = b"workers/00000000-0000-0000-0000-000000000001/3"
    values = [b"", b"no JSON", b'{"version": 1, "events": [[1, 2]]}', None]
    strange = [(9, key, value, [("offsets", b"9" * 50)]) for value in values]
    await world.append_batch(None, TopicPartition("t", place), build_batch(strange), 0)
    world.history.note(KEY, [event(3)])
    await world.pass_by(WRITE_MS)
    assert await world.history.read(KEY, 0, 0) == [event(1), event(2), event(3)]
    world.start = 1
    assert await world.history.read(KEY, 0, 0) == [event(2), event(3)]
    world.start = 100
    assert await world.history.read(KEY, 0, 0) == []


async def test_without_events_nothing_is_written() -> None:
    world = World()
    world.history.note(KEY, [])
    await world.pass_by(WRITE_MS)
    assert world.batch_count == 0
