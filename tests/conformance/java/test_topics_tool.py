"""kafka-topics: create, list, describe with every filter, alter and delete."""

import re

import pytest

from tests.conformance.java.kafka_tools import KafkaTools, first_line

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="topics")]
PARTITION = "\tTopic: {topic}\tPartition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "


def partition_lines(topic: str, count: int) -> list[str]:
    return [PARTITION.format(topic=topic, partition=partition) for partition in range(count)]


@pytest.mark.alone("it leads everything")
def test_a_created_topic_is_listed_and_described_with_its_settings(kafka: KafkaTools, name: str) -> None:
    created = kafka.topics("--create", "--topic", name, "--partitions", 3, "--config", "retention.ms=100000").ok()
    assert created.lines == [f"Created topic {name}."]
    assert name in kafka.topics("--list").ok().lines
    head, *partitions = kafka.topics("--describe", "--topic", name).ok().lines
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*", head
    )
    assert "retention.ms=100000" in head
    assert partitions == partition_lines(name, 3)


def test_a_topic_is_described_by_its_id(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    head, _ = kafka.topics("--describe", "--topic", name).ok().lines
    by_id = kafka.topics("--describe", "--topic-id", head.split("TopicId: ")[1].split("\t")[0]).ok()
    assert by_id.lines[0] == head


def test_internal_topics_can_be_left_out_of_the_list(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.produce(name, ["one"])
    kafka.consume(name, 1, "--from-beginning", "--group", name)
    assert "__consumer_offsets" in kafka.topics("--list").ok().lines
    without = kafka.topics("--list", "--exclude-internal").ok().lines
    assert name in without
    assert "__consumer_offsets" not in without


def test_a_list_may_be_narrowed_by_a_pattern(kafka: KafkaTools, name: str) -> None:
    for end in ("a", "b", "c"):
        kafka.new_topic(f"{name}-{end}")
    assert kafka.topics("--list", "--topic", f"{name}-[ab]").ok().lines == [f"{name}-a", f"{name}-b"]


@pytest.mark.alone("it leads everything")
def test_partitions_are_added_and_never_taken_away(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 2)
    kafka.topics("--alter", "--topic", name, "--partitions", 5).ok()
    assert kafka.topics("--describe", "--topic", name).ok().lines[1:] == partition_lines(name, 5)
    for fewer in (2, 5):
        refused = kafka.topics("--alter", "--topic", name, "--partitions", fewer)
        assert "InvalidPartitionsException" in refused.err
        assert str(fewer) in first_line(refused)
    assert kafka.topics("--describe", "--topic", name).ok().lines[1:] == partition_lines(name, 5)


@pytest.mark.alone("it leads everything")
def test_every_filter_of_describe_agrees_that_one_replica_is_all_there_is(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 2, retention_ms=1000)

    def described(*more: str) -> list[str]:
        return [line for line in kafka.topics("--describe", *more).ok().lines if f"Topic: {name}\t" in line]

    assert described("--under-replicated-partitions") == []
    assert described("--unavailable-partitions") == []
    assert described("--under-min-isr-partitions") == []
    assert described("--at-min-isr-partitions") == partition_lines(name, 2)
    (overridden,) = described("--topics-with-overrides")
    assert "retention.ms=1000" in overridden


def test_a_deleted_topic_is_gone(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.topics("--delete", "--topic", name).ok()
    assert name not in kafka.topics("--list").ok().lines
    assert "does not exist as expected" in first_line(kafka.topics("--describe", "--topic", name))
    assert "does not exist as expected" in first_line(kafka.topics("--delete", "--topic", name))
    kafka.topics("--delete", "--if-exists", "--topic", name).ok()


def test_a_topic_that_is_there_is_not_made_again(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    again = kafka.topics("--create", "--topic", name)
    assert "TopicExistsException" in again.err
    assert name in first_line(again)
    kafka.topics("--create", "--if-not-exists", "--topic", name).ok()


@pytest.mark.parametrize(
    ("more", "error", "word"),
    [
        (["--replication-factor", "4"], "InvalidReplicationFactorException", "4"),
        (["--replica-assignment", "7"], "InvalidReplicaAssignmentException", "7"),
        (["--config", "cleanup.policy=burn"], "ConfigException", "burn"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(
    kafka: KafkaTools, name: str, more: list[str], error: str, word: str
) -> None:
    refused = kafka.topics("--create", "--topic", name, *more)
    assert error in refused.err
    assert word in first_line(refused)
    assert name not in kafka.topics("--list").ok().lines


def test_an_illegal_name_is_refused_with_the_reason(kafka: KafkaTools) -> None:
    refused = kafka.topics("--create", "--topic", "two words")
    assert "InvalidTopicException" in refused.err
    assert "two words" in first_line(refused)


def test_replicas_may_be_placed_by_hand(kafka: KafkaTools, name: str) -> None:
    kafka.topics("--create", "--topic", name, "--replica-assignment", "1,1,1").ok()
    assert kafka.topics("--describe", "--topic", name).ok().lines[1:] == partition_lines(name, 3)
