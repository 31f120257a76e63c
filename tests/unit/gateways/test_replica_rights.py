"""A client that names a replica id gets no replica's rights: it reads and learns nothing above the high watermark."""

import pytest

from ottla.gateways.kafka.api_01_fetch import API as FETCH
from ottla.gateways.kafka.api_02_list_offsets import API as LIST_OFFSETS
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.replication.partition import Partition

REPLICA_STATE_VERSION, TOPIC_ID_VERSION = 15, 13
COMMITTED, APPENDED = 2, 4


@pytest.fixture
async def partition(log_gateway) -> Partition:
    """Two records are committed and two more are only written."""
    partition = await log_gateway.partition()
    await log_gateway.append(partition, COMMITTED)
    await log_gateway.append(partition, APPENDED - COMMITTED)
    partition.high_watermark = COMMITTED
    partition.changed()
    return partition


def fetch(gateway, partition, replica_id, version, offset=0):
    wanted = (FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20),)
    topic = (
        FetchTopic(topic_id=partition.topic_id, partitions=wanted)
        if version >= TOPIC_ID_VERSION
        else FetchTopic(topic="t", partitions=wanted)
    )
    who = (
        {"replica_state": ReplicaState(replica_id=replica_id)}
        if version >= REPLICA_STATE_VERSION
        else {"replica_id": replica_id}
    )
    return gateway.fetch(FETCH, FetchRequest(topics=(topic,), max_bytes=1 << 20, min_bytes=0, **who), version)


@pytest.mark.parametrize("replica_id", [0, 1, 2**31 - 1])
async def test_a_fetch_with_a_replica_id_is_refused_in_every_version(log_gateway, partition, replica_id):
    for version in range(FETCH.min_version, FETCH.max_version + 1):
        answer = fetch(log_gateway, partition, replica_id, version)
        told = [(each.error_code, bytes(each.records)) for topic in answer.responses for each in topic.partitions]
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, version
        assert told == ([] if version >= 13 else [(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, b"")]), version


@pytest.mark.parametrize("replica_id", [-1, -2, -(2**31)])
async def test_every_other_fetch_reads_what_is_committed(log_gateway, partition, replica_id):
    for version in range(FETCH.min_version, FETCH.max_version + 1):
        (topic,) = fetch(log_gateway, partition, replica_id, version).responses
        (data,) = topic.partitions
        assert (data.error_code, data.high_watermark) == (ErrorCode.NONE, COMMITTED), version
        assert data.records.total_bytes == partition.log.size // 2, version
        for offset in (COMMITTED + 1, APPENDED):
            (topic,) = fetch(log_gateway, partition, replica_id, version, offset=offset).responses
            assert (topic.partitions[0].error_code, bytes(topic.partitions[0].records)) == (0, b""), version
        (topic,) = fetch(log_gateway, partition, replica_id, version, offset=APPENDED + 1).responses
        assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE, version


async def offsets(gateway, *timestamps, version=LIST_OFFSETS.max_version, **request):
    topics = tuple(
        ListOffsetsTopic("t", (ListOffsetsPartition(index, timestamp=each),)) for index, each in enumerate(timestamps)
    )
    answer = await gateway.ask(LIST_OFFSETS, ListOffsetsRequest(topics=topics, **request), version)
    return [(each.error_code, each.offset) for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, COMMITTED), (-2, 0), (-3, 1), (-4, 0), (-5, -1), (-6, -1)])
async def test_offsets_are_those_a_consumer_is_told(log_gateway, partition, timestamp, offset):
    for replica_id in (-2, -1, 0, 1, 2**31 - 1):
        assert await offsets(log_gateway, timestamp, replica_id=replica_id) == [(ErrorCode.NONE, offset)]


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
async def test_a_special_timestamp_is_known_from_its_version_on(log_gateway, partition, timestamp, since):
    for version in range(LIST_OFFSETS.min_version, LIST_OFFSETS.max_version + 1):
        ((code, _),) = await offsets(log_gateway, timestamp, version=version, replica_id=-1)
        assert code == (ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    ("isolation_level", "expected"),
    [(0, (ErrorCode.NONE, COMMITTED)), (1, (ErrorCode.NONE, COMMITTED)), (2, (ErrorCode.INVALID_REQUEST, -1))],
)
async def test_offsets_of_each_isolation(log_gateway, partition, isolation_level, expected):
    assert await offsets(log_gateway, -1, replica_id=-1, isolation_level=isolation_level) == [expected]


async def test_a_partition_that_is_named_twice_is_refused_once_and_looked_up_never(log_gateway, partition):
    twice = (ListOffsetsPartition(0, timestamp=-1), ListOffsetsPartition(0, timestamp=-2))
    topics = (ListOffsetsTopic("t", twice), ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp=0),)))
    answer = await log_gateway.ask(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=topics))
    answered = [(each.partition_index, each.error_code) for topic in answer.topics for each in topic.partitions]
    assert answered == [(0, ErrorCode.INVALID_REQUEST)]


async def test_the_start_of_an_empty_log_is_in_the_leaders_epoch(log_gateway):
    await log_gateway.partition(leader_epoch=6)
    topics = (ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp=-2),)),)
    answer = await log_gateway.ask(LIST_OFFSETS, ListOffsetsRequest(replica_id=-1, topics=topics))
    assert (answer.topics[0].partitions[0].offset, answer.topics[0].partitions[0].leader_epoch) == (0, 6)
