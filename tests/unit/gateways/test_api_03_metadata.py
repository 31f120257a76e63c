from uuid import UUID

import pytest

from ottla.gateways.kafka.api_03_metadata import API
from ottla.gateways.kafka.topic_entries import TopicEntries
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import (
    BrokerChangedRecord,
    BrokerDirectoriesRecord,
    BrokerRegisteredRecord,
    BrokerRemovedRecord,
    ReplicaDirectoriesRecord,
)
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.native.errors import MessageError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.runtime import turns as turns_module
from ottla.runtime.turns import ITEMS_PER_TURN
from tests.unit.gateways.turns_of_the_loop import TurnsOfTheLoop

VERSIONS = range(API.min_version, API.max_version + 1)


def named(*names, **fields):
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names), **fields)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_tells_brokers_topics_and_partitions(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 2)])
    answer = await gateway.ask(API, named("a"), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "broker.example", 19092)]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "a")
    partitions = [
        (each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes) for each in topic.partitions
    ]
    assert partitions == [(0, 1, (1,), (1,)), (1, 1, (1,), (1,))]
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == gateway.image.cluster_id
    if version >= 10:
        assert topic.topic_id == gateway.image.topic("a").topic_id


@pytest.mark.parametrize("version", VERSIONS)
async def test_while_no_broker_serves_a_client_is_told_of_all_of_them(gateway, version):
    """As after a start of all at once: librdkafka that is told of none asks nobody ever again."""
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    (own,) = gateway.image.brokers.values()
    other = BrokerRegisteredRecord(2, own.broker_epoch + 1, "other.example", 9092, None)
    fenced = [
        BrokerChangedRecord(broker_id, epoch, fenced=True, shutting_down=False)
        for broker_id, epoch in ((1, own.broker_epoch), (2, other.broker_epoch))
    ]
    await gateway.metadata.loader.advance((other, *fenced), from_offset=gateway.image.end_offset)
    assert gateway.image.live_brokers() == {}
    answer = await gateway.ask(API, named("a"), version)
    told = [(broker.node_id, broker.host, broker.port) for broker in answer.brokers]
    assert told == [(1, "broker.example", 19092), (2, "other.example", 9092)]
    serves = BrokerChangedRecord(2, other.broker_epoch, fenced=False, shutting_down=False)
    await gateway.metadata.loader.advance([serves], from_offset=gateway.image.end_offset)
    answer = await gateway.ask(API, named("a"), version)
    assert [broker.node_id for broker in answer.brokers] == [2]


async def test_null_asks_for_all_topics_sorted_and_an_empty_list_for_none(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic(name) for name in ("b", "a", "__consumer_offsets")])
    everything = await gateway.ask(API, MetadataRequest(topics=None))
    assert [(topic.name, topic.is_internal) for topic in everything.topics] == [
        ("__consumer_offsets", True),
        ("a", False),
        ("b", False),
    ]
    assert (await gateway.ask(API, MetadataRequest(topics=()))).topics == ()


async def test_in_version_0_an_empty_list_asks_for_all(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    assert [topic.name for topic in (await gateway.ask(API, MetadataRequest(topics=()), 0)).topics] == ["a"]


async def test_a_missing_topic_is_created_when_both_sides_allow_it(open_gateway):
    gateway = await open_gateway({"num.partitions": "3"})
    (topic,) = (await gateway.ask(API, named("new"))).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 3)
    assert gateway.image.topic("new") is not None


async def test_a_missing_topic_is_not_created_when_the_client_forbids_it(gateway):
    (topic,) = (await gateway.ask(API, named("new", allow_auto_topic_creation=False))).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert gateway.image.topic("new") is None


async def test_a_missing_topic_is_not_created_when_the_broker_forbids_it(open_gateway):
    gateway = await open_gateway({"auto.create.topics.enable": "false"})
    (topic,) = (await gateway.ask(API, named("new"))).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert gateway.image.topic("new") is None


