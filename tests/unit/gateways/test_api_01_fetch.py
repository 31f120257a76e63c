"""What the handler of Fetch makes of a request, whoever sent it."""

import asyncio
from collections.abc import Iterator
from threading import Event

import pytest

from ottla.broker.access import Operation, ResourceType
from ottla.broker.fetch import FetchService
from ottla.gateways.kafka.api_01_fetch import API as FETCH
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from tests.unit.broker.rules import Rules

ANY_VERSION = 12


async def test_a_partition_that_is_named_many_times_is_read_once(log_gateway) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 2)
    wanted = tuple(FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (7, 8, 1))
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=wanted),), max_bytes=1 << 20, min_bytes=0)
    (topic,) = log_gateway.fetch(FETCH, request, ANY_VERSION).responses
    (data,) = topic.partitions
    assert (data.error_code, data.records.total_bytes) == (0, partition.log.size)


async def test_a_partition_with_an_error_tells_where_it_begins_is_decided_and_ends(log_gateway) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 4)
    partition.last_stable_offset = 3
    wanted = (FetchPartition(fetch_offset=9, partition_max_bytes=1 << 20),)
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=wanted),), max_bytes=1 << 20, min_bytes=0)
    (topic,) = log_gateway.fetch(FETCH, request, ANY_VERSION).responses
    (data,) = topic.partitions
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.log_start_offset, data.last_stable_offset, data.high_watermark) == (0, 3, 4)


@pytest.mark.parametrize("isolation_level", [2, -1])
async def test_a_fetch_of_no_known_isolation_is_refused(log_gateway, isolation_level) -> None:
    answer = log_gateway.fetch(FETCH, FetchRequest(isolation_level=isolation_level), ANY_VERSION)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("session_id", "epoch"), [(5, 1), (0, 1)])
async def test_a_session_nobody_has_is_not_found(log_gateway, session_id, epoch) -> None:
    answer = log_gateway.fetch(FETCH, FetchRequest(session_id=session_id, session_epoch=epoch), ANY_VERSION)
    assert (answer.error_code, answer.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


async def test_a_session_reads_the_new_topic_when_a_topic_is_deleted_and_made_again(log_gateway) -> None:
    log_gateway.fetch_sessions = FetchSessionCache(log_gateway.clock, log_gateway.rng, slots_max=1, eviction_ms=1_000)
    old = await log_gateway.partition()
    await log_gateway.append(old, 2)
    topics = (FetchTopic(topic="t", partitions=(FetchPartition(partition_max_bytes=1 << 20),)),)
    whole = FetchRequest(topics=topics, max_bytes=1 << 20, min_bytes=0, session_epoch=0)
    session_id = log_gateway.fetch(FETCH, whole, ANY_VERSION).session_id
    errors = []
    for epoch in (1, 2):
        log_gateway.replicas.remove([old.topic_partition])
        if epoch == 2:
            await log_gateway.logs.delete_log(old.topic_partition)
            await log_gateway.append(await log_gateway.partition(), 5)
        request = FetchRequest(session_id=session_id, session_epoch=epoch, max_bytes=1 << 20, min_bytes=0)
        (topic,) = log_gateway.fetch(FETCH, request, ANY_VERSION).responses
        errors.append((topic.partitions[0].error_code, topic.partitions[0].high_watermark))
    assert errors == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (ErrorCode.NONE, 5)]


def plain_fetch(offset: int, *, max_wait_ms: int = 0) -> FetchRequest:
    """A fetch of one partition without a session."""
    wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic="t", partitions=(wanted,)),)
    return FetchRequest(topics=topics, max_bytes=1 << 20, min_bytes=1 << 20, max_wait_ms=max_wait_ms)


@pytest.fixture
def slow_disk(monkeypatch) -> Iterator[Event]:
    """Old records are not at hand, and reading waits until this is set."""
    disk_is_done = Event()
    monkeypatch.setattr(Log, "look_up", lambda _log, offset: None if offset else disk_is_done.wait)
    yield disk_is_done
    disk_is_done.set()


