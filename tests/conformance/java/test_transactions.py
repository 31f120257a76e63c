"""Transactions of Kafka's Java client, and Kafka's tools for them."""

import pytest

from tests.conformance.java.jvm import run_alone
from tests.conformance.java.kafka_tools import PACKAGE, KafkaTools

pytestmark = pytest.mark.peer
JAVA = "Kafka's Java client"
TOOLS = "Kafka's tools"


@pytest.mark.proves(client=JAVA, feature="transactions")
@pytest.mark.proves(client=JAVA, feature="consume, transform and produce exactly once")
@pytest.mark.proves(client=JAVA, feature="a producer is fenced off by the next of its id")
def test_a_copy_in_transactions_has_each_record_once(kafka: KafkaTools, name: str) -> None:
    source, target = kafka.new_topic(f"{name}-source", 3), kafka.new_topic(f"{name}-target", 3)
    lines = [str(number) for number in range(120)]
    kafka.produce(source, lines)
    copied, fenced = kafka.java("Transactions", source, target, len(lines))
    assert sorted(copied["read"], key=int) == lines
    assert copied["written"] >= 2 * len(lines)
    assert copied["committed"] >= 24
    assert fenced == {"fenced": "ProducerFencedException"}


@pytest.mark.proves(client=TOOLS, feature="transactions")
@pytest.mark.alone("it coordinates every transaction and leads everything")
def test_the_tool_lists_and_describes_transactions(kafka: KafkaTools, name: str) -> None:
    source, target = kafka.new_topic(f"{name}-source"), kafka.new_topic(f"{name}-target")
    kafka.produce(source, ["1"])
    kafka.java("Transactions", source, target, 1)
    listed = [line.split() for line in kafka.tool("TransactionsCommand", "list").ok().lines]
    assert listed[0] == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    states = {row[0]: row[3] for row in listed[1:]}
    assert states[target] in ("Empty", "CompleteAbort")
    described = kafka.tool("TransactionsCommand", "describe", "--transactional-id", target).ok().lines
    assert described[1].split()[0] == "1"
    assert target in described[1]
    producers = kafka.tool("TransactionsCommand", "describe-producers", "--topic", target, "--partition", 0).ok().lines
    assert producers[0].split()[0] == "ProducerId"
    assert len(producers) > 1
    hanging = kafka.tool("TransactionsCommand", "find-hanging", "--broker-id", 1).ok().lines
    assert [line.split()[0] for line in hanging] == ["Topic"]
    ended = kafka.tool("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", target)
    assert ended.code == 0


@pytest.mark.proves(client=TOOLS, feature="transactions")
def test_kafkas_tool_for_measuring_writes_in_transactions(kafka: KafkaTools, name: str) -> None:
    kafka.new_topic(name, 3)
    done = run_alone(
        f"{PACKAGE}.ProducerPerformance",
        *("--topic", name, "--num-records", 2_000, "--record-size", 100, "--throughput", -1),
        *("--command-property", f"bootstrap.servers={kafka.bootstrap}"),
        *("--transactional-id", name, "--transaction-duration-ms", 50),
    )
    assert done.code == 0, done.err
    assert "2000 records sent" in done.lines[-1]