async def test_each_topic_has_its_own_error(open_gateway):
    gateway = await open_gateway({"default.replication.factor": "2"})
    answer = await gateway.ask(API, named("bad name", "new", "__cluster_metadata"))
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "new": ErrorCode.INVALID_REPLICATION_FACTOR,
        "__cluster_metadata": ErrorCode.INVALID_REQUEST,
    }


async def test_the_offsets_topic_is_created_as_its_coordinator_needs_it(open_gateway):
    gateway = await open_gateway({"offsets.topic.num.partitions": "4"})
    (topic,) = (await gateway.ask(API, named("__consumer_offsets"))).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 4)
    assert gateway.configs.topic_settings("__consumer_offsets")["cleanup.policy"] == "compact"


async def test_a_topic_asked_for_twice_is_told_once(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    assert len((await gateway.ask(API, named("a", "a"))).topics) == 1


async def test_topics_are_found_by_id(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    topic_id = gateway.image.topic("a").topic_id
    request = MetadataRequest(
        topics=(
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=None, topic_id=UUID(int=99)),
            MetadataRequestTopic(name=None),
        )
    )
    answer = await gateway.ask(API, request)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ErrorCode.INVALID_REQUEST),
    ]
    assert answer.topics[1].topic_id == UUID(int=99)


async def test_ids_before_their_version_are_refused(gateway):
    request = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=UUID(int=1)),))
    (topic,) = (await gateway.ask(API, request, 11)).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


async def test_authorized_operations_are_told_only_when_asked_for(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    plain = await gateway.ask(API, named("a"), 8)
    assert plain.cluster_authorized_operations == plain.topics[0].topic_authorized_operations == -(2**31)
    request = named("a", include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    asked = await gateway.ask(API, request, 8)
    assert asked.topics[0].topic_authorized_operations == 3576
    assert asked.cluster_authorized_operations == 8096


async def test_an_advertised_address_is_told_to_everybody(open_gateway):
    gateway = await open_gateway({"advertised.listeners": "PLAINTEXT://kafka.example:9092", "broker.rack": "r1"})
    (broker,) = (await gateway.ask(API, named())).brokers
    assert (broker.host, broker.port, broker.rack) == ("kafka.example", 9092, "r1")


async def test_a_partition_whose_broker_is_gone_has_no_leader(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    image, _ = apply_records(gateway.image, [BrokerRemovedRecord(1)])
    topic = image.topic("a")
    assert topic is not None
    (partition,) = TopicEntries().entry(image, topic).partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == (1,)


async def test_a_partition_whose_leader_has_just_died_has_none_until_that_is_decided(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])

    async def told():
        (topic,) = (await gateway.ask(API, named("a"))).topics
        (partition,) = topic.partitions
        return partition.error_code, partition.leader_id, partition.isr_nodes, partition.offline_replicas

    assert await told() == (ErrorCode.NONE, 1, (1,), ())
    gateway.cluster.departed = frozenset({1})
    assert await told() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, (1,), ())
    gateway.cluster.departed = frozenset()
    assert await told() == (ErrorCode.NONE, 1, (1,), ())


async def test_a_replica_whose_data_directory_failed_is_offline(gateway):
    """Its broker serves what lies in its other directories (KIP-858)."""
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 2)])
    (broker,) = gateway.image.brokers.values()
    topic_id, failed, good = gateway.image.topic("a").topic_id, UUID(int=7), UUID(int=8)

    async def offline():
        (topic,) = (await gateway.ask(API, named("a"))).topics
        return [partition.offline_replicas for partition in topic.partitions]

    async def happens(record):
        await gateway.metadata.loader.advance([record], from_offset=gateway.image.end_offset)

    await happens(BrokerDirectoriesRecord(1, broker.broker_epoch, (failed,)))
    assert await offline() == [(), ()]
    await happens(ReplicaDirectoriesRecord(1, topic_id, ((0, good), (1, failed))))
    assert await offline() == [(), (1,)]
    await happens(BrokerDirectoriesRecord(1, broker.broker_epoch, ()))
    assert await offline() == [(), ()]


