"""kafka-console-producer and kafka-console-consumer."""

import pytest
from confluent_kafka import Producer

from tests.conformance.java.jvm import TIME_LIMIT_S
from tests.conformance.java.kafka_tools import KafkaTools, consumed

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's tools", feature="console producer and consumer")]


def printing(*what: str) -> list[str]:
    return [word for field in what for word in ("--formatter-property", f"print.{field}=true")]


def test_lines_come_back_in_order(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    lines = [f"line {number}" for number in range(1000)]
    kafka.produce(name, lines)
    assert kafka.consume(name, 1000, "--from-beginning") == lines


def test_keys_headers_nulls_and_every_other_field_come_back(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    reader = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]
    records = ["h1:v1,h2:v2\tkey\tvalue", "h:x\tNULL\tü", "h:NULL\tgone\tNULL"]
    kafka.produce(name, records, *[word for rule in reader for word in ("--reader-property", rule)])
    fields = printing("timestamp", "partition", "offset", "headers", "key")
    lines = [line.split("\t") for line in kafka.consume(name, 3, "--from-beginning", *fields)]
    assert [line[0].split(":")[0] for line in lines] == ["CreateTime"] * 3
    assert [line[1:] for line in lines] == [
        ["Partition:0", "Offset:0", "h1:v1,h2:v2", "key", "value"],
        ["Partition:0", "Offset:1", "h:x", "null", "ü"],
        ["Partition:0", "Offset:2", "h:null", "gone", "null"],
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_and_each_promise(kafka: KafkaTools, name: str, codec: str) -> None:
    kafka.new_topic(name)
    for acks in ("0", "1", "all"):
        kafka.produce(
            name,
            [f"{codec} {acks}"] * 50,
            "--compression-codec",
            codec,
            "--request-required-acks",
            acks,
            "--timeout",
            0,
        )
    assert kafka.consume(name, 150, "--from-beginning") == [
        line for acks in ("0", "1", "all") for line in [f"{codec} {acks}"] * 50
    ]


def test_a_position_in_one_partition(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.produce(name, [str(number) for number in range(10)])
    # With a new topic, its first console consumer starts at 0 whatever it is told; against Apache Kafka as well.
    kafka.consume(name, 10, "--from-beginning", "--partition", 0)
    assert kafka.consume(name, 3, "--offset", 4, "--partition", 0) == ["4", "5", "6"]
    assert kafka.consume(name, 2, "--offset", "earliest", "--partition", 0) == ["0", "1"]
    waiting = kafka.start_consumer("--topic", name, "--offset", "latest", "--partition", 0, "--timeout-ms", 500)
    assert "Processed a total of 0 messages" in waiting.result(TIME_LIMIT_S).err


def test_a_group_goes_on_where_it_stopped(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.produce(name, [str(number) for number in range(10)])
    group = ("--group", name, "--from-beginning")
    assert kafka.consume(name, 4, *group) == ["0", "1", "2", "3"]
    assert kafka.consume(name, 6, *group) == ["4", "5", "6", "7", "8", "9"]


def test_a_pattern_finds_topics_made_later(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(f"{name}-a")
    kafka.produce(f"{name}-a", ["a"])
    fresh = ("--command-property", "metadata.max.age.ms=300")
    arguments = ("--include", f"{name}-.*", "--from-beginning", "--max-messages", 2, "--timeout-ms", 120_000)
    consumer = kafka.start_consumer(*arguments, *fresh)
    kafka.new_topic(f"{name}-b")
    kafka.produce(f"{name}-b", ["b"])
    assert consumed(consumer.result(TIME_LIMIT_S), 2) == ["a", "b"]


def test_only_committed_records_are_asked_for(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    kafka.produce(name, ["one", "two"])
    assert kafka.consume(name, 2, "--from-beginning", "--isolation-level", "read_committed") == ["one", "two"]


def test_a_topic_is_made_by_producing_to_it(kafka: KafkaTools, name: str) -> None:
    said = kafka.tool_with_input("ConsoleProducer", ["first"], "--topic", name)
    assert said.code == 0
    assert kafka.consume(name, 1, "--from-beginning") == ["first"]


def test_a_line_beyond_the_limit_is_refused_by_name(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, max_message_bytes=1000)
    said = kafka.tool_with_input("ConsoleProducer", ["x" * 2000], "--topic", name, "--sync", "--timeout", 0)
    assert "RecordTooLargeException" in said.err


def test_batches_larger_than_the_limits_of_a_fetch_are_read_whole(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 6)
    sent = [str(number) * (50 if number % 3 else 5_000) for number in range(60)]
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for number, value in enumerate(sent):
        producer.produce(name, value, partition=number % 6)
    assert producer.flush(60) == 0
    small = ["max.partition.fetch.bytes=300", "fetch.max.bytes=4000", "fetch.min.bytes=3000", "fetch.max.wait.ms=100"]
    limits = [word for each in small for word in ("--command-property", each)]
    assert sorted(kafka.consume(name, len(sent), "--from-beginning", *limits)) == sorted(sent)
