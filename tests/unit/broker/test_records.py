"""How long a broker looks for the leader of records that it does not lead."""

import asyncio
from typing import Any, cast

import pytest

from ottla.broker.access import ALLOW_ALL
from ottla.broker.records import RETRY_MS, RecordRead, RecordService
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.model.topic_partition import TopicPartition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.broker.other_brokers import image_of, settle

PLACE = TopicPartition("orders", 0)
READ = RecordRead(b"batch", 1, 1, 0)


class World:
    """Broker 1, which leads nothing, and what the test says of the others: an error, or who answers."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.leader = -1
        self.errors: list[ErrorCode] = []
        self.asked: list[int] = []
        environment = Environment(self.timer.clock, SeededRng(0), self.timer, Tasks("test"), lambda call: None)
        self.service = RecordService(
            cast("Any", None),
            cast("Any", None),
            ReplicaManager(),
            environment,
            ALLOW_ALL,
            lambda: image_of({"orders": (self.leader,)}),
            1,
            self,
        )

    async def append(self, leader_id: int, place: TopicPartition, batch: Any, timeout_ms: int) -> int:
        self._answer(leader_id)
        return 41

    async def read(
        self, leader_id: int, place: TopicPartition, offset: int, max_bytes: int, wait_ms: int, *, read_committed: bool
    ) -> RecordRead:
        self._answer(leader_id)
        return READ

    async def delete(self, leader_id: int, place: TopicPartition, timeout_ms: int) -> None:
        self._answer(leader_id)

    def _answer(self, leader_id: int) -> None:
        self.asked.append(leader_id)
        if self.errors:
            raise ApiError(self.errors.pop(0), "as the test says")

    async def begin(self, coroutine: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(coroutine)
        await settle()
        return task

    async def passes(self, ms: int) -> None:
        self.timer.advance(ms)
        await settle()


def appending(world: World) -> Any:
    return world.service.append(ANONYMOUS, PLACE, [(None, b"x", ())], 10 * RETRY_MS)


async def test_an_append_waits_for_a_leader_and_then_goes_to_it() -> None:
    world = World()
    task = await world.begin(appending(world))
    await world.passes(RETRY_MS)
    assert (task.done(), world.asked) == (False, [])
    world.leader = 3
    await world.passes(RETRY_MS)
    assert (await task, world.asked) == (41, [3])


async def test_an_append_gives_up_when_nobody_led_in_time() -> None:
    world = World()
    task = await world.begin(appending(world))
    for _ in range(10):
        await world.passes(RETRY_MS)
    with pytest.raises(ApiError) as refused:
        await task
    assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE


async def test_what_may_be_there_already_is_not_appended_again() -> None:
    world = World()
    world.leader = 2
    world.errors = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
    task = await world.begin(appending(world))
    await world.passes(RETRY_MS)
    with pytest.raises(ApiError) as refused:
        await task
    assert (refused.value.code, world.asked) == (ErrorCode.REQUEST_TIMED_OUT, [2, 2])


async def test_a_deletion_goes_to_the_leader() -> None:
    world = World()
    world.leader = 2
    world.errors = [ErrorCode.LEADER_NOT_AVAILABLE]
    deleted = world.service.delete(ANONYMOUS, PLACE, cast("Any", None), 10 * RETRY_MS)
    task = await world.begin(deleted)
    world.leader = 3
    await world.passes(RETRY_MS)
    await task
    assert world.asked == [2, 3]


async def test_a_read_follows_the_leader() -> None:
    world = World()
    world.leader = 2
    world.errors = [ErrorCode.LEADER_NOT_AVAILABLE]
    task = await world.begin(world.service.read(ANONYMOUS, PLACE, 0, max_bytes=100, timeout_ms=10 * RETRY_MS))
    world.leader = 3
    await world.passes(RETRY_MS)
    assert (await task, world.asked) == (READ, [2, 3])
