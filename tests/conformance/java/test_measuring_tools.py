"""kafka-producer-perf-test, kafka-consumer-perf-test and the tools that Kafka tests its own brokers with."""

import json
import re

import pytest

from tests.conformance.java.jvm import Ended, run_alone
from tests.conformance.java.kafka_tools import PACKAGE, KafkaTools

pytestmark = pytest.mark.peer


@pytest.mark.proves(client="Kafka's tools", feature="perf-test")
def test_what_the_producer_perf_test_sends_the_consumer_perf_test_reads(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 3)
    count = ("--num-records", 20_000)
    sent = kafka.tool("ProducerPerformance", "--topic", name, *count, "--record-size", 100, "--throughput", -1).ok()
    assert sent.lines[-1].startswith("20000 records sent, ")
    offsets = kafka.get_offsets("--topic", name).ok().lines
    assert sum(int(line.split(":")[-1]) for line in offsets) == 20_000
    names, values = kafka.tool("ConsumerPerformance", "--topic", name, *count, "--timeout", 30_000).ok().lines
    read = dict(zip(names.split(", "), values.split(", "), strict=True))
    assert int(read["data.consumed.in.nMsg"]) == 20_000
    assert read["data.consumed.in.MB"] == "1.9073"


@pytest.mark.proves(client="Kafka's tools", feature="end-to-end latency")
def test_each_record_makes_its_round(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    sizes = ("--record-size", 30, "--num-headers", 2, "--record-key-size", 5)
    acks = ("--num-records", 50, "--producer-acks", "all")
    said = kafka.tool("EndToEndLatency", "--topic", name, *acks, *sizes).ok()
    assert re.search(r"Avg latency: [\d.]+ ms", said.out)
    assert "Percentiles: 50th" in said.out


def events(ended: Ended, name: str) -> list[dict]:
    assert ended.code == 0
    return [event for event in map(json.loads, ended.lines) if event["name"] == name]


@pytest.mark.proves(client="Kafka's tools", feature="verifiable producer and consumer")
def test_what_the_verifiable_producer_was_promised_the_verifiable_consumer_reads(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name)
    producer = f"{PACKAGE}.VerifiableProducer"
    said = run_alone(
        producer, "--bootstrap-server", kafka.bootstrap, "--topic", name, "--max-messages", 500, "--acks", "-1"
    )
    acknowledged = events(said, "producer_send_success")
    assert sorted((int(event["value"]), event["offset"]) for event in acknowledged) == [(n, n) for n in range(500)]
    assert events(said, "producer_send_error") == []
    consumer = f"{PACKAGE}.VerifiableConsumer"
    how = ("--group-id", name, "--max-messages", 500, "--reset-policy", "earliest", "--verbose")
    read = run_alone(consumer, "--bootstrap-server", kafka.bootstrap, "--topic", name, *how)
    assert [(event["offset"], event["value"]) for event in events(read, "record_data")] == [
        (number, str(number)) for number in range(500)
    ]
    (assigned,) = events(read, "partitions_assigned")
    assert assigned["partitions"] == [{"topic": name, "partition": 0}]
    committed = events(read, "offsets_committed")[-1]
    assert committed["success"]
    assert [each["offset"] for each in committed["offsets"]] == [500]


@pytest.mark.proves(client="Kafka's tools", feature="client compatibility test")
@pytest.mark.alone("the tool counts one broker")
def test_kafkas_own_compatibility_test(kafka: KafkaTools, name: str) -> None:
    is_there = (
        "offsets-for-times",
        "cluster-id",
        "create-topics",
        "describe-configs",
        "idempotent-producer",
        "describe-acls",
    )
    how = [word for feature in is_there for word in (f"--{feature}-supported", "true")]
    how += ["--expect-record-too-large-exception", "false"]
    said = kafka.tool("ClientCompatibilityTest", "--topic", name, "--num-cluster-nodes", 1, *how)
    assert (said.code, said.lines) == (0, ["SUCCESS."])


@pytest.mark.proves(client="Kafka's tools", feature="broker-api-versions, cluster, groups")
@pytest.mark.alone("the tool lists one broker")
def test_what_the_broker_says_of_itself(kafka: KafkaTools, name: str) -> None:
    served = kafka.tool("BrokerApiVersionsCommand").ok().out
    assert "(id: 1 rack: null isFenced: false)" in served
    assert "Produce(0): 0 to 13 [usable: 13]" in served
    assert "ShareFetch(78): 1 to 2 [usable: 2]" in served
    assert "AddRaftVoter(80): UNSUPPORTED" in served
    about = (f"{PACKAGE}.ClusterTool", "--bootstrap-server", kafka.bootstrap)
    (cluster,) = kafka.jvm.run(about[0], "cluster-id", *about[1:]).ok().lines
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", cluster)
    _, endpoint = kafka.jvm.run(about[0], "list-endpoints", *about[1:]).ok().lines
    host, port = kafka.bootstrap.split(":")
    assert endpoint.split() == ["1", host, port, "null", "unfenced", "broker"]
    kafka.new_topic(name)
    kafka.produce(name, ["one"])
    kafka.consume(name, 1, "--group", name, "--from-beginning")
    assert [name, "Classic", "consumer"] in [line.split() for line in kafka.tool("GroupsCommand", "--list").ok().lines]