async def test_a_broker_that_died_a_moment_ago_is_told(gateway):
    (own,) = gateway.image.brokers.values()
    other = BrokerRegisteredRecord(2, own.broker_epoch + 1, "other.example", 9092, None)
    died = BrokerChangedRecord(2, other.broker_epoch, fenced=True, shutting_down=False)
    await gateway.metadata.loader.advance((other, died), from_offset=gateway.image.end_offset)

    async def told():
        return [broker.node_id for broker in (await gateway.ask(API, named())).brokers]

    assert await told() == [1]
    gateway.cluster.lingering = frozenset({2})
    assert await told() == [1, 2]


async def test_an_entry_is_made_once_until_its_topic_or_the_brokers_change(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a"), NewTopic("b")])
    entries = TopicEntries()
    before = gateway.image
    first = entries.entry(before, before.topic("a"))
    await gateway.topics.delete(ANONYMOUS, ["b"])
    assert entries.entry(gateway.image, gateway.image.topic("a")) is first
    without_broker, _ = apply_records(before, [BrokerRemovedRecord(1)])
    assert entries.entry(without_broker, before.topic("a")) is not first


@pytest.mark.parametrize(
    ("version", "body"), [(13, "00000000 01 00 00"), (11, "00000000 01 00 00"), (9, "00000000 01 00 00 00")]
)
def test_librdkafkas_question_for_all_topics_is_understood(version, body):
    frame = memoryview(bytes.fromhex("ffff" + body))
    request = API.decoder(version)(frame, 2)
    assert request.topics is None
    assert request.allow_auto_topic_creation


@pytest.mark.parametrize("body", ["00000000 01 00 00 00", "01000000 01 00 00", "00000001 01 00 00", "00000000 01 00"])
def test_other_bytes_behind_a_request_are_refused(body):
    with pytest.raises(MessageError):
        API.decoder(13)(memoryview(bytes.fromhex(body)), 0)


def sorts_of_topics(gateway, count):
    """A request for `count` unknown topics and some of every other kind, some of them twice."""
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(count)]
    topics[7:7] = [MetadataRequestTopic(name=name) for name in ("a", "not legal", "a", "b", "", "..")]
    topics += [MetadataRequestTopic(name=f"unknown-{number}") for number in range(2)]
    topics += [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (UUID(int=9), UUID(int=0))]
    topics.append(MetadataRequestTopic(topic_id=gateway.image.topic("a").topic_id, name=None))
    return MetadataRequest(
        topics=tuple(topics), allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )


async def test_an_answer_about_many_topics_lets_others_get_on_and_is_the_same_as_in_one_go(gateway, monkeypatch):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 2), NewTopic("b")])
    request = sorts_of_topics(gateway, 3_000)
    async with TurnsOfTheLoop() as turns:
        sliced = await gateway.ask(API, request)
    assert turns.count >= 2 * (3_000 // ITEMS_PER_TURN)
    monkeypatch.setattr(turns_module, "ITEMS_PER_TURN", 10_000)
    async with TurnsOfTheLoop() as turns:
        at_once = await gateway.ask(API, request)
    assert turns.count == 0
    assert sliced == at_once
    assert len(sliced.topics) == 3_000 + 5 + 3


async def test_all_topics_when_they_are_many_let_others_get_on(gateway, monkeypatch):
    await gateway.topics.create(ANONYMOUS, [NewTopic(name) for name in "edcba"])
    monkeypatch.setattr(turns_module, "ITEMS_PER_TURN", 2)
    async with TurnsOfTheLoop() as turns:
        answer = await gateway.ask(API, MetadataRequest(topics=None))
    assert [topic.name for topic in answer.topics] == list("abcde")
    assert turns.count >= 2


async def test_topics_that_are_missing_among_many_are_created(open_gateway, monkeypatch):
    gateway = await open_gateway({"num.partitions": "3"})
    await gateway.topics.create(ANONYMOUS, [NewTopic("b", 1)])
    monkeypatch.setattr(turns_module, "ITEMS_PER_TURN", 2)
    answer = await gateway.ask(API, named("a", "b", "c", "not legal"))
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [
        ("a", ErrorCode.NONE, 3),
        ("b", ErrorCode.NONE, 1),
        ("c", ErrorCode.NONE, 3),
        ("not legal", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
    ]
