"""The share sessions of a broker: how they end, what they may hold, and what they are told when leaders change."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker.share_fetches import (
    PARTITIONS_PER_SESSION_MAX,
    PartitionAcknowledgements,
    ShareFetchService,
)
from ottla.broker.share_partitions import LOOK_MS, SharePartitions
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.queues.acknowledgements import ACCEPT
from ottla.queues.share_state import ShareKey, ShareState
from ottla.queues.share_state_shard import StateAnswer
from ottla.queues.state_batches import StateBatch
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks as BrokerTasks
from ottla.storage.log_config import LogConfig

TOPIC = UUID(int=1)


class Tasks:
    def spawn(self, coroutine: Any, name: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine, name=name)


class States:
    """The state of every share partition; `on_read` is called before it is told."""

    def __init__(self) -> None:
        self.on_read: Callable[[], object] = lambda: None
        self.state = ShareState(start_offset=0)

    async def read(self, key: ShareKey, leader_epoch: int) -> StateAnswer:
        self.on_read()
        return StateAnswer(state=self.state)

    async def summary(self, key: ShareKey) -> StateAnswer:
        return StateAnswer(state=self.state)


class Settings:
    def integer(self, name: str) -> int:
        return 100

    def text(self, name: str) -> str:
        return "earliest"

    def boolean(self, name: str) -> bool:
        return False

    def words(self, name: str) -> tuple[str, ...]:
        return ()


PARTITION = SimpleNamespace(
    topic_partition=SimpleNamespace(topic="t"),
    is_leader=True,
    leader_epoch=5,
    log=SimpleNamespace(log_start_offset=0, config=LogConfig()),
)


def service_of(
    states: States, partition: Any = PARTITION, tasks: Any = None, monotonic_ms: Callable[[], int] = lambda: 0
) -> ShareFetchService:
    clock = cast("Any", SimpleNamespace(monotonic_ms=monotonic_ms, now_ms=lambda: 0))
    timer = cast("Any", None)
    authorizer = cast("Any", SimpleNamespace(allows=lambda *asked: True))
    partitions = SharePartitions(
        cast("Any", SimpleNamespace(get_by_id=lambda topic_id, index: partition)),
        cast("Any", states),
        lambda group_id: cast("Any", Settings()),
        clock=clock,
        rng=SeededRng(1),
        timer=timer,
        tasks=cast("Any", Tasks() if tasks is None else tasks),
        authorizer=authorizer,
    )
    return ShareFetchService(partitions, 10, clock=clock, timer=timer, authorizer=authorizer)


def test_a_session_that_ends_twice_ends_once() -> None:
    service = service_of(States())
    one, other = object(), object()
    first = service.session("g", "a", 0, one, has_acknowledgements=False)
    service.session("g", "b", 0, other, has_acknowledgements=False)
    service.end_of(one)
    service.end(first)
    again = service.session("g", "a", 0, one, has_acknowledgements=False)
    service.end(first)
    assert service.session("g", "a", 1, one, has_acknowledgements=False) is again
    service.end_of(other)
    service.end_of(one)


def test_a_session_is_the_members_whatever_connection_it_uses_and_ends_with_the_one_that_began_it() -> None:
    service = service_of(States())
    one, other = object(), object()
    session = service.session("g", "a", 0, one, has_acknowledgements=False)
    assert service.session("g", "a", 1, other, has_acknowledgements=True) is session
    service.end_of(other)
    assert service.session("g", "a", 2, other, has_acknowledgements=True) is session
    service.end_of(one)
    with pytest.raises(ApiError):
        service.session("g", "a", 3, other, has_acknowledgements=True)


def test_a_member_that_begins_another_session_keeps_what_it_holds_until_that_ends() -> None:
    service = service_of(States())
    released: list[str] = []
    first, second = object(), object()
    session = service.session("g", "a", 0, first, has_acknowledgements=False)

    async def load() -> None:
        share = await service.partitions.get(ANONYMOUS, "g", (TOPIC, 0))
        share.release_member = released.append  # type: ignore[method-assign,assignment]

    asyncio.run(load())
    session.touched[TOPIC, 0] = None
    service.session("g", "a", 0, second, has_acknowledgements=False)
    service.end_of(first)
    assert released == []
    service.end_of(second)
    assert released == ["a"]


def test_a_partition_whose_group_begins_elsewhere_is_loaded_anew_under_members_that_go_on() -> None:
    states, now = States(), [0]
    service = service_of(states, monotonic_ms=lambda: now[0])
    service.session("g", "a", 0, object(), has_acknowledgements=False)

    async def look() -> bool:
        before = asyncio.all_tasks()
        service.partitions.look_again("g", [(TOPIC, 0), (TOPIC, 1)])
        looks = asyncio.all_tasks() - before
        await asyncio.gather(*looks)
        return bool(looks)

    async def read() -> None:
        share = await service.partitions.get(ANONYMOUS, "g", (TOPIC, 0))
        now[0] = LOOK_MS
        assert await look()
        assert not share.is_lost
        states.state = ShareState(start_offset=7, state_epoch=1)
        now[0] += LOOK_MS - 1
        assert not await look()
        now[0] += 1
        assert await look()
        assert share.is_lost
        share = await service.partitions.get(ANONYMOUS, "g", (TOPIC, 0))
        assert share.ledger.start_offset == 7
        states.state = ShareState()  # the answer where there is none
        now[0] += LOOK_MS
        assert await look()
        assert share.is_lost

    asyncio.run(read())


def test_a_refused_change_of_partitions_leaves_them_as_they_were() -> None:
    service = service_of(States())
    session = service.session("g", "a", 0, object(), has_acknowledgements=False)
    service.change(session, [(TOPIC, 0)], [])
    with pytest.raises(ApiError):
        service.change(session, [(TOPIC, index) for index in range(PARTITIONS_PER_SESSION_MAX + 1)], [])
    assert list(session.places) == [(TOPIC, 0)]


def acknowledged(service: ShareFetchService, connection: object, offset: int = 0) -> ErrorCode:
    async def run() -> ErrorCode:
        session = service.session("g", "a", 0, connection, has_acknowledgements=False)
        given = PartitionAcknowledgements((TOPIC, 0), [(offset, offset, ACCEPT)])
        return (await service.acknowledge(ANONYMOUS, session, [given]))[TOPIC, 0]

    return asyncio.run(run())


def test_state_that_was_read_for_an_older_leader_epoch_is_not_used() -> None:
    states = States()
    partition = SimpleNamespace(**vars(PARTITION))
    states.on_read = lambda: vars(partition).update(leader_epoch=7)
    assert acknowledged(service_of(states, partition), object()) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_state_that_arrives_when_the_last_member_is_gone_is_not_kept() -> None:
    states = States()
    service = service_of(states)
    connection = object()
    states.on_read = lambda: service.end_of(connection)
    assert acknowledged(service, connection) is ErrorCode.SHARE_SESSION_NOT_FOUND
    reads: list[int] = []
    states.on_read = lambda: reads.append(1)
    assert acknowledged(service, connection) is ErrorCode.INVALID_RECORD_STATE
    assert reads == [1], "the next member reads the state anew"


def test_what_was_accepted_stays_so_when_the_log_begins_within_it() -> None:
    states = States()
    accepted = StateBatch(5, 14, state=2, deliveries=1)
    states.state = ShareState(start_offset=0, batches=(accepted, StateBatch(15, 20, state=0, deliveries=1)))
    partition = SimpleNamespace(**{**vars(PARTITION), "log": SimpleNamespace(log_start_offset=10)})
    # 14 lies below the start of the group, which is 15: it is settled for everybody.
    assert acknowledged(service_of(states, partition), object(), 14) is ErrorCode.NONE
    assert acknowledged(service_of(states, partition), object(), 15) is ErrorCode.INVALID_RECORD_STATE


class TogetherStates(States):
    """Answers no read before two are there, and then that the coordinator is away."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.are_two = asyncio.Event()

    async def read(self, key: ShareKey, leader_epoch: int) -> StateAnswer:
        self.count += 1
        if self.count == 2:
            self.are_two.set()
        await self.are_two.wait()
        return StateAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_partition_whose_state_is_not_reached_holds_back_no_other() -> None:
    async def run() -> list[ErrorCode]:
        states = TogetherStates()
        service = service_of(states)
        session = service.session("g", "a", 0, object(), has_acknowledgements=False)
        service.change(session, [(TOPIC, 0), (TOPIC, 1)], [])
        fetch = service.fetch(ANONYMOUS, session, max_wait_ms=0, max_bytes=1, max_records=1, exact=False, batch_size=1)
        found = await asyncio.wait_for(fetch, 60)
        assert states.count == 2, "each is asked for once"
        return [each.error for each in found]

    assert asyncio.run(run()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


async def test_a_state_whose_coordinator_moves_is_read_again_and_no_crash_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = [StateAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), StateAnswer(state=ShareState(start_offset=0))]

    class Moving(States):
        async def read(self, key: ShareKey, leader_epoch: int) -> StateAnswer:
            return answers.pop(0)

    tasks = BrokerTasks()
    service = service_of(Moving(), tasks=tasks)
    service.session("g", "a", 0, object(), has_acknowledgements=False)
    with pytest.raises(ApiError) as caught:
        await service.partitions.get(ANONYMOUS, "g", (TOPIC, 0))
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await service.partitions.get(ANONYMOUS, "g", (TOPIC, 0))).is_current
    await tasks.close()
    assert not caplog.records
