"""A topic that is deleted while producers and consumers wait on it: everybody hears of it, and nothing stays."""

from typing import Any

import pytest

from ottla.gateways.kafka.apis import APIS
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.server.socketless_broker import Peer, Slot, SocketlessBroker, decoded, until

PARTITIONS = 2
GONE = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


def versions(key: ApiKey) -> range:
    row = APIS.rows[key]
    return range(row.min_version, row.max_version + 1)


def produce(broker: SocketlessBroker, version: int, acks: int, *, count: int) -> ProduceRequest:
    """A batch for each of the first `count` partitions."""
    data = tuple(
        PartitionProduceData(index=index, records=bytes(build_batch([(0, b"k", b"v", ())]))) for index in range(count)
    )
    named = {"topic_id": broker.topic_id("t")} if version >= 13 else {"name": "t"}
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=(TopicProduceData(**named, partition_data=data),))


def fetch(broker: SocketlessBroker, version: int, *, session: bool) -> FetchRequest:
    """Waits for records of both partitions, with or without a session."""
    partitions = tuple(FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(PARTITIONS))
    named: dict[str, Any] = {"topic_id": broker.topic_id("t")} if version >= 13 else {"topic": "t"}
    topics = (FetchTopic(**named, partitions=partitions),)
    epoch = 0 if session and version >= 7 else -1
    return FetchRequest(topics=topics, max_wait_ms=60_000, min_bytes=1 << 20, max_bytes=1 << 20, session_epoch=epoch)


async def commit(peer: Peer) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    answer = await peer.ask(OffsetCommitRequest(group_id="g", topics=topics), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def committed(peer: Peer) -> list[int]:
    answer = await peer.ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    return [each.committed_offset for topic in answer.topics for each in topic.partitions]


async def coordinator_is_there(broker: SocketlessBroker) -> None:
    await broker.connect().ask(FindCoordinatorRequest(key="g"), 0)
    await until(lambda: not broker.server.services.groups.is_loading)


def errors_of(slot: Slot, key: ApiKey, version: int) -> list[int]:
    answer = decoded(slot, key, version)
    if key is ApiKey.PRODUCE:
        return [each.error_code for topic in answer.responses for each in topic.partition_responses]
    return [each.error_code for topic in answer.responses for each in topic.partitions]


async def delete_with_requests_in_flight(broker: SocketlessBroker) -> tuple[list[Peer], list[tuple[Slot, ApiKey, int]]]:
    """Have the topic deleted while nothing that was appended is on disk."""
    peers, sent = [], []
    broker.hold_writes()
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        for version in versions(key):
            peer = broker.connect()
            peers.append(peer)
            requests = (
                [produce(broker, version, acks, count=count) for acks in (-1, 1) for count in (1, PARTITIONS)]
                if key is ApiKey.PRODUCE
                else [fetch(broker, version, session=session) for session in (True, False)]
            )
            sent += [(peer.send(request, version), key, version) for request in requests]
    assert all(slot.frame is None for slot, _, _ in sent)
    admin = broker.connect()
    deletion = admin.send(DeleteTopicsRequest(topic_names=("t",), timeout_ms=60_000), 3)
    await until(lambda: broker.server.replicas.find("t", 0) is None)
    broker.let_writes_go()
    await until(lambda: deletion.frame is not None)
    assert [each.error_code for each in decoded(deletion, ApiKey.DELETE_TOPICS, 3).responses] == [ErrorCode.NONE]
    return peers, sent


async def test_who_waits_on_a_deleted_topic_is_answered_in_every_version_and_its_connection_lives(
    socketless_broker: SocketlessBroker,
) -> None:
    await socketless_broker.create_topic("t", PARTITIONS)
    peers, sent = await delete_with_requests_in_flight(socketless_broker)
    await until(lambda: all(slot.frame is not None or peer.is_closed for slot, _, _ in sent for peer in peers))
    for slot, key, version in sent:
        errors = errors_of(slot, key, version)
        # A fetch hears of the first partition that goes. With acks=1 the write counts, and that came to its end.
        assert set(errors) <= GONE | {ErrorCode.NONE}, (key, version, errors)
        assert key is ApiKey.PRODUCE or GONE.intersection(errors), (version, errors)
    for peer in peers:
        assert (await peer.ask(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE
        assert peer.closed_because is None


async def test_a_topic_that_is_deleted_under_its_producers_and_consumers_leaves_nothing_behind(
    socketless_broker: SocketlessBroker,
) -> None:
    await socketless_broker.create_topic("t", PARTITIONS)
    await coordinator_is_there(socketless_broker)
    await commit(socketless_broker.connect())
    await delete_with_requests_in_flight(socketless_broker)
    assert not [path.name for path in socketless_broker.directory.iterdir() if path.name in ("t-0", "t-1")]
    await until(lambda: socketless_broker.server._fetch_purgatory.delayed_count == 0)
    await socketless_broker.create_topic("t", PARTITIONS)
    assert await committed(socketless_broker.connect()) == []


async def test_one_who_fails_when_a_topic_goes_stops_nothing_of_its_deletion(
    socketless_broker: SocketlessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await socketless_broker.create_topic("t", PARTITIONS)
    await coordinator_is_there(socketless_broker)
    await commit(socketless_broker.connect())

    def fail(_: object) -> None:
        raise RuntimeError("a mistake")

    for index in range(PARTITIONS):
        socketless_broker.server.replicas.get("t", index).append(
            build_batch([(0, b"k", b"v", ())]), acks=-1, on_ack=fail, on_buffer_free=None
        )
        socketless_broker.server.replicas.get("t", index).subscribe(fail)
    await delete_with_requests_in_flight(socketless_broker)
    assert not [path.name for path in socketless_broker.directory.iterdir() if path.name in ("t-0", "t-1")]
    assert await committed(socketless_broker.connect()) == []
    assert "a mistake" in caplog.text
