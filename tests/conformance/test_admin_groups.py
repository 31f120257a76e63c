"""Groups and their offsets through kafka-python's and aiokafka's admin clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition as AioTopicPartition
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove, OffsetSpec
from kafka.errors import GroupSubscribedToTopicError, NoError, UnknownMemberIdError
from kafka.structs import OffsetAndMetadata

from tests.broker_process import BrokerProcess
from tests.conformance.admins import aio_client
from tests.conformance.group_members import PARTITIONS, ConfluentMember, fill, new_group, poll_until, read_all
from tests.conformance.topics import new_topic


@pytest.fixture
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def offsets_of(admin: KafkaAdminClient, group: str) -> dict[int, int]:
    return {each.partition: found.offset for each, found in admin.list_group_offsets(group)[group].items()}


@pytest.mark.proves(client="kafka-python", feature="admin: groups")
class TestKafkaPython:
    def test_offsets_of_an_idle_group_are_set_moved_and_deleted(self, python, broker):
        topic, group = new_topic(broker, PARTITIONS), new_group()
        fill(broker, topic, 40)
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        wanted = {each: OffsetAndMetadata(3, "by hand", -1) for each in partitions}
        assert set(python.alter_group_offsets(group, wanted).values()) == {NoError}
        assert offsets_of(python, group) == dict.fromkeys(range(PARTITIONS), 3)
        assert python.list_group_offsets(group)[group][partitions[0]].metadata == "by hand"
        moved = python.reset_group_offsets(
            group, {partitions[0]: OffsetSpec.LATEST, partitions[1]: OffsetSpec.EARLIEST}
        )
        assert {each.partition: answer["offset"] for each, answer in moved.items()} == {0: 10, 1: 0}
        assert offsets_of(python, group) == {0: 10, 1: 0, 2: 3, 3: 3}
        assert set(python.delete_group_offsets(group, partitions[:3]).values()) == {NoError}
        assert offsets_of(python, group) == {3: 3}
        assert python.delete_groups([group, "not-there"]) == {group: "OK", "not-there": "GroupIdNotFoundError"}
        assert offsets_of(python, group) == {}

    def test_offsets_of_several_groups_are_listed_in_one_request(self, python, broker):
        topic = new_topic(broker)
        groups = [new_group() for _ in range(3)]
        partition = TopicPartition(topic, 0)
        for number, group in enumerate(groups):
            python.alter_group_offsets(group, {partition: OffsetAndMetadata(number, "", -1)})
        answer = python.list_group_offsets(dict.fromkeys([*groups, "not-there"]))
        assert {
            group: {each.partition: found.offset for each, found in offsets.items()}
            for group, offsets in answer.items()
        } == {
            **{group: {0: number} for number, group in enumerate(groups)},
            "not-there": {},
        }

    def test_offsets_of_topics_that_a_group_reads_are_kept(self, python, broker):
        topic, other, group = new_topic(broker, PARTITIONS), new_topic(broker), new_group()
        values = fill(broker, topic, 40)
        member = ConfluentMember(broker, group, topic)
        read_all([member], values)
        member.commit()
        wanted = {TopicPartition(other, 0): OffsetAndMetadata(1, "", -1)}
        assert set(python.alter_group_offsets(group, wanted).values()) == {UnknownMemberIdError}
        answer = python.delete_group_offsets(group, [TopicPartition(topic, 0), TopicPartition(other, 0)])
        assert answer == {TopicPartition(topic, 0): GroupSubscribedToTopicError, TopicPartition(other, 0): NoError}
        assert python.delete_groups([group]) == {group: "NonEmptyGroupError"}
        member.close()

    def test_members_are_removed_together_each_with_its_outcome(self, python, broker):
        topic, group = new_topic(broker, PARTITIONS), new_group()
        member = ConfluentMember(broker, group, topic, **{"group.instance.id": "one"})
        poll_until([member], lambda: bool(member.assignment()), [])
        removed = python.remove_group_members(
            group, [MemberToRemove(group_instance_id="one"), MemberToRemove(group_instance_id="another")]
        )
        outcomes = {str(who): str(outcome) for who, outcome in removed.items()}
        assert len(outcomes) == 2, outcomes
        assert any("NoError" in each or each == "OK" for each in outcomes.values()), outcomes
        assert any("UnknownMemberId" in each for each in outcomes.values()), outcomes
        assert python.describe_groups([group])[group]["members"] == []
        member.close()


@pytest.mark.proves(client="aiokafka", feature="admin: groups")
@pytest.mark.alone("it coordinates every group")
async def test_aiokafka_lists_describes_and_reads_the_offsets_of_a_group(broker):
    topic, group = new_topic(broker, PARTITIONS), new_group()
    values = fill(broker, topic, 40)
    member = ConfluentMember(broker, group, topic)
    read_all([member], values)
    member.commit()
    async with aio_client(broker) as client:
        assert await client.find_coordinator(group) == 1
        assert (group, "consumer") in await client.list_consumer_groups()
        (described,) = await client.describe_consumer_groups([group])
        assert described.groups[0][1:3] == (group, "Stable")
        offsets = await client.list_consumer_group_offsets(group)
        some = await client.list_consumer_group_offsets(group, partitions=[AioTopicPartition(topic, 1)])
    assert {each.partition: found.offset for each, found in offsets.items()} == dict.fromkeys(range(PARTITIONS), 10)
    assert {each.partition: found.offset for each, found in some.items()} == {1: 10}
    member.close()
