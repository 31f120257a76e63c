"""Kafka's Java admin client: what it asks of one broker."""

import pytest

from tests.conformance.java.kafka_tools import KafkaTools

CLIENT = "Kafka's Java client"
pytestmark = [pytest.mark.peer, pytest.mark.proves(client=CLIENT, feature="admin calls")]


@pytest.mark.alone("it is the controller")
def test_what_the_admin_client_asks(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, retention_ms=-1)
    kafka.java("Records", name, 0, 0, 100, 1000)
    facts = iter(kafka.java("AdminCalls", name, f"{name}-new"))
    assert next(facts) == {"nodes": [1], "controller": 1, "cluster id": 22}
    assert next(facts) == {"partitions": 3, "listed": True, "internal": False}
    assert next(facts) == {"deleted": True}
    specs = {
        fact["spec"]: (fact["offset"], fact["timestamp"], fact["epoch"]) for fact in (next(facts) for _ in range(8))
    }
    assert specs == {
        "earliest": (0, -1, 0),
        "earliest local": (0, -1, 0),
        "earliest pending upload": (-1, -1, -1),
        "later": (-1, -1, -1),
        "latest": (100, -1, 0),
        "latest tiered": (-1, -1, -1),
        "max timestamp": (99, 1099, 0),
        "timestamp": (50, 1050, 0),
    }
    described = {"undocumented": [], "untyped": [], "many": True}
    assert next(facts) == described
    dynamic = {"source": "DYNAMIC_TOPIC_CONFIG"}
    assert next(facts) == {"name": "segment.ms", "value": "90000", "type": "LONG", "synonym": "segment.ms", **dynamic}
    policy = {"value": "delete,compact", "type": "LIST", "synonym": "cleanup.policy"}
    assert next(facts) == {"name": "cleanup.policy", **policy, **dynamic}
    assert next(facts) == described
    default = {"source": "DEFAULT_CONFIG", "synonym": "num.partitions"}
    assert next(facts) == {"name": "num.partitions", "value": "1", "type": "INT", **default}
    assert list(facts) == [
        {"resources": True},
        {"last sequence": 99, "epoch": 0},
        {"low watermark": 40},
        {"size": True, "total": True, "usable": True},
        {"election": "ElectionNotNeededException"},
        {"group offset": 50, "metadata": "noted"},
        {"listed": True, "state": "EMPTY"},
        {"group deleted": True},
    ]
