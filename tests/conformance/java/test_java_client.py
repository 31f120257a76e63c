"""Kafka's Java client: what producers and consumers do."""

import pytest

from tests.conformance.java.kafka_tools import KafkaTools

CLIENT = "Kafka's Java client"
pytestmark = pytest.mark.peer


@pytest.mark.proves(client=CLIENT, feature="acks and codecs, idempotent produce")
def test_each_promise_with_each_codec(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    facts = kafka.java("Promises", name)
    assert len(facts) == 15
    assert [fact for fact in facts if not fact["read"]] == []


@pytest.mark.proves(client=CLIENT, feature="headers, nulls, timestamps")
def test_every_field_of_a_record_comes_back(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, retention_ms=-1)
    same = {"type": "CreateTime", "epoch": 0}
    assert kafka.java("Fields", name) == [
        {"offset": 0, "timestamp": 12345, "key": "key", "value": "value", "headers": ["h=1", "h=", "=null"], **same},
        {"offset": 1, "timestamp": 12346, "key": None, "value": "value", "headers": [], **same},
        {"offset": 2, "timestamp": 12347, "key": "key", "value": None, "headers": [], **same},
        {"offset": 3, "timestamp": 12348, "key": "", "value": "", "headers": [], **same},
    ]


@pytest.mark.proves(client=CLIENT, feature="partitioner and interceptors")
def test_a_partitioner_and_interceptors_of_the_users_own(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 2)
    (fact,) = kafka.java("Plugins", name, name)
    assert fact["keys"] == {"0": ["0", "2", "4", "6", "8"], "1": ["1", "3", "5", "7", "9"]}
    assert {key: fact[key] for key in fact if key != "keys"} == {
        "marked": 10,
        "acknowledged": 10,
        "consumed": 10,
        "committed": 10,
    }


@pytest.mark.proves(client=CLIENT, feature="seek, offsets for times, pause and resume")
def test_positions(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 2, retention_ms=-1)
    for partition in (0, 1):
        kafka.java("Records", name, partition, 0, 100, 1000)
    assert kafka.java("Positions", name) == [
        {"seek": ["42", "43", "44"]},
        {"beginning": 0, "first": "0"},
        {"end": 100, "polled": 0},
        {"time": 0, "offset": 0, "timestamp": 1000},
        {"time": 1050, "offset": 50, "timestamp": 1050},
        {"time": 1099, "offset": 99, "timestamp": 1099},
        {"time": 1100, "offset": None, "timestamp": None},
        {"beginnings": [0, 0], "ends": [100, 100]},
        {"paused": True, "resumed": "99"},
        {"outOfRange": 1000},
    ]


@pytest.mark.proves(client=CLIENT, feature="commits, manual assignment, pattern subscription")
def test_commits_and_where_the_next_consumer_starts(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.java("Records", name, 0, 0, 100)
    assert kafka.java("Commits", name, name) == [
        {"before": None},
        {"sync": 7, "metadata": "seven"},
        {"async": 30},
        {"first": "30"},
        {"afterAutoCommit": "40"},
    ]


@pytest.mark.proves(client=CLIENT, feature="refusals are said clearly")
def test_what_cannot_be_is_said_by_name(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, max_message_bytes=10_000)
    ended = kafka.jvm.run("Refusals", kafka.bootstrap, name, f"{name}-none")
    assert ended.code == 0, ended.err
    facts = {fact["what"]: (fact["error"], fact["message"]) for fact in ended.facts}
    assert facts.pop("record at the limit") == (None, None)
    assert {what: error for what, (error, _) in facts.items()} == {
        "record beyond the limit": "RecordTooLargeException",
        "record beyond the client's limit": "RecordTooLargeException",
        "partition that is not there": "TimeoutException",
        "illegal topic": "InvalidTopicException",
        "partitions of a topic that is not there": None,
        "topic that is not there": "UnknownTopicOrPartitionException",
        "transactions that take too long": "KafkaException",
    }
