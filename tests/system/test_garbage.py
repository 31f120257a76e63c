"""Requests leave nothing to the cyclic garbage collector, whose looks would make every client wait.

The broker's collector is switched off by a start-up file of Python's, and says on a signal what it would have found.
"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker_process import BrokerProcess

SITE = """
import gc, signal, sys
if "serve" in sys.orig_argv:
    gc.set_threshold(0)
    gc.set_threshold = lambda *_: None
    signal.signal(signal.SIGUSR1, lambda *_: sys.stderr.write(f"garbage: {gc.collect()}\\n"))
"""
SAID = re.compile(r"garbage: (\d+)\n")
EXCHANGES = 200


@pytest.fixture
def collected_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def garbage(broker: BrokerProcess, producer: Producer) -> int:
    """How many objects nobody reaches the broker holds."""
    assert broker.process is not None
    before = len(SAID.findall(broker.log_path.read_text()))
    broker.process.send_signal(signal.SIGUSR1)
    while len(said := SAID.findall(broker.log_path.read_text())) == before:
        producer.list_topics(timeout=60)  # the signal is seen when the broker does something
    return int(said[-1])


def test_records_that_are_written_and_waited_for_make_no_garbage(collected_broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": collected_broker.bootstrap, "linger.ms": 0, "log_level": 2})
    consumer = Consumer({"bootstrap.servers": collected_broker.bootstrap, "group.id": "g", "log_level": 2})

    def exchange(count: int) -> None:
        for _ in range(count):
            producer.produce("t", b"value")
            assert producer.flush(60) == 0
            assert consumer.poll(60) is not None

    producer.produce("t", b"value")
    producer.flush(60)
    consumer.assign([TopicPartition("t", 0, 1)])
    exchange(50)
    garbage(collected_broker, producer)
    left = []
    for _ in range(3):
        exchange(EXCHANGES)
        left.append(garbage(collected_broker, producer))
    # What the broker reads and makes once, when it finds the time, is in one of them at most.
    assert min(left) < EXCHANGES, left
    consumer.close()
