"""Groups when processes die: the broker under its consumers, and a consumer among others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.broker_process import BrokerProcess
from tests.conformance.group_members import PARTITIONS, ConfluentMember, fill, poll_until, read_all
from tests.conformance.topics import new_topic

NewBroker = Callable[..., BrokerProcess]

SETTINGS = {"group_initial_rebalance_delay_ms": "0", "group_min_session_timeout_ms": "1000"}

CONSUMER = """
import sys
from confluent_kafka import Consumer

bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 2000, "heartbeat.interval.ms": 300,
    "partition.assignment.strategy": "range",
})
consumer.subscribe([topic], on_assign=lambda _, partitions: print(len(partitions), flush=True))
while True:
    consumer.poll(0.1)
"""


def member_ids(broker: BrokerProcess, group: str) -> str:
    """The ids of a group's members, which stay what they are as long as nobody has to join anew."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.describe_consumer_groups([group]).values()
    return " ".join(sorted(member.member_id for member in future.result(60).members))


def test_members_and_offsets_survive_the_kill_of_the_broker(new_broker: NewBroker) -> None:
    broker = new_broker(**SETTINGS).start()
    topic = new_topic(broker, PARTITIONS)
    member = ConfluentMember(broker, "survivors", topic, **{"session.timeout.ms": 30000})
    read_all([member], fill(broker, topic, 40))
    member.commit()
    before, assignments = member_ids(broker, "survivors"), member.rebalances
    broker.kill()

    broker.start()
    assert member_ids(broker, "survivors") == before
    more = fill(broker, topic, 40, first=40)
    assert sorted(read_all([member], more)) == sorted(more)
    assert member.rebalances == assignments
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("survivors")]).values()
    assert {each.offset for each in future.result(60).topic_partitions} == {10}
    member.commit()
    member.close()


def test_the_work_of_a_killed_consumer_goes_to_the_others(new_broker: NewBroker) -> None:
    broker = new_broker(**SETTINGS).start()
    topic = new_topic(broker, PARTITIONS)
    member = ConfluentMember(broker, "workers", topic)
    poll_until([member], lambda: len(member.assignment()) == PARTITIONS, [])
    command = [sys.executable, "-c", CONSUMER, broker.bootstrap, "workers", topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            poll_until([member], lambda: len(member.assignment()) == PARTITIONS // 2, [])
            assert other.stdout is not None
            assert other.stdout.readline() == f"{PARTITIONS // 2}\n"
        finally:
            other.kill()
    poll_until([member], lambda: len(member.assignment()) == PARTITIONS, [])
    member.close()
