"""Groups and offsets through admin clients, and the offsets topic as any consumer can read it."""

from __future__ import annotations

import struct

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import KafkaAdminClient

from ottla.coordination.key_partition import partition_of_key
from tests.broker_process import BrokerProcess
from tests.conformance.group_members import PARTITIONS, ConfluentMember, fill, new_group, poll_until, read_all
from tests.conformance.topics import new_topic


def admin_of(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    """The offsets of a group by partition, of all partitions it has any for."""
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {each.partition: each.offset for each in future.result(60).topic_partitions}


def state_of(admin: AdminClient, group: str) -> ConsumerGroupState | None:
    for listing in admin.list_consumer_groups().result().valid:
        if listing.group_id == group:
            return listing.state
    return None


@pytest.mark.proves(client="confluent-kafka", feature="admin: groups")
@pytest.mark.alone("it coordinates every group")
def test_a_group_is_listed_and_described_while_it_works_and_afterwards(broker: BrokerProcess) -> None:
    topic, group, admin = new_topic(broker, PARTITIONS), new_group(), admin_of(broker)
    member = ConfluentMember(broker, group, topic, **{"client.id": "worker"})
    poll_until([member], lambda: bool(member.assignment()), [])
    (future,) = admin.describe_consumer_groups([group]).values()
    description = future.result(60)
    assert description.state is ConsumerGroupState.STABLE
    assert description.type is ConsumerGroupType.CLASSIC
    assert description.partition_assignor == "range"
    assert description.coordinator.port == broker.port
    (only,) = description.members
    assert (only.client_id, only.host) == ("worker", "/127.0.0.1")
    assert only.member_id.startswith("worker-")
    assert {each.partition for each in only.assignment.topic_partitions} == set(range(PARTITIONS))

    stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result().valid
    assert group in {listing.group_id for listing in stable}
    member.close()
    assert state_of(admin, group) is ConsumerGroupState.EMPTY


@pytest.mark.proves(client="confluent-kafka", feature="admin: groups")
def test_offsets_are_listed_altered_and_deleted(broker: BrokerProcess) -> None:
    topic, group, admin = new_topic(broker, PARTITIONS), new_group(), admin_of(broker)
    values = fill(broker, topic, 40)
    member = ConfluentMember(broker, group, topic)
    read_all([member], values)
    member.commit()
    assert committed(admin, group) == dict.fromkeys(range(PARTITIONS), 10)

    reset = ConsumerGroupTopicPartitions(group, [ConfluentTopicPartition(topic, 0, 3)])
    (refused,) = admin.alter_consumer_group_offsets([reset]).values()
    assert [each.error.name() for each in refused.result(60).topic_partitions] == ["UNKNOWN_MEMBER_ID"]
    member.close()
    (altered,) = admin.alter_consumer_group_offsets([reset]).values()
    altered.result(60)
    assert committed(admin, group)[0] == 3

    member = ConfluentMember(broker, group, topic)
    assert len(read_all([member], {b"%d" % number for number in range(12, 40, 4)})) == 7
    member.close()


@pytest.mark.proves(client="confluent-kafka", feature="admin: groups")
def test_a_group_is_deleted_when_it_is_empty(broker: BrokerProcess) -> None:
    topic, group, admin = new_topic(broker, PARTITIONS), new_group(), admin_of(broker)
    member = ConfluentMember(broker, group, topic)
    poll_until([member], lambda: bool(member.assignment()), [])
    (refused,) = admin.delete_consumer_groups([group]).values()
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        refused.result(60)
    member.close()
    (deleted,) = admin.delete_consumer_groups([group]).values()
    deleted.result(60)
    assert state_of(admin, group) is None
    assert committed(admin, group) == {}


@pytest.mark.proves(client="confluent-kafka", feature="admin: groups")
def test_deleting_a_topic_takes_its_offsets_along(broker: BrokerProcess) -> None:
    topic, group, admin = new_topic(broker, PARTITIONS), new_group(), admin_of(broker)
    values = fill(broker, topic, 40)
    member = ConfluentMember(broker, group, topic)
    read_all([member], values)
    member.commit()
    member.close()
    assert len(committed(admin, group)) == PARTITIONS
    (deleted,) = admin.delete_topics([topic]).values()
    deleted.result(60)
    assert committed(admin, group) == {}


@pytest.mark.proves(client="kafka-python", feature="admin: groups")
def test_kafka_pythons_admin_sees_the_same(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    values = fill(broker, topic, 40)
    member = ConfluentMember(broker, group, topic)
    read_all([member], values)
    member.commit()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    offsets = admin.list_group_offsets(group)[group]
    assert {partition.partition: each.offset for partition, each in offsets.items()} == dict.fromkeys(range(4), 10)
    description = admin.describe_groups([group])[group]
    assert (description["group_state"], description["protocol_data"]) == ("Stable", "range")
    assert description["members"][0]["member_metadata"]["topics"] == [topic]
    listed = {each["group_id"]: each for each in admin.list_groups()}
    assert (listed[group]["group_state"], listed[group]["group_type"]) == ("Stable", "classic")
    admin.close()
    member.close()


def test_the_offsets_topic_holds_kafkas_records(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    values = fill(broker, topic, 40)
    member = ConfluentMember(broker, group, topic)
    read_all([member], values)
    member.commit()
    member.close()

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    partition = PythonTopicPartition("__consumer_offsets", partition_of_key(group, 50))
    assert len(consumer.partitions_for_topic(partition.topic)) == 50
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    offsets: dict[int, int] = {}
    generations: list[int] = []
    while consumer.position(partition) < end:
        for record in consumer.poll(timeout_ms=1_000).get(partition, []):
            kind, of_group, rest = read_key(record.key)
            if of_group != group:
                continue
            if kind == 1:
                offsets[struct.unpack(">i", rest[-4:])[0]] = struct.unpack_from(">hq", record.value)[1]
            else:
                assert kind == 2
                size = struct.unpack_from(">hh", record.value)
                assert size == (3, len("consumer"))
                generations.append(struct.unpack_from(">i", record.value, 4 + len("consumer"))[0])
    consumer.close()
    assert offsets == dict.fromkeys(range(PARTITIONS), 10)
    assert generations == [1, 2]


def read_key(key: bytes) -> tuple[int, str, bytes]:
    """The type of a record, its group, and the rest of the key."""
    kind, size = struct.unpack_from(">hh", key)
    return kind, key[4 : 4 + size].decode(), key[4 + size :]
