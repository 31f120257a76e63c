"""Consumer groups of several client libraries, and what the broker does to members that break the rules."""

from __future__ import annotations

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S, Member
from tests.conformance.group_members import (
    PARTITIONS,
    AioMember,
    ConfluentMember,
    PythonMember,
    fill,
    new_group,
    poll_until,
    shared_by,
)
from tests.conformance.topics import new_topic


@pytest.mark.proves(client="confluent-kafka", feature="group with members of other clients")
@pytest.mark.proves(client="kafka-python", feature="group with members of other clients")
@pytest.mark.proves(client="aiokafka", feature="group with members of other clients")
def test_members_of_three_libraries_share_one_group(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    members: list[Member] = [make(group_broker, group, topic) for make in (ConfluentMember, PythonMember)]
    members.append(AioMember(group_broker, group, topic))
    got: list[bytes] = []
    poll_until(members, shared_by(members), got)
    values = fill(group_broker, topic, 300)
    poll_until(members, lambda: set(got) >= values, got)
    assert sorted(got) == sorted(values)
    for member in members:
        member.commit()
    for member in members:
        member.close()


@pytest.mark.proves(client="confluent-kafka", feature="static membership")
def test_a_second_client_with_the_instance_id_of_another_fences_it(group_broker: BrokerProcess) -> None:
    topic, group = new_topic(group_broker, PARTITIONS), new_group()
    config = {"group.instance.id": "only-one"}
    old = ConfluentMember(group_broker, group, topic, **config)
    poll_until([old], lambda: bool(old.assignment()), [])
    new = ConfluentMember(group_broker, group, topic, **config)
    poll_until([new], lambda: bool(new.assignment()), [])
    errors = []
    while not errors:
        message = old.consumer.poll(PATIENCE_S)
        assert message is not None, "the fenced member was not told"
        if message.error() is not None:
            errors.append(message.error())
    assert "fenced" in errors[0].str()
    assert new.assignment() == set(range(PARTITIONS))
    new.close()
    old.close()
