"""Consumer groups of the new protocol (KIP-848) with librdkafka, beside classic members and over a crash."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.client import (
    ClientOptions,
    Consumer,
    ConsumerOptions,
    GroupProtocol,
    OffsetReset,
    Producer,
    ProducerOptions,
    SubscriptionPattern,
)
from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S, Client, Member
from tests.conformance.clients.ottla import OttlaMember
from tests.conformance.group_members import (
    PARTITIONS,
    ConfluentMember,
    PythonMember,
    fill,
    new_group,
    poll_until,
    shared_by,
)
from tests.conformance.topics import new_topic
from tests.shared_broker import shared_broker
from tests.waiting_lines import without_waiting

CLIENT = "confluent-kafka"
FEATURE = "consumer protocol (KIP-848)"
OFTEN = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
"""How often members tell of themselves and groups decide: a rebalance takes some seconds of the defaults."""
OF_THE_CLASSIC_PROTOCOL = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")

NewMember = Callable[[BrokerProcess, str, str], Member]


class ConsumerMember(ConfluentMember):
    """librdkafka's consumer in the new protocol."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **config: object) -> None:
        super().__init__(
            broker, group, topic, **{"group.protocol": "consumer", **dict.fromkeys(OF_THE_CLASSIC_PROTOCOL), **config}
        )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks for heartbeats often."""
    settings = {**OFTEN, "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with shared_broker(tmp_path_factory.mktemp("consumer-groups"), settings) as process:
        yield process


def group_type(broker: BrokerProcess, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for listing in admin.list_consumer_groups().result(PATIENCE_S).valid:
        if listing.group_id == group:
            return listing.type.name
    return "none"


@pytest.mark.proves(client=CLIENT, feature=FEATURE)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_a_topic_and_each_record_is_read_once(broker: BrokerProcess, assignor: str) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    config: dict[str, object] = {"group.remote.assignor": assignor}
    members: list[Member] = [ConsumerMember(broker, group, topic, **config) for _ in range(2)]
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    values = fill(broker, topic, 200)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    assert group_type(broker, group) == "CONSUMER"
    for member in members:
        member.commit("a note")
    members.pop().close()
    poll_until(members, lambda: members[0].assignment() == set(range(PARTITIONS)), got)
    values |= fill(broker, topic, 100, first=200)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    members[0].close()


@pytest.mark.proves(client=CLIENT, feature=FEATURE)
def test_a_subscription_by_expression_gets_topics_that_come_later(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    member = ConsumerMember(broker, group, f"^{topic}.*")
    got: list[bytes] = []
    poll_until([member], lambda: len(member.consumer.assignment()) == PARTITIONS, got)
    later = new_topic(broker, PARTITIONS, name=f"{topic}-later")
    poll_until([member], lambda: {each.topic for each in member.consumer.assignment()} == {topic, later}, got)
    values = fill(broker, later, 50)
    poll_until([member], lambda: set(got) >= values, got)
    member.close()


@pytest.mark.proves(client=CLIENT, feature=FEATURE)
def test_a_static_member_comes_back_to_what_it_had(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    one = ConsumerMember(broker, group, topic, **{"group.instance.id": "one"})
    two = ConsumerMember(broker, group, topic, **{"group.instance.id": "two"})
    poll_until([one, two], shared_by([one, two]), [])
    share, rebalances = two.assignment(), one.rebalances
    two.close()
    two = ConsumerMember(broker, group, topic, **{"group.instance.id": "two"})
    poll_until([one, two], lambda: two.assignment() == share, [])
    assert one.rebalances == rebalances
    two.close()
    one.close()


@pytest.mark.proves(client=CLIENT, feature="online migration (KIP-848)")
def test_a_running_classic_group_moves_to_the_new_protocol_and_back(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    classic: list[Member] = [ConfluentMember(broker, group, topic), PythonMember(broker, group, topic)]
    got: list[bytes] = []
    poll_until(classic, shared_by(classic), got)
    values = fill(broker, topic, 100)
    poll_until(classic, lambda: set(got) >= values, got)
    assert group_type(broker, group) == "CLASSIC"
    for member in classic:
        member.commit()

    modern = ConsumerMember(broker, group, topic)
    everybody = [*classic, modern]
    poll_until(everybody, shared_by(everybody), got)
    assert group_type(broker, group) == "CONSUMER"
    values |= fill(broker, topic, 100, first=100)
    poll_until(everybody, lambda: set(got) >= values, got)
    for member in everybody:
        member.commit()

    modern.close()
    poll_until(classic, shared_by(classic), got)
    assert group_type(broker, group) == "CLASSIC"
    values |= fill(broker, topic, 100, first=200)
    poll_until(classic, lambda: set(got) >= values, got)
    for member in classic:
        member.close()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(ConsumerMember, marks=pytest.mark.proves(client=CLIENT, feature=FEATURE)),
        pytest.param(OttlaMember, marks=[pytest.mark.long, pytest.mark.proves(client="Ottla client", feature=FEATURE)]),
    ],
)
def test_a_group_goes_on_after_a_crash_of_the_broker_under_a_rebalance(kind: NewMember, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", OFTEN) as broker:
        topic, group = new_topic(broker, PARTITIONS), new_group()
        members = [kind(broker, group, topic)]
        got: list[bytes] = []
        poll_until(members, lambda: members[0].assignment() == set(range(PARTITIONS)), got)
        members.append(kind(broker, group, topic))
        members[1].poll()
        broker.kill()
        broker.start()
        poll_until(members, shared_by(members), got)
        values = fill(broker, topic, 100)
        poll_until(members, lambda: set(got) >= values, got)
        for member in members:
            member.close()


@pytest.mark.proves(client=CLIENT, feature=FEATURE)
def test_offsets_of_a_group_with_members_are_theirs_alone(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    member = ConsumerMember(broker, group, topic)
    poll_until([member], lambda: bool(member.assignment()), [])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])])
    [refused] = altered[group].result(PATIENCE_S).topic_partitions
    assert refused.error.name() == "UNKNOWN_MEMBER_ID"
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    [described] = admin.describe_consumer_groups([group]).values()
    assert [each.client_id for each in described.result(PATIENCE_S).members] == ["rdkafka"]
    member.close()
    assert admin.delete_consumer_groups([group])[group].result(PATIENCE_S) is None


@pytest.mark.proves(client=CLIENT, feature="moved while it runs")
@pytest.mark.parametrize("kind", [ConfluentMember, ConsumerMember, OttlaMember])
def test_a_running_group_goes_on_from_where_it_is_moved_to(broker: BrokerProcess, kind: NewMember) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    members = [kind(broker, group, topic) for _ in range(2)]
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    values = fill(broker, topic, 100)
    poll_until(members, lambda: set(got) >= values, got)
    for member in members:
        member.commit()
    ottla = [sys.executable, "-m", "ottla.cli", "group", "reset", group, topic, "--to-earliest", "-b", broker.bootstrap]
    moved = subprocess.run(ottla, capture_output=True, timeout=PATIENCE_S, check=False)
    assert moved.returncode == 0, moved.stderr
    again: list[bytes] = []
    poll_until(members, lambda: set(again) >= values, again)
    assert set(again) == values  # who comes back first may read what the other one is given, and neither has committed
    poll_until(members, shared_by(members), again)
    for member in members:
        member.close()


@pytest.mark.proves(client="Ottla client", feature=FEATURE)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_of_ottlas_client_share_a_topic_beside_librdkafkas(broker: BrokerProcess, assignor: str) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    ottlas = [OttlaMember(broker, group, topic, group_remote_assignor=assignor) for _ in range(2)]
    config: dict[str, object] = {"group.remote.assignor": assignor}
    members: list[Member] = [*ottlas, ConsumerMember(broker, group, topic, **config)]
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    values = fill(broker, topic, 200)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    assert group_type(broker, group) == "CONSUMER"
    for member in members:
        member.commit()
    members.pop().close()
    members.pop().close()
    poll_until(members, lambda: members[0].assignment() == set(range(PARTITIONS)), got)
    values |= fill(broker, topic, 100, first=200)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    members[0].close()


@pytest.mark.proves(client="Ottla client", feature=FEATURE)
def test_a_member_of_the_command_line_and_one_in_transactions_go_on_from_each_other(broker: BrokerProcess) -> None:
    topic, copy, group = new_topic(broker, PARTITIONS), new_topic(broker, PARTITIONS), new_group()
    values = fill(broker, topic, 100)
    words = ["consume", topic, "-g", group, "-c", "60", "-X", "group.protocol=consumer", "-b", broker.bootstrap]
    read = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *words], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert (read.returncode, without_waiting(read.stderr)) == (0, b"")
    assert group_type(broker, group) == "CONSUMER"
    first = read.stdout.split()
    assert len(first) == 60

    async def copy_the_rest() -> list[bytes]:
        client = ClientOptions.of(broker.bootstrap)
        reading = ConsumerOptions(
            group_id=group,
            group_protocol=GroupProtocol.CONSUMER,
            auto_commit=False,
            auto_offset_reset=OffsetReset.EARLIEST,
        )
        async with (
            Consumer(client, reading) as consumer,
            Producer(client, ProducerOptions(transactional_id=group)) as to,
        ):
            consumer.subscribe([topic])
            await to.init_transactions()
            rest: list[bytes] = []
            while len(rest) < 40:
                records = await consumer.poll(7)
                if not records:
                    continue
                async with to.transaction():
                    for record in records:
                        await to.send(copy, record.value, partition=record.partition)
                    ends = {each.topic_partition: each.offset + 1 for each in records}
                    await to.send_offsets_to_transaction(ends, group, consumer.membership)
                rest += [record.value or b"" for record in records]
            committed = await consumer.committed(consumer.assignment())
            assert {each.partition: offset for each, offset in committed.items()} == dict.fromkeys(
                range(PARTITIONS), 25
            )
            return rest

    rest = asyncio.run(copy_the_rest())
    assert sorted([*first, *rest]) == sorted(values)


@pytest.mark.long
@pytest.mark.proves(client="Ottla client", feature=FEATURE)
def test_ottlas_client_gets_topics_that_come_to_match_its_pattern(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    member = OttlaMember(broker, group, SubscriptionPattern(f"{topic}.*"))
    got: list[bytes] = []
    poll_until([member], lambda: len(member.consumer.assignment()) == PARTITIONS, got)
    later = new_topic(broker, PARTITIONS, name=f"{topic}-later")
    poll_until([member], lambda: member.topics() == {topic, later}, got)
    values = fill(broker, later, 50)
    poll_until([member], lambda: set(got) >= values, got)
    member.close()


@pytest.mark.proves(client="Ottla client", feature=FEATURE)
def test_a_static_member_of_ottlas_client_comes_back_to_what_it_had(broker: BrokerProcess) -> None:
    topic, group = new_topic(broker, PARTITIONS), new_group()
    one = OttlaMember(broker, group, topic, group_instance_id="one")
    two = OttlaMember(broker, group, topic, group_instance_id="two")
    poll_until([one, two], shared_by([one, two]), [])
    share, rebalances = two.assignment(), one.rebalances
    two.close()
    two = OttlaMember(broker, group, topic, group_instance_id="two")
    poll_until([one, two], lambda: two.assignment() == share, [])
    assert one.rebalances == rebalances
    two.close()
    one.close()


@pytest.mark.peer
@pytest.mark.proves(client="franz-go", feature=FEATURE)
@pytest.mark.parametrize("assignor", ["server-side sticky", "server-side range"])
def test_members_written_in_go_share_a_topic_too(
    group_broker: BrokerProcess, client_named: Callable[[str], Client], assignor: str
) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    client = client_named("franz-go")
    members = [client.member(group, topic, assignor) for _ in range(2)]
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    assert group_type(group_broker, group) == "CONSUMER"
    values = fill(group_broker, topic, 100)
    poll_until(members, lambda: set(got) >= values, got)
    for member in members:
        member.commit()
    members.pop().close()
    values |= fill(group_broker, topic, 100, first=100)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    members[0].close()
