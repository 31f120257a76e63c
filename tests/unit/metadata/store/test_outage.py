"""A client that waits for a store which does not answer is told why; one whose store answers waits on."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from ottla.metadata.store.outage import FRESH_MS, OUTAGE_MS, PATIENCE_MS, StoreOutage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import until

WHY = "the metadata store has not answered within 2 s"


class World:
    """One broker: whether it reaches the store, whether others do, and how often each was asked."""

    def __init__(self) -> None:
        self.timer, self.tasks = ManualTimer(), Tasks()
        self.trouble: str | None = WHY
        self.others_reach = False
        self.questions = 0
        self.outage = StoreOutage(
            self._trouble,
            clock=self.timer.clock,
            timer=self.timer,
            tasks=self.tasks,
            others_reach=self._others_reach,
        )
        self.begun = 0
        self.decided: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def _trouble(self) -> str | None:
        self.questions += 1
        return self.trouble

    async def _others_reach(self) -> bool:
        return self.others_reach

    async def decide(self) -> str:
        """A change that a client asked for."""
        self.begun += 1
        return await self.decided

    def ask(self) -> "asyncio.Task[str]":
        return asyncio.ensure_future(self.outage.limit(self.decide()))

    def has_asked(self, questions: int) -> bool:
        return self.questions == questions

    async def wait_patiently(self, clients: int = 1) -> None:
        """Let the time pass that `clients` wait before they ask."""
        await until(lambda: len(self.timer) == clients)
        self.timer.advance(PATIENCE_MS)

    async def give_up(self, clients: int = 1) -> None:
        """Let the time pass after which `clients` give up."""
        for questions in range(self.questions + 1, self.questions + 1 + OUTAGE_MS // PATIENCE_MS):
            await self.wait_patiently(clients)
            await until(partial(self.has_asked, questions))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.tasks.close()


async def reason_of(asked: "asyncio.Task[str]") -> str:
    with pytest.raises(ApiError) as told:
        await asked
    assert told.value.code is ErrorCode.REQUEST_TIMED_OUT
    return told.value.message


async def test_who_waits_for_a_store_that_no_broker_reaches_hears_why_and_what_is_not_known(world: World) -> None:
    asked = world.ask()
    await world.give_up()
    told = await reason_of(asked)
    assert told.startswith(WHY)
    assert "not known whether the change was made" in told
    assert world.decided.cancelled()  # who waited; the controller goes on


async def test_a_broker_that_is_alone_with_the_store_has_nobody_else_to_ask(world: World) -> None:
    world.outage.others_reach = None
    asked = world.ask()
    await world.give_up()
    assert (await reason_of(asked)).startswith(WHY)


@pytest.mark.parametrize(("trouble", "others_reach"), [(None, False), (WHY, True)])
async def test_while_any_broker_reaches_the_store_clients_wait_on(
    world: World, trouble: str | None, others_reach: bool
) -> None:
    world.trouble, world.others_reach = trouble, others_reach
    asked = world.ask()
    for questions in range(1, 4):
        await world.wait_patiently()
        await until(partial(world.has_asked, questions))
    world.decided.set_result("decided")
    assert await asked == "decided"
    assert len(world.timer) == 0


async def test_a_connection_that_is_lost_for_a_moment_is_no_outage(world: World) -> None:
    asked = world.ask()
    await world.wait_patiently()
    await until(partial(world.has_asked, 1))
    world.decided.set_result("decided when it was made again")
    assert await asked == "decided when it was made again"
    another = asyncio.ensure_future(world.outage.limit(decided_at_once()))
    assert await another == "at once"


async def decided_at_once() -> str:
    return "at once"


async def test_what_is_decided_in_time_asks_nobody(world: World) -> None:
    world.decided.set_result("decided")
    assert await world.ask() == "decided"
    assert (world.questions, len(world.timer)) == (0, 0)


async def test_many_clients_ask_one_question(world: World) -> None:
    asked = [world.ask() for _ in range(5)]
    await world.give_up(5)
    for each in asked:
        await reason_of(each)
    assert world.questions == OUTAGE_MS // PATIENCE_MS


async def test_for_a_moment_nothing_is_begun_that_would_wait_again(world: World) -> None:
    asked = world.ask()
    await world.give_up()
    await reason_of(asked)
    await reason_of(world.ask())
    assert (world.begun, world.questions) == (1, OUTAGE_MS // PATIENCE_MS)
    world.timer.advance(FRESH_MS)
    world.decided = asyncio.get_running_loop().create_future()
    world.decided.set_result("decided")
    assert await world.ask() == "decided"


async def test_a_client_that_goes_away_leaves_nothing_behind(world: World) -> None:
    asked = world.ask()
    await until(lambda: len(world.timer) == 1)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await until(lambda: len(world.timer) == 0 and world.decided.cancelled())
