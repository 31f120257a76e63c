"""Kafka Streams: a word count in each group protocol, while the broker restarts and processes come and go."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.broker_process import BrokerProcess
from tests.conformance.java.jvm import Jvm
from tests.conformance.java.kafka_tools import KafkaTools
from tests.conformance.java.streams_application import StreamsApplication, compiled
from tests.conformance.needed_peers import needed_peer

CLIENT = "Kafka Streams"
pytestmark = pytest.mark.peer
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.session.timeout.ms": "10000",
}
FIRST = ["All streams lead to Kafka", "Hello Kafka streams", "Join Kafka Summit"]
THEN = ["all all all", "streams of streams"]
LAST = ["Kafka kept the letters", "all of the letters"]

Start = Callable[..., StreamsApplication]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    with needed_peer():
        return compiled(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def streams_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of these tests' own: they restart it."""
    with BrokerProcess(tmp_path_factory.mktemp("streams") / "data", SETTINGS) as process:
        yield process


@pytest.fixture
def tools(jvm: Jvm, streams_broker: BrokerProcess) -> KafkaTools:
    return KafkaTools(jvm, streams_broker.bootstrap)


@pytest.fixture
def start(class_path: str, tmp_path: Path, streams_broker: BrokerProcess, name: str) -> Iterator[Start]:
    """Starts processes of the application `name`, each with a directory of its own."""
    started: list[StreamsApplication] = []

    def start_one(**properties: object) -> StreamsApplication:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        application = StreamsApplication(
            class_path, folder, streams_broker.bootstrap, name, f"{name}-lines", f"{name}-counts", **properties
        )
        started.append(application)
        return application

    yield start_one
    for each in started:
        each.kill()


def words(*of: list[str]) -> dict[str, int]:
    """What is to be counted."""
    return dict(Counter(word for lines in of for line in lines for word in line.lower().split()))


def produce(broker: BrokerProcess, name: str, lines: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for line in lines:
        producer.produce(f"{name}-lines", line)
    assert producer.flush(60) == 0


def read_counts(broker: BrokerProcess, name: str, expected: dict[str, int]) -> dict[str, int]:
    """The last count of each word, once they are as expected, or all that came in a minute."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"{name}-reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([f"{name}-counts"])
    counts: dict[str, int] = {}
    try:
        for _ in range(600):
            for message in consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                counts[message.key().decode()] = struct.unpack(">q", message.value())[0]
            if counts == expected:
                break
    finally:
        consumer.close()
    return counts


@pytest.mark.parametrize(
    ("protocol", "guarantee"),
    [
        pytest.param(
            "streams",
            "at_least_once",
            marks=pytest.mark.proves(client=CLIENT, feature="streams group protocol"),
        ),
        pytest.param("classic", "at_least_once", marks=pytest.mark.proves(client=CLIENT, feature="classic protocol")),
        pytest.param(
            "streams",
            "exactly_once_v2",
            marks=pytest.mark.proves(client=CLIENT, feature="exactly once, streams group protocol"),
        ),
        pytest.param(
            "classic",
            "exactly_once_v2",
            marks=pytest.mark.proves(client=CLIENT, feature="exactly once, classic protocol"),
        ),
    ],
)
def test_words_are_counted_while_the_broker_restarts(
    tools: KafkaTools, start: Start, streams_broker: BrokerProcess, name: str, protocol: str, guarantee: str
) -> None:
    tools.new_topic(f"{name}-lines", 2)
    tools.new_topic(f"{name}-counts", 2)
    properties = {"group_protocol": protocol, "processing_guarantee": guarantee, "commit_interval_ms": 100}
    application = start(**properties).wait_for("RUNNING")
    produce(streams_broker, name, FIRST)
    assert read_counts(streams_broker, name, words(FIRST)) == words(FIRST)

    streams_broker.stop()
    streams_broker.start()
    produce(streams_broker, name, THEN)
    assert read_counts(streams_broker, name, words(FIRST, THEN)) == words(FIRST, THEN)

    application.close()
    again = start(**properties).wait_for("RUNNING")
    produce(streams_broker, name, LAST)
    assert read_counts(streams_broker, name, words(FIRST, THEN, LAST)) == words(FIRST, THEN, LAST)
    again.close()


@pytest.mark.proves(client=CLIENT, feature="streams groups tool")
def test_the_tool_shows_a_group_and_its_topics_were_made(
    tools: KafkaTools, start: Start, streams_broker: BrokerProcess, name: str
) -> None:
    tools.new_topic(f"{name}-lines", 3)
    tools.new_topic(f"{name}-counts", 1)
    properties = {"group_protocol": "streams", "num_stream_threads": 2, "commit_interval_ms": 100}
    applications = [start(**properties).wait_for("RUNNING") for _ in range(2)]
    produce(streams_broker, name, FIRST)
    assert read_counts(streams_broker, name, words(FIRST)) == words(FIRST)

    def streams_groups(*args: object) -> str:
        return tools.tool("streams.StreamsGroupCommand", *args).ok().out

    assert name in streams_groups("--list").split()
    members = streams_groups("--describe", "--members", "--group", name)
    assert members.count(f"{name} ") == 4, members
    made = tools.topics("--list").ok().lines
    assert {f"{name}-counts-repartition", f"{name}-counts-changelog"} <= set(made)

    applications[0].kill()
    produce(streams_broker, name, THEN)
    assert read_counts(streams_broker, name, words(FIRST, THEN)) == words(FIRST, THEN)
    applications[1].close()
    assert "Empty" in streams_groups("--describe", "--state", "--group", name)
