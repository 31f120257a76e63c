"""Kafka's own TransactionalMessageCopier, twice in a row, under kill -9 of both copiers and of the broker.

    input --> copier 1 --> middle --> copier 2 --> output

What comes out is exactly what went in, in its order. `OTTLA_COPIER_ROUNDS=100` for as many kills.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.read_back import read_partition
from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S
from tests.conformance.needed_peers import needed_peer
from tools.peers import java_class_path

ROUNDS = int(os.environ.get("OTTLA_COPIER_ROUNDS", "4"))
RECORDS = 300
"""That go in at the beginning of each round."""
TRANSACTION_SIZE = 50
LINKS = (("input", "middle"), ("middle", "output"))
TOPICS = ("input", "middle", "output")
LOG_SETTINGS = Path(__file__).with_name("log4j2.xml")
ROUND_S = 2 * PATIENCE_S

pytestmark = [pytest.mark.peer, pytest.mark.long, pytest.mark.proves(client="Kafka's Java client")]


class Chain:
    """Keeps a copier for each link."""

    def __init__(self, bootstrap: str, class_path: str, output: Path) -> None:
        self.bootstrap = bootstrap
        self.class_path = class_path
        self.output = output
        self.copiers: list[subprocess.Popen[bytes] | None] = [None] * len(LINKS)
        self.started_count = 0

    def keep(self) -> None:
        """Start those that have ended: the tool ends by itself when it has copied what was there."""
        for index, copier in enumerate(self.copiers):
            if copier is None or copier.poll() is not None:
                self.copiers[index] = self._start(index)

    def kill(self, index: int) -> None:
        copier = self.copiers[index]
        if copier is not None:
            copier.kill()
            copier.wait()

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        source, target = LINKS[index]
        options = {
            "broker-list": self.bootstrap,
            "input-topic": source,
            "input-partition": 0,
            "output-topic": target,
            "consumer-group": f"copier-{index}",
            "transactional-id": f"copier-{index}",
            "transaction-size": TRANSACTION_SIZE,
            "transaction-timeout": 20_000,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        java = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={LOG_SETTINGS}"]
        tool = "org.apache.kafka.tools.TransactionalMessageCopier"
        command = [*java, "-cp", self.class_path, tool, *words, "--enable-random-aborts", "--use-group-metadata"]
        self.started_count += 1
        with self.output.open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output)


@contextmanager
def running(chain: Chain) -> Iterator[Chain]:
    try:
        yield chain
    finally:
        for index in range(len(LINKS)):
            chain.kill(index)


def copied_until(bootstrap: str, topic: str) -> int:
    """The end of what is committed in a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "looks", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S)[1])
    finally:
        consumer.close()


@pytest.mark.proves(feature="a chain of copies in transactions under kill -9 of broker and copiers")
def test_what_comes_out_is_exactly_what_went_in(tmp_path: Path) -> None:
    with needed_peer():
        class_path = java_class_path()
    rng, values = Random(7), []
    with (
        BrokerProcess(tmp_path / "data") as broker,
        running(Chain(broker.bootstrap, class_path, tmp_path / "copiers")) as chain,
    ):
        for topic in TOPICS:
            create(broker, topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(ROUNDS):
            before = copied_until(broker.bootstrap, "output")
            new = [b"%d" % each for each in range(number * RECORDS, (number + 1) * RECORDS)]
            for value in new:
                producer.produce("input", value)
            assert producer.flush(PATIENCE_S) == 0
            values += new
            deadline = time.monotonic() + ROUND_S
            while copied_until(broker.bootstrap, "output") <= before:
                assert time.monotonic() < deadline, f"round {number}: nothing is copied"
                chain.keep()
                time.sleep(0.05)
            time.sleep(rng.uniform(0, 0.3))
            for victim in rng.choice(((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))):
                if victim < len(LINKS):
                    chain.kill(victim)
                else:
                    broker.kill()
                    broker.start()
        deadline = time.monotonic() + 2 * ROUND_S
        while len(copies := contents(broker, "output")) < len(values) and time.monotonic() < deadline:
            chain.keep()
        assert copies == values
        assert contents(broker, "middle") == values
        assert contents(broker, "input") == values
        assert chain.started_count >= len(LINKS)


def create(broker: BrokerProcess, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)


def contents(broker: BrokerProcess, topic: str) -> list[bytes | None]:
    """What a consumer of committed records finds."""
    return [each.value for each in read_partition(broker.bootstrap, topic, 0)]
