"""Kafka's Java client in groups: each classic assignor, and members with names of their own."""

from itertools import chain

import pytest

from tests.conformance.java.kafka_tools import KafkaTools

CLIENT = "Kafka's Java client"
pytestmark = pytest.mark.peer
PACKAGE = "org.apache.kafka.clients.consumer"


@pytest.mark.proves(client=CLIENT, feature="classic assignors")
@pytest.mark.parametrize(
    "assignor", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]
)
def test_each_record_is_read_once_while_members_come_and_go(kafka: KafkaTools, name: str, assignor: str) -> None:
    kafka.new_topic(name, 6)
    three, leaving, two, total = kafka.java("Members", name, name, 6, f"{PACKAGE}.{assignor}")
    assert sorted(len(share) for share in three["shares"].values()) == [2, 2, 2]
    assert sorted(chain(*three["shares"].values())) == list(range(6))
    assert leaving == {"leaves with": 2}
    assert sorted(len(share) for share in two["shares"].values()) == [3, 3]
    assert sorted(chain(*two["shares"].values())) == list(range(6))
    assert total == {"read": 720, "distinct": 720}


@pytest.mark.proves(client=CLIENT, feature="static members")
def test_members_with_names_of_their_own(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 4)
    ended = kafka.jvm.run("StaticMembers", kafka.bootstrap, name, name)
    assert ended.code == 0, ended.err
    assert ended.facts == [
        {"same share": True, "rebalanced": 0},
        {"twin": True},
        {"fenced": "FencedInstanceIdException"},
        {"left": [0, 1, 2, 3]},
    ]


@pytest.mark.proves(client=CLIENT, feature="consumer protocol (KIP-848)")
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_broker_assigns_while_members_come_and_go(kafka: KafkaTools, name: str, assignor: str) -> None:
    kafka.new_topic(name, 6)
    three, leaving, two, total = kafka.java("Members", name, name, 6, assignor, "consumer")
    assert sorted(len(share) for share in three["shares"].values()) == [2, 2, 2]
    assert sorted(chain(*three["shares"].values())) == list(range(6))
    assert leaving == {"leaves with": 2}
    assert sorted(len(share) for share in two["shares"].values()) == [3, 3]
    assert sorted(chain(*two["shares"].values())) == list(range(6))
    assert total == {"read": 720, "distinct": 720}
