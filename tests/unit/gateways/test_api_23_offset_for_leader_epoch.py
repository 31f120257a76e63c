"""OffsetForLeaderEpoch: where epochs end, and who may ask."""

import pytest

from ottla.gateways.kafka.api_23_offset_for_leader_epoch import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNKNOWN = (-1, -1)


async def ask(gateway, epoch, *, topic="t", index=0, current=-1, replica_id=-1, version=API.max_version):
    """The error, the epoch and its end."""
    wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
    topics = (OffsetForLeaderTopic(topic, (wanted,)),)
    if version >= 3:
        request = OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)
    else:
        request = OffsetForLeaderEpochRequest(topics=topics)
    (answered,) = (await gateway.ask(API, request, version)).topics
    (result,) = answered.partitions
    assert (answered.topic, result.partition) == (topic, index)
    return result.error_code, result.leader_epoch, result.end_offset


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_an_epoch_ends_where_the_next_begins_and_the_last_at_the_log_end(log_gateway, version):
    partition = await log_gateway.partition(leader_epoch=2)
    await log_gateway.append(partition, 4)
    partition.leader_epoch = 5
    await log_gateway.append(partition, 3)
    answers = {epoch: (await ask(log_gateway, epoch, version=version))[1:] for epoch in range(-1, 7)}
    assert answers == {-1: UNKNOWN, 0: (0, 0), 1: (1, 0), 2: (2, 4), 3: (2, 4), 4: (2, 4), 5: (5, 7), 6: UNKNOWN}


async def test_the_leaders_epoch_is_known_before_anything_is_written_in_it(log_gateway):
    partition = await log_gateway.partition(leader_epoch=2)
    assert [(await ask(log_gateway, epoch))[1:] for epoch in (1, 2, 3)] == [(1, 0), (2, 0), UNKNOWN]
    await log_gateway.append(partition, 4)
    partition.leader_epoch = 5
    assert [(await ask(log_gateway, epoch))[1:] for epoch in (2, 4, 5, 6)] == [(2, 4), (2, 4), (5, 4), UNKNOWN]
    assert [partition.epoch_of_offset(offset) for offset in (0, 3, 4)] == [2, 2, 5]


@pytest.mark.parametrize(
    ("topic", "index", "current", "code"),
    [
        ("t", 0, 3, ErrorCode.NONE),
        ("t", 0, 2, ErrorCode.FENCED_LEADER_EPOCH),
        ("t", 0, 4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("t", 9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_who_believes_in_another_leader_is_told(log_gateway, topic, index, current, code):
    await log_gateway.partition()
    assert (await ask(log_gateway, 3, topic=topic, index=index, current=current))[0] == code


@pytest.mark.parametrize("replica_id", [-2, -1, 0, 1, 7])
async def test_a_replica_id_changes_nothing(log_gateway, replica_id):
    await log_gateway.append(await log_gateway.partition(), 4)
    assert await ask(log_gateway, 3, replica_id=replica_id) == (ErrorCode.NONE, 3, 4)
