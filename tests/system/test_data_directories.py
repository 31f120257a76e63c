"""A broker over several data directories: partitions move under load and over kills, a disk goes away."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess

PARTITIONS = 4
RECORDS_AT_A_TIME = 10
PATIENCE_S = 300


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in ("a", "b", "c")]


@pytest.fixture
def broker(paths: list[Path], tmp_path: Path) -> Iterator[BrokerProcess]:
    directories = Path(",".join(map(str, paths)))
    with BrokerProcess(directories, {"log.segment.bytes": str(1 << 20)}, log_dir=tmp_path) as broker:
        yield broker


def ottla(broker: BrokerProcess, *words: str) -> str:
    command = [sys.executable, "-m", "ottla.cli", "log", *words, "-b", broker.bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout


def places(broker: BrokerProcess, topic: str) -> dict[int, tuple[str, bool]]:
    """The directory of each partition, and whether it is on its way to another."""
    found: dict[int, tuple[str, bool]] = {}
    coming: set[int] = set()
    for directory in json.loads(ottla(broker, "dirs", "--json")):
        for log in directory["logs"]:
            if log["topic"] == topic and log["is_future"]:
                coming.add(log["partition"])
            elif log["topic"] == topic:
                found[log["partition"]] = (Path(directory["directory"] or "").name, False)
    return {index: (place, index in coming) for index, (place, _) in found.items()}


def wait_until_moved(broker: BrokerProcess, topic: str, name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while places(broker, topic) != dict.fromkeys(range(PARTITIONS), (name, False)):
        assert time.monotonic() < deadline, places(broker, topic)


class Load:
    """An idempotent producer that writes numbers to every partition, some at a time, until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 2}
        )
        self._topic = topic
        self._stop = threading.Event()
        self.sent = [0] * PARTITIONS
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(str(error))

    def _run(self) -> None:
        padding = b"." * 900
        while not self._stop.is_set():
            for number in range(PARTITIONS * RECORDS_AT_A_TIME):
                partition = number % PARTITIONS
                value = b"%d %s" % (self.sent[partition], padding)
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._on_delivery)
                self.sent[partition] += 1
            self._producer.flush(PATIENCE_S)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0


def read_all(bootstrap: str, topic: str, counts: list[int]) -> list[list[int]]:
    """The numbers in each partition, in their order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    deadline = time.monotonic() + PATIENCE_S
    while any(len(numbers) < count for numbers, count in zip(found, counts, strict=True)):
        assert time.monotonic() < deadline, [len(numbers) for numbers in found]
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None
            found[message.partition()].append(int(message.value().split()[0]))
    assert not [message for message in consumer.consume(1, timeout=0.2) if message.error() is None]
    consumer.close()
    return found


def new_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)


def test_partitions_move_under_load_and_nothing_is_lost_or_doubled(broker: BrokerProcess, paths: list[Path]):
    new_topic(broker.bootstrap, "events")
    load = Load(broker.bootstrap, "events")
    try:
        for path in (paths[1], paths[0], paths[2], paths[1]):
            ottla(broker, "move", "events", "--to", str(path))
            wait_until_moved(broker, "events", path.name)
    finally:
        load.stop()
    assert load.failures == []
    expected = [list(range(count)) for count in load.sent]
    assert read_all(broker.bootstrap, "events", load.sent) == expected
    assert broker.stop() == 0
    broker.start()
    assert set(places(broker, "events").values()) == {("b", False)}
    assert read_all(broker.bootstrap, "events", load.sent) == expected


def test_moves_go_on_after_kills_and_nothing_is_lost_or_doubled(broker: BrokerProcess, paths: list[Path]):
    new_topic(broker.bootstrap, "events")
    load = Load(broker.bootstrap, "events")
    try:
        for round_number in range(4):
            path = paths[1 + round_number % 2]
            ottla(broker, "move", "events", "--to", str(path))
            broker.kill()
            broker.start()
            wait_until_moved(broker, "events", path.name)
    finally:
        load.stop()
    assert load.failures == []
    assert read_all(broker.bootstrap, "events", load.sent) == [list(range(count)) for count in load.sent]


def test_a_directory_that_is_away_takes_nothing_with_it_and_comes_back(broker: BrokerProcess, paths: list[Path]):
    new_topic(broker.bootstrap, "events")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in range(PARTITIONS):
        producer.produce("events", b"0", partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    before = places(broker, "events")
    away = next(path for path in paths[1:] if (path.name, False) in before.values())
    broker.stop()
    away.rename(away.with_name("away"))
    away.write_text("no directory")
    broker.start()
    kept = {index: place for index, place in before.items() if place[0] != away.name}
    assert places(broker, "events") == kept
    assert f"{away} is left out" in broker.log_path.read_text()
    states = {Path(each["directory"] or "").name: each["error"] for each in json.loads(ottla(broker, "dirs", "--json"))}
    assert states[away.name] == "KAFKA_STORAGE_ERROR"
    reason = f"broker 1: {away} is offline: {away}: File exists"
    assert reason in ottla(broker, "dirs").splitlines()
    status = [sys.executable, "-m", "ottla.cli", "cluster", "status", "-b", broker.bootstrap]
    told = subprocess.run(status, capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == 1
    assert reason in told.stdout.splitlines()
    new_topic(broker.bootstrap, "others")
    assert away.name not in [place for place, _ in places(broker, "others").values()]
    away.unlink()
    away.with_name("away").rename(away)
    deadline = time.monotonic() + PATIENCE_S
    while places(broker, "events") != before:
        assert time.monotonic() < deadline
    assert read_all(broker.bootstrap, "events", [1] * PARTITIONS) == [[0]] * PARTITIONS


def test_what_the_commands_show_and_refuse(broker: BrokerProcess, paths: list[Path]):
    new_topic(broker.bootstrap, "events")
    columns, *rows = ottla(broker, "dirs").splitlines()
    assert columns.split() == ["BROKER", "DIRECTORY", "STATE", "LOGS", "COMING", "BYTES", "USABLE", "TOTAL"]
    assert [row.split()[:4] for row in rows] == [
        ["1", str(path), "online", count] for path, count in zip(paths, "211", strict=True)
    ]
    columns, *rows = ottla(broker, "dirs", "--broker", "1", "--partitions").splitlines()
    assert columns.split() == ["BROKER", "DIRECTORY", "TOPIC", "PARTITION", "BYTES", "LAG"]
    assert sorted(row.split()[3] for row in rows) == ["0", "1", "2", "3"]
    replica = {"topic": "events", "partition": 0, "broker": 1}
    told = json.loads(ottla(broker, "move", "events:0", "--to", str(paths[1]), "--json"))
    assert told == [{**replica, "directory": str(paths[1]), "error": None}]
    command = [sys.executable, "-m", "ottla.cli", "log", "move", "events:0", "--to", "/etc", "-b", broker.bootstrap]
    refused = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert refused.returncode != 0
    assert json.loads(refused.stdout) == [{**replica, "directory": "/etc", "error": "LOG_DIR_NOT_FOUND"}]
    assert "events-0 cannot be moved to '/etc' of broker 1: LOG_DIR_NOT_FOUND" in refused.stderr
