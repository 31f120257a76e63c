"""When this broker tells the controller that it lives, and what it does with what it hears."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from uuid import UUID

import pytest

from ottla.client.errors import BrokerUnreachableError, ClientError
from ottla.metadata.controller.broker_watch import HeartbeatAnswer
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.peers.heartbeats import IMPATIENT_MS, Disks, Heartbeats
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer

INTERVAL_MS = 2_000
FENCED = HeartbeatAnswer(is_caught_up=False, is_fenced=True, should_shut_down=False)
SERVES = HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
MAY_STOP = HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=True)


class World:
    """A controller that answers what the test says."""

    def __init__(self) -> None:
        self.timer, self.tasks = ManualTimer(), Tasks()
        self.answer: HeartbeatAnswer | ClientError | ApiError = SERVES
        self.wishes: list[bool] = []
        self.disks = Disks()
        self.heard: list[bool] = []
        self.on_its_way: Callable[[HeartbeatAnswer], None] | None = None
        self.told: tuple[bool, frozenset[UUID]] = (False, frozenset())
        self.heartbeats = Heartbeats(
            self,  # type: ignore[arg-type]
            interval_ms=INTERVAL_MS,
            timeout_ms=4_500,
            timer=self.timer,
            tasks=self.tasks,
            disks=lambda: self.disks,
        )

    async def heartbeat(
        self, *, want_fence: bool, want_shutdown: bool, offline_directories: frozenset[UUID], timeout_ms: int
    ) -> HeartbeatAnswer:
        assert timeout_ms == 4_500
        self.told = want_fence, offline_directories
        self.wishes.append(want_shutdown)
        if self.on_its_way is not None and isinstance(self.answer, HeartbeatAnswer):
            self.on_its_way(self.answer)
        if isinstance(self.answer, HeartbeatAnswer):
            return self.answer
        raise self.answer

    async def passed(self, ms: int) -> int:
        """How many heartbeats were sent in that time."""
        before = len(self.wishes)
        self.timer.advance(ms)
        await settle()
        return len(self.wishes) - before


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.heartbeats.start(world.heard.append)
    await settle()
    yield world
    world.heartbeats.close()
    await world.tasks.close()


async def test_the_first_goes_at_once_and_the_others_one_an_interval(world: World) -> None:
    assert world.wishes == [False]
    assert await world.passed(INTERVAL_MS - 1) == 0
    assert await world.passed(1) == 1
    assert await world.passed(INTERVAL_MS) == 1


async def test_while_it_is_fenced_each_image_may_change_that(world: World) -> None:
    world.answer = FENCED
    await world.passed(INTERVAL_MS)
    assert world.heartbeats.is_fenced
    world.heartbeats.on_image(None, None)
    assert await world.passed(0) == 1
    assert await world.passed(IMPATIENT_MS) == 1
    world.answer = SERVES
    await world.passed(IMPATIENT_MS)
    assert not world.heartbeats.is_fenced
    world.heartbeats.on_image(None, None)
    assert await world.passed(0) == 0
    assert await world.passed(IMPATIENT_MS) == 0


@pytest.mark.parametrize("error", [BrokerUnreachableError("gone"), ApiError(ErrorCode.NOT_CONTROLLER)])
async def test_one_that_was_not_heard_is_sent_again_soon_and_said_once(
    world: World, error: ClientError | ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.answer = error
    await world.passed(INTERVAL_MS)
    assert await world.passed(IMPATIENT_MS) == 1
    assert await world.passed(IMPATIENT_MS) == 1
    assert len([each for each in caplog.messages if "cannot send heartbeats" in each]) == 1
    world.answer = SERVES
    await world.passed(IMPATIENT_MS)
    assert await world.passed(IMPATIENT_MS) == 0


async def test_a_broker_that_wants_to_stop_asks_until_it_may(world: World) -> None:
    leaving = asyncio.ensure_future(world.heartbeats.leave(30_000))
    await settle()
    assert world.wishes == [False, True]
    await world.passed(IMPATIENT_MS)
    assert not leaving.done()
    world.answer = MAY_STOP
    await world.passed(IMPATIENT_MS)
    assert await leaving is True


async def test_a_broker_that_may_not_stop_in_time_is_told_so(world: World) -> None:
    leaving = asyncio.ensure_future(world.heartbeats.leave(300))
    for _ in range(4):
        await world.passed(IMPATIENT_MS)
    assert await leaving is False


async def test_a_broker_that_is_refused_hears_why(world: World) -> None:
    heard: list[str] = []
    world.heartbeats.on_refused = heard.append
    world.answer = ApiError(ErrorCode.INVALID_REGISTRATION, "it flushes and the others do not")
    await world.passed(INTERVAL_MS)
    assert heard == ["it flushes and the others do not"]
    await world.passed(IMPATIENT_MS)
    assert len(heard) == 1


async def test_after_the_end_nothing_is_sent(world: World) -> None:
    world.heartbeats.close()
    await settle()
    before = len(world.wishes)
    assert await world.passed(INTERVAL_MS * 3) == 0
    assert len(world.wishes) == before


async def test_the_controller_hears_at_once_of_disks_that_fail_and_that_are_back(world: World) -> None:
    lost = UUID(int=5)
    world.disks = Disks(frozenset({lost}))
    world.heartbeats.beat_soon()
    await world.passed(0)
    assert world.told == (False, frozenset({lost}))
    world.disks, world.answer = Disks(has_none=True), FENCED
    world.heartbeats.beat_soon()
    await world.passed(0)
    assert world.told == (True, frozenset())
    assert await world.passed(IMPATIENT_MS) == 0, "it is fenced because it wants to be"
    world.disks = Disks()
    assert await world.passed(INTERVAL_MS) == 1
    assert world.told == (False, frozenset())
    assert await world.passed(IMPATIENT_MS) == 1, "it waits to serve again"


async def test_what_changes_while_one_is_on_its_way_is_told_by_the_next_one_at_once(world: World) -> None:
    failed = UUID(int=7)

    def fails_meanwhile(answer: HeartbeatAnswer) -> None:
        world.on_its_way = None
        world.disks = Disks(frozenset({failed}))
        world.heartbeats.beat_soon()

    world.on_its_way = fails_meanwhile
    assert await world.passed(INTERVAL_MS) == 2
    assert world.told == (False, frozenset({failed}))
    assert await world.passed(INTERVAL_MS - 1) == 0


async def test_each_answer_says_whether_the_broker_is_fenced_whatever_it_has_read(world: World) -> None:
    world.heard.clear()
    for answer in (SERVES, FENCED, FENCED, SERVES):
        world.answer = answer
        await world.passed(INTERVAL_MS)
    assert world.heard == [False, True, True, False]
