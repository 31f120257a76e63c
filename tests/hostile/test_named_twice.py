"""A name that one request gives twice, and lists with nothing in them: answered as Kafka 4.3.1 answers the same bytes,
or refused where Kafka would lose something."""

from __future__ import annotations

from uuid import uuid4

import pytest

from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker_process import BrokerProcess
from tests.hostile.conftest import create_topic, end_offset
from tests.hostile.raw_peer import RawPeer

OK, INVALID, UNKNOWN = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
BATCH = bytes(build_batch([(0, None, b"x", ())]))
TOPIC = 2


@pytest.fixture
def name(broker: BrokerProcess) -> str:
    """A topic of two partitions."""
    return create_topic(broker.port, f"twice-{uuid4().hex[:8]}", 2)


def produce(*topics: tuple[str, list[int]], acks: int = -1) -> ProduceRequest:
    data = tuple(
        TopicProduceData(
            name=name, partition_data=tuple(PartitionProduceData(index=index, records=BATCH) for index in indexes)
        )
        for name, indexes in topics
    )
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=data)


def produced(peer: RawPeer, *topics: tuple[str, list[int]]) -> list[list[tuple[int, int]]]:
    """The answered topics, each with its partitions and their errors."""
    responses = peer.ask(produce(*topics), 9).responses
    return [[(each.index, each.error_code) for each in topic.partition_responses] for topic in responses]


def test_a_partition_that_a_produce_names_twice_is_refused_once_and_nothing_is_written_to_it(
    broker: BrokerProcess, peer: RawPeer, name: str
):
    assert produced(peer, (name, [0, 0, 1])) == [[(0, INVALID), (1, OK)]]
    assert produced(peer, (name, [0]), (name, [0])) == [[(0, INVALID)]]
    assert end_offset(broker.port, name) == 0


def test_a_produce_without_answers_that_names_a_partition_twice_ends_its_connection(broker: BrokerProcess, name: str):
    with RawPeer(broker.port) as stranger:
        stranger.send(encode_request(7, "hostile", produce((name, [0, 0]), acks=0), 9))
        assert stranger.closed_with() == b""
    assert end_offset(broker.port, name) == 0


def test_a_topic_that_a_produce_names_twice_is_answered_once_and_one_without_partitions_not_at_all(
    peer: RawPeer, name: str
):
    assert produced(peer, (name, [0]), (name, [1])) == [[(0, OK), (1, OK)]]
    assert produced(peer, (name, [])) == []


def fetch(
    name: str, *indexes: int, session: tuple[int, int] = (0, -1), forgotten: tuple[int, ...] = (), isolation: int = 0
) -> FetchRequest:
    partitions = tuple(FetchPartition(partition=index, partition_max_bytes=1_000) for index in indexes)
    return FetchRequest(
        replica_id=-1,
        max_bytes=1_000,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic=name, partitions=partitions),) if partitions else (),
        forgotten_topics_data=(ForgottenTopic(topic=name, partitions=forgotten),) if forgotten else (),
    )


def fetched(response) -> list[tuple[int, int]]:
    return [(each.partition_index, each.error_code) for topic in response.responses for each in topic.partitions]


@pytest.mark.parametrize("isolation", [2, 7, -1])
def test_an_isolation_level_that_does_not_exist_is_said_where_each_version_looks(
    peer: RawPeer, name: str, isolation: int
):
    for version in (4, 6):
        assert fetched(peer.ask(fetch(name, 1, isolation=isolation), version)) == [(1, INVALID)]
    answer = peer.ask(fetch(name, 1, isolation=isolation), 12)
    assert (answer.error_code, fetched(answer)) == (INVALID, [(1, INVALID)])
    answer = peer.ask(fetch(name, 1, isolation=isolation), 13)
    assert (answer.error_code, fetched(answer)) == (INVALID, [])