async def until_nothing_is_looked_up(gateway) -> None:
    async with asyncio.timeout(60):
        while gateway.tasks:  # noqa: ASYNC110 (nothing says when a task is gone)
            await asyncio.sleep(0)
    assert gateway.gateway.broker.look_ups.count == 0


async def test_who_waits_for_the_disk_keeps_nobody_else_waiting(log_gateway, slow_disk) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 2)
    await log_gateway.append(partition, 1)
    answers = []
    assert log_gateway.begin_fetch(FETCH, plain_fetch(0), ANY_VERSION, answers)[0] is None
    assert len(told(log_gateway.fetch(FETCH, plain_fetch(2), ANY_VERSION))) == 1
    assert (answers, log_gateway.gateway.broker.look_ups.count) == ([], 1)
    slow_disk.set()
    await until_nothing_is_looked_up(log_gateway)
    ((_, error, size),) = told(answers[0])
    assert (error, size) == (0, partition.log.size)


async def test_a_session_goes_on_after_its_client_waited_for_the_disk(session_gateway, slow_disk) -> None:
    partition = await session_gateway.partition()
    await session_gateway.append(partition, 2)
    slow_disk.set()
    answers = []
    session_gateway.begin_fetch(FETCH, session_fetch(0, 0, (0, 0)), ANY_VERSION, answers)
    await until_nothing_is_looked_up(session_gateway)
    session_gateway.begin_fetch(FETCH, session_fetch(answers[0].session_id, 1), ANY_VERSION, answers)
    await until_nothing_is_looked_up(session_gateway)
    assert [told(answer) for answer in answers] == [[(0, 0, partition.log.size)]] * 2


async def test_a_fetch_that_waited_for_the_disk_leaves_nothing_behind_when_its_client_is_gone(
    log_gateway, slow_disk
) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 2)
    answers = []
    _, ctx = log_gateway.begin_fetch(FETCH, plain_fetch(0, max_wait_ms=100_000), ANY_VERSION, answers)
    ctx.connection.is_closed = True
    slow_disk.set()
    await until_nothing_is_looked_up(log_gateway)
    assert (answers, ctx.kafka_connection.waiting_fetches, log_gateway.fetch_purgatory.delayed_count) == ([], set(), 0)


async def test_a_fetch_that_fails_after_it_waited_closes_its_connection(log_gateway, slow_disk, monkeypatch) -> None:
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 2)

    def broken(*_arguments: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(FetchService, "fetch", broken)
    log_gateway.begin_fetch(FETCH, plain_fetch(0), ANY_VERSION, [])
    slow_disk.set()
    await until_nothing_is_looked_up(log_gateway)
    assert [str(error) for error in log_gateway.failures] == ["a mistake"]


async def test_there_is_a_limit_to_what_waits_for_the_disk(log_gateway, slow_disk) -> None:
    log_gateway.gateway.broker.look_ups.count_max = 1
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 2)
    waiting, at_once = [], []
    log_gateway.begin_fetch(FETCH, plain_fetch(0), ANY_VERSION, waiting)
    log_gateway.begin_fetch(FETCH, plain_fetch(0), ANY_VERSION, at_once)
    assert (len(waiting), len(at_once)) == (0, 1)
    slow_disk.set()
    await until_nothing_is_looked_up(log_gateway)
    assert len(waiting) == 1


def session_fetch(session_id: int, epoch: int, *offsets: tuple[int, int], min_bytes: int = 0) -> FetchRequest:
    """The next fetch of a session over topic `t`; `offsets` are partitions with where they are read from now on."""
    wanted = tuple(
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20) for index, offset in offsets
    )
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        max_bytes=1 << 20,
        min_bytes=min_bytes,
        topics=(FetchTopic(topic="t", partitions=wanted),) if wanted else (),
    )


