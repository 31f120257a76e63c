"""Kafka's Java producer and consumer and its tools over TLS, each known by its certificate or by SCRAM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.clients.face import PATIENCE_S
from tests.conformance.java.jvm import Jvm
from tests.conformance.java.kafka_tools import KafkaTools
from tests.conformance.java.streams_application import StreamsApplication, compiled
from tests.conformance.needed_peers import needed_peer
from tests.conformance.tls_broker import WAYS, TlsListeners

FEATURE = "TLS with certificates, SASL_SSL"
pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsListeners]:
    with TlsListeners(tmp_path_factory.mktemp("tls")) as listeners:
        yield listeners


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    with needed_peer():
        return compiled(tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.proves(client="Kafka's Java client", feature=FEATURE)
@pytest.mark.proves(client="Kafka's tools", feature=FEATURE)
def test_javas_producer_and_consumer_write_and_read_in_a_group(jvm: Jvm, secured: TlsListeners, way: str) -> None:
    tools = KafkaTools(jvm, secured.bootstraps[way])
    config = ("--command-config", str(secured.properties(way)))
    topic = f"allowed-java-{way[0]}"
    tools.produce(topic, ["one", "two"], *config)
    assert tools.consume(topic, 2, "--from-beginning", "--group", topic, *config) == ["one", "two"]
    refused = tools.tool_with_input("ConsoleProducer", ["x"], "--topic", "forbidden", *config)
    assert "not authorized" in (refused.out + refused.err).lower()
    groups = tools.consumer_groups("--describe", "--group", topic, *config)
    assert topic in groups.out, groups.err


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.proves(client="Kafka Streams", feature=FEATURE)
def test_kafka_streams_counts_words(class_path: str, secured: TlsListeners, tmp_path: Path, way: str) -> None:
    config, name = secured.librdkafka(way), f"allowed-streams-{way[0]}"
    producer = Producer(config)
    for topic, value in ((f"{name}-lines", "all streams lead to all"), (f"{name}-counts", None)):
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    folder = tmp_path / "application"
    folder.mkdir()
    options = {"commit.interval.ms": 100, "auto.offset.reset": "earliest", **secured.settings(way)}
    application = StreamsApplication(
        class_path, folder, secured.bootstraps[way], name, f"{name}-lines", f"{name}-counts", **options
    )
    try:
        application.wait_for("RUNNING")
        consumer = Consumer({**config, "group.id": f"{name}-reader", "auto.offset.reset": "earliest"})
        consumer.subscribe([f"{name}-counts"])
        counts: dict[str, int] = {}
        while counts.get("all") != 2 or len(counts) < 4:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, counts
            assert message.error() is None, message.error()
            if message.value() is not None:
                counts[message.key().decode()] = int.from_bytes(message.value(), "big")
        assert counts == {"all": 2, "streams": 1, "lead": 1, "to": 1}
        consumer.close()
        application.close()
    finally:
        application.kill()