def test_a_client_that_says_it_is_a_replica_is_told_where_its_version_looks(peer: RawPeer, name: str):
    for version in (4, 6):
        request = FetchRequest(
            replica_id=5,
            max_bytes=1_000,
            topics=(FetchTopic(topic=name, partitions=(FetchPartition(partition=1, partition_max_bytes=9),)),),
        )
        assert fetched(peer.ask(request, version)) == [(1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]


def test_a_fetch_session_without_partitions_is_over(peer: RawPeer, name: str):
    session = peer.ask(fetch(name, 1, session=(0, 0)), 12).session_id
    assert session > 0
    answer = peer.ask(fetch(name, 1, session=(session, 1), forgotten=(1,)), 12)
    assert (answer.error_code, answer.session_id, fetched(answer)) == (OK, 0, [(1, OK)])
    answer = peer.ask(fetch(name, session=(session, 2)), 12)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = peer.ask(fetch(name, 0, 1, session=(0, 0)), 12).session_id
    answer = peer.ask(fetch(name, 1, session=(session, 1), forgotten=(1,)), 12)
    assert (answer.session_id, fetched(answer)) == (session, [])


def test_list_offsets_answers_each_topic_once_and_none_without_partitions(peer: RawPeer, name: str):
    def listed(*topics: tuple[str, list[int]]) -> list[list[tuple[int, int]]]:
        wanted = tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes),
            )
            for topic, indexes in topics
        )
        answer = peer.ask(ListOffsetsRequest(replica_id=-1, topics=wanted), 7)
        return [[(each.partition_index, each.error_code) for each in topic.partitions] for topic in answer.topics]

    assert listed((name, [])) == listed(("nobody", [])) == []
    assert listed((name, []), (name, [0])) == [[(0, OK)]]
    assert listed((name, [0]), (name, [1])) == [[(0, OK), (1, OK)]]
    assert listed((name, [0, 0, 1])) == [[(0, INVALID), (1, OK)]]
    assert listed((name, [0]), (name, [0])) == [[(0, INVALID)]]
    assert listed(("nobody", [0, 0])) == [[(0, INVALID)]]


def test_a_topic_that_is_to_be_deleted_twice_stays_and_is_answered_once(broker: BrokerProcess, peer: RawPeer):
    one, other, third = (create_topic(broker.port, f"twice-{uuid4().hex[:8]}") for _ in range(3))

    def deleted(*names: str) -> dict[str, int]:
        by_name = peer.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 5).responses
        assert len(by_name) == len(set(names))
        return {each.name: each.error_code for each in by_name}

    assert deleted(one, one, other) == {one: INVALID, other: OK}
    assert deleted("nobody", "nobody") == {"nobody": INVALID}
    assert deleted("nobody") == {"nobody": UNKNOWN}
    topics = tuple(MetadataRequestTopic(name=each) for each in (one, other, third))
    found = peer.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12).topics
    assert [each.error_code for each in found] == [OK, UNKNOWN, OK]
    states = tuple(DeleteTopicState(topic_id=each.topic_id) for each in (found[0], found[0], found[2]))
    by_id = peer.ask(DeleteTopicsRequest(topics=states, timeout_ms=60_000), 6).responses
    assert {each.topic_id: each.error_code for each in by_id} == {found[0].topic_id: INVALID, found[2].topic_id: OK}
    assert len(by_id) == 2


def test_of_two_offsets_for_one_partition_the_last_one_holds(peer: RawPeer, name: str):
    group = f"twice-{uuid4().hex[:8]}"
    assert peer.ask(FindCoordinatorRequest(coordinator_keys=(group,)), 4).coordinators[0].error_code == OK

    def commit(*topics: tuple[str, list[tuple[int, int]]]) -> list[list[int]]:
        wanted = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index, offset in offsets
                ),
            )
            for topic, offsets in topics
        )
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=wanted)
        return [[each.error_code for each in topic.partitions] for topic in peer.ask(request, 8).topics]

    def committed() -> int:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
        ((found,),) = (topic.partitions for topic in peer.ask(request, 8).groups[0].topics)
        return int(found.committed_offset)

    assert commit((name, [(0, 5), (0, 7)])) == [[OK, OK]]
    assert committed() == 7
    assert commit((name, [(0, 8)]), (name, [(0, 9)])) == [[OK], [OK]]
    assert committed() == 9
    assert commit((name, [])) == []


def test_a_change_that_is_asked_for_twice_is_refused(broker: BrokerProcess, peer: RawPeer, name: str):
    new, setting = f"twice-{uuid4().hex[:8]}", AlterableConfig(name="retention.ms", value="600000")
    topic = CreatableTopic(name=new, num_partitions=1, replication_factor=1)
    (created,) = peer.ask(CreateTopicsRequest(topics=(topic, topic), timeout_ms=60_000), 7).topics
    assert created.error_code == INVALID
    grown = tuple(CreatePartitionsTopic(name=name, count=count) for count in (3, 4))
    (growth,) = peer.ask(CreatePartitionsRequest(topics=grown, timeout_ms=60_000), 3).results
    assert growth.error_code == INVALID
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=(setting,))
    for resources in ((resource, resource), (AlterConfigsResource(TOPIC, name, (setting, setting)),)):
        (altered,) = peer.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
        assert altered.error_code == INVALID


def test_records_are_deleted_up_to_the_last_offset_that_is_given(peer: RawPeer, name: str):
    for _ in range(5):
        assert produced(peer, (name, [0])) == [[(0, OK)]]
    offsets = tuple(DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (3, 2))
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=name, partitions=offsets),), timeout_ms=60_000)
    ((found,),) = (topic.partitions for topic in peer.ask(request, 2).topics)
    assert (found.low_watermark, found.error_code) == (2, OK)
