"""Administration by the clients of other languages, and the groups that aiokafka's admin sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.conformance.clients.face import Client, Record
from tests.conformance.clients.known import each_client
from tests.conformance.clients.peer_programs import FranzGoClient, KafkajsClient
from tests.conformance.clients.program import RefusedError
from tests.conformance.group_members import PARTITIONS, AioMember, fill, new_group, read_all
from tests.conformance.topics import new_topic

ProgramNamed = Callable[[str], FranzGoClient | KafkajsClient]


NO_SUCH_TOPIC = r"UNKNOWN_TOPIC_OR_PARTITION|does not host this topic-partition"


@pytest.fixture
def call(client_named: Callable[[str], Client], name: str) -> Callable[..., object]:
    """Calls an operation of the program of the client that the test is about."""
    client = client_named(name)
    assert isinstance(client, FranzGoClient | KafkajsClient)
    return client.program.call


each_program = each_client(["franz-go", "kafkajs"])


@each_program
@pytest.mark.proves(feature="admin: topics")
@pytest.mark.alone("it leads everything")
def test_a_topic_lives_from_creation_to_deletion(call, name: str) -> None:
    topic = f"admin-{uuid4().hex[:8]}"
    call("create_topic", topic=topic, count=3, configs={"retention.ms": "5000"})
    assert topic in call("topics")
    with pytest.raises(RefusedError, match="TOPIC_ALREADY_EXISTS"):
        call("create_topic", topic=topic, count=3, configs={})
    call("create_partitions", topic=topic, count=5)
    assert call("describe_topic", topic=topic) == [{"leader": 1, "replicas": [1], "isr": [1]}] * 5
    with pytest.raises(RefusedError, match=r"INVALID_PARTITIONS|decreased"):
        call("create_partitions", topic=topic, count=4)
    call("delete_topic", topic=topic)
    assert topic not in call("topics")
    with pytest.raises(RefusedError, match=NO_SUCH_TOPIC):
        call("delete_topic", topic=topic)


@each_program
@pytest.mark.proves(feature="admin: settings")
def test_settings_are_changed_and_described(call, name: str) -> None:
    topic = f"admin-{uuid4().hex[:8]}"

    def are_described(wanted: dict[str, str]) -> bool:
        """Any broker is asked; of several, those that did not take the change hear of it a little later."""
        try:
            described = call("describe_configs", topic=topic)
        except RefusedError as error:
            if re.search(NO_SUCH_TOPIC, str(error)) is None:
                raise
            return False
        return wanted.items() <= described.items()

    settings = {"retention.ms": "5000"}
    call("create_topic", topic=topic, count=1, configs=settings)
    wait_until(lambda: are_described(settings), "the settings of a new topic")
    settings = {"retention.ms": "6000", "max.message.bytes": "2000"}
    call("alter_configs", topic=topic, configs=settings)
    wait_until(lambda: are_described(settings), "the settings of a topic that was changed")
    with pytest.raises(RefusedError, match=r"INVALID_CONFIG|[Cc]onfiguration is invalid"):
        call("alter_configs", topic=topic, configs={"retention.ms": "soon"})


@each_program
@pytest.mark.proves(feature="admin: cluster")
@pytest.mark.alone("the cluster is its address")
def test_the_cluster_is_the_broker_at_the_address_we_came_by(call, name: str, group_broker: BrokerProcess) -> None:
    cluster = call("cluster")
    assert (cluster["controller"], cluster["brokers"]) == (1, [group_broker.bootstrap])
    assert len(cluster["id"]) == 22


@each_program
@pytest.mark.proves(feature="admin: delete records")
def test_records_before_an_offset_are_deleted(
    call, name: str, group_broker: BrokerProcess, client_named: ProgramNamed
) -> None:
    topic, client = new_topic(group_broker, 2), client_named(name)
    client.produce(topic, [Record(at % 2, None, b"%d" % at) for at in range(100)])
    assert call("delete_records", topic=topic, offsets={"0": 20}) == {"0": 20}
    assert client.ends(topic) == (20, 50)
    assert call("ends", topic=topic)["1"] == [0, 50]


@each_program
@pytest.mark.proves(feature="admin: groups")
def test_groups_are_described_their_offsets_moved_and_they_are_deleted(
    call, name: str, group_broker: BrokerProcess, client_named: ProgramNamed
) -> None:
    topic, group, client = new_topic(group_broker, PARTITIONS), new_group(), client_named(name)
    values = fill(group_broker, topic, 40)
    member = client.member(group, topic, "roundrobin")
    read_all([member], values)
    member.commit()
    described = call("describe_group", group=group)
    assert (described["state"], described["members"]) == ("Stable", 1)
    assert described["assignor"] == {"franz-go": "roundrobin", "kafkajs": "RoundRobinAssigner"}[name]
    with pytest.raises(RefusedError, match=r"NON_EMPTY_GROUP|not empty|KafkaJSDeleteGroupsError"):
        call("delete_group", group=group)
    member.close()
    assert group in call("groups")
    assert call("group_offsets", group=group, topic=topic) == {str(at): 10 for at in range(PARTITIONS)}
    call("set_group_offsets", group=group, topic=topic, offsets={str(at): 7 for at in range(PARTITIONS)})
    assert call("group_offsets", group=group, topic=topic) == {str(at): 7 for at in range(PARTITIONS)}
    assert call("describe_group", group=group)["state"] == "Empty"
    call("delete_group", group=group)
    assert group not in call("groups")


@pytest.mark.proves(client="aiokafka", feature="admin: groups")
async def test_aiokafkas_admin_describes_a_group_and_its_offsets(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    values = fill(group_broker, topic, 40)
    member = AioMember(group_broker, group, topic)
    read_all([member], values)
    member.commit("noted")
    admin = AIOKafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    await admin.start()
    try:
        (described,) = await admin.describe_consumer_groups([group])
        (found,) = described.groups
        assert (found[0], found[1], found[2], found[4]) == (0, group, "Stable", "range")
        assert (group, "consumer") in await admin.list_consumer_groups()
        offsets = await admin.list_consumer_group_offsets(group)
        assert {each.partition: (at.offset, at.metadata) for each, at in offsets.items()} == dict.fromkeys(
            range(PARTITIONS), (10, "noted")
        )
    finally:
        await admin.close()
        member.close()
