"""What the handler of Fetch makes of a request, whoever sent it."""

import pytest

from ottla.gateways.kafka.api_01_fetch import API as FETCH
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

ANY_VERSION = 12


async def test_a_partition_that_is_named_many_times_is_read_once(log_door) -> None:
    partition = await log_door.partition()
    await log_door.append(partition, 2)
    wanted = tuple(FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (7, 8, 1))
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=wanted),), max_bytes=1 << 20, min_bytes=0)
    (topic,) = log_door.fetch(FETCH, request, ANY_VERSION).responses
    (data,) = topic.partitions
    assert (data.error_code, data.records.total_bytes) == (0, partition.log.size)


@pytest.mark.parametrize("isolation_level", [2, -1])
async def test_a_fetch_of_no_known_isolation_is_refused(log_door, isolation_level) -> None:
    answer = log_door.fetch(FETCH, FetchRequest(isolation_level=isolation_level), ANY_VERSION)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("session_id", "epoch"), [(5, 1), (0, 1)])
async def test_a_session_nobody_has_is_not_found(log_door, session_id, epoch) -> None:
    answer = log_door.fetch(FETCH, FetchRequest(session_id=session_id, session_epoch=epoch), ANY_VERSION)
    assert (answer.error_code, answer.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


async def test_a_session_reads_the_new_topic_when_a_topic_is_deleted_and_made_again(log_door) -> None:
    log_door.fetch_sessions = FetchSessionCache(log_door.clock, log_door.rng, slots_max=1, eviction_ms=1_000)
    old = await log_door.partition()
    await log_door.append(old, 2)
    topics = (FetchTopic(topic="t", partitions=(FetchPartition(partition_max_bytes=1 << 20),)),)
    whole = FetchRequest(topics=topics, max_bytes=1 << 20, min_bytes=0, session_epoch=0)
    session_id = log_door.fetch(FETCH, whole, ANY_VERSION).session_id
    errors = []
    for epoch in (1, 2):
        log_door.replicas.remove([old.topic_partition])
        if epoch == 2:
            await log_door.logs.delete_log(old.topic_partition)
            await log_door.append(await log_door.partition(), 5)
        request = FetchRequest(session_id=session_id, session_epoch=epoch, max_bytes=1 << 20, min_bytes=0)
        (topic,) = log_door.fetch(FETCH, request, ANY_VERSION).responses
        errors.append((topic.partitions[0].error_code, topic.partitions[0].high_watermark))
    assert errors == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1), (ErrorCode.NONE, 5)]