def told(answer) -> list[tuple[int, int, int]]:
    """Partition, error and bytes of everything an answer speaks of."""
    return [
        (
            part.partition_index,
            part.error_code,
            len(part.records or b"") if isinstance(part.records, bytes) else part.records.total_bytes,
        )
        for topic in answer.responses
        for part in topic.partitions
    ]


@pytest.fixture
def session_gateway(log_gateway):
    """A gateway with room for one fetch session."""
    log_gateway.fetch_sessions = FetchSessionCache(log_gateway.clock, log_gateway.rng, slots_max=1, eviction_ms=1_000)
    return log_gateway


async def test_a_session_looks_only_at_partitions_that_changed_since_its_last_fetch(
    session_gateway, monkeypatch
) -> None:
    partitions = [await session_gateway.partition(index=index) for index in range(4)]
    for partition in partitions:
        await session_gateway.append(partition, 2)
    everything = session_fetch(0, 0, *((index, 2) for index in range(4)))
    session_id = session_gateway.fetch(FETCH, everything, ANY_VERSION).session_id
    looked_at = []
    look = Partition.require_leader_epoch

    def counted(partition: Partition, epoch: int, *, from_followers: bool) -> None:
        looked_at.append(partition.index)
        look(partition, epoch, from_followers=from_followers)

    monkeypatch.setattr(Partition, "require_leader_epoch", counted)
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 1), ANY_VERSION)) == []
    assert looked_at == []
    await session_gateway.append(partitions[2], 1)
    ((index, error, size),) = told(session_gateway.fetch(FETCH, session_fetch(session_id, 2), ANY_VERSION))
    assert (index, error, size > 0, looked_at) == (2, 0, True, [2])


async def test_a_partition_of_a_session_is_read_where_its_client_is_now(session_gateway) -> None:
    partition = await session_gateway.partition()
    await session_gateway.append(partition, 2)
    size = partition.log.size
    session_id = session_gateway.fetch(FETCH, session_fetch(0, 0, (0, 2)), ANY_VERSION).session_id
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 1), ANY_VERSION)) == []
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 2, (0, 0)), ANY_VERSION)) == [(0, 0, size)]
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 3), ANY_VERSION)) == [(0, 0, size)]
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 4, (0, 3)), ANY_VERSION)) == [
        (0, ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    ]
    # What was told of before an error is told again after it.
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 5, (0, 2)), ANY_VERSION)) == [(0, 0, 0)]
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 6), ANY_VERSION)) == []


async def test_a_session_tells_of_records_that_were_deleted(session_gateway) -> None:
    partition = await session_gateway.partition()
    await session_gateway.append(partition, 2)
    session_id = session_gateway.fetch(FETCH, session_fetch(0, 0, (0, 2)), ANY_VERSION).session_id
    partition.delete_records_before(1)
    answer = session_gateway.fetch(FETCH, session_fetch(session_id, 1), ANY_VERSION)
    assert answer.responses[0].partitions[0].log_start_offset == 1
    assert told(session_gateway.fetch(FETCH, session_fetch(session_id, 2), ANY_VERSION)) == []


async def test_a_session_asks_again_whether_its_client_may_read_when_the_rules_changed(session_gateway) -> None:
    rules = Rules()
    partition = await session_gateway.partition()
    await session_gateway.append(partition, 1)
    session_gateway.fetches = FetchService(session_gateway.replicas, session_gateway.fetch_purgatory, 1 << 20, rules)
    first = session_gateway.fetch(FETCH, session_fetch(0, 0, (0, 0)), ANY_VERSION)
    rules.deny(Operation.READ, ResourceType.TOPIC, "t")
    again = session_gateway.fetch(FETCH, session_fetch(first.session_id, 1), ANY_VERSION)
    assert [each.error_code for topic in again.responses for each in topic.partitions] == [ErrorCode.NONE]
    rules.version += 1
    refused = session_gateway.fetch(FETCH, session_fetch(first.session_id, 2), ANY_VERSION)
    errors = [each.error_code for topic in refused.responses for each in topic.partitions]
    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
