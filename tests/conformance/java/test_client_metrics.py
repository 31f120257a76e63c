"""Kafka's Java client pushes its metrics by itself, and the broker shows them (KIP-714)."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S
from tests.conformance.java.kafka_tools import KafkaTools, consumed

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Kafka's Java client")]


def shown(broker: BrokerProcess, client_id: str) -> list[dict]:
    """What `ottla client-metrics show` says of a client; nothing while it has not pushed."""
    command = [sys.executable, "-m", "ottla.cli", "client-metrics", "show", client_id, "--json", "-b", broker.bootstrap]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        assert b"has pushed metrics" in done.stderr, done.stderr
        return []
    return list(json.loads(done.stdout))


@pytest.mark.alone("another broker may tell of a subscription a moment later, and this client asks once")
@pytest.mark.proves(feature="client metrics (KIP-714)")
def test_a_consumer_pushes_the_metrics_it_is_asked_for(kafka: KafkaTools, broker: BrokerProcess, name: str) -> None:
    kafka.new_topic(name)
    settings = ("--metrics", "org.apache.kafka.consumer.", "--interval", "100", "--match", f"client_id={name}")
    kafka.tool("ClientMetricsCommand", "--alter", "--name", name, *settings).ok()
    running = kafka.start_consumer("--topic", name, "--max-messages", 1, "--command-property", f"client.id={name}")
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (pushed := shown(broker, name)):
            assert time.monotonic() < deadline, "the consumer has pushed nothing"
    finally:
        kafka.produce(name, ["the last"])
    assert consumed(running.result(PATIENCE_S), 1) == ["the last"]
    [instance] = pushed
    assert instance["client_software_name"] == "apache-kafka-java"
    names = {each["name"] for each in instance["metrics"]}
    assert "org.apache.kafka.consumer.connection.creation.total" in names
    assert all(each.startswith("org.apache.kafka.consumer.") for each in names)
    kafka.tool("ClientMetricsCommand", "--delete", "--name", name).ok()
