"""What the handler of Fetch makes of a request, whoever sent it."""

import pytest

from ottla.gateways.kafka.api_01_fetch import API as FETCH
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
