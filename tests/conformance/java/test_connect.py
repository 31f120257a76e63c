"""Kafka Connect and MirrorMaker with brokers that are reached over TLS alone, and that ask ACLs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.conformance.clients.face import PATIENCE_S
from tests.conformance.java.jvm import FLAGS
from tests.conformance.needed_peers import needed_peer
from tests.conformance.tls_broker import MUTUAL, SASL, TlsListeners
from tools.peers import kafka_connect_jars, kafka_jars
from tools.ports import free_ports

pytestmark = [pytest.mark.peer, pytest.mark.long]

LINES = [f"line {number}" for number in range(200)]
REPLICATION = {f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsListeners]:
    with TlsListeners(tmp_path_factory.mktemp("tls")) as listeners:
        for prefix in ("allowed-", "connect-cluster-allowed-"):
            listeners.allow("alice", "--transactional-id", prefix, "--prefixed", "--operation", "all")
        listeners.allow("alice", "--group", "connect-", "--prefixed", "--operation", "read")
        yield listeners


@pytest.fixture(scope="module")
def class_path() -> str:
    with needed_peer():
        return os.pathsep.join(map(str, [*kafka_jars(), *kafka_connect_jars()]))


def file_of(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def worker(secured: TlsListeners, way: str, rest: int) -> dict[str, str]:
    """The settings of a worker, whose producers and consumers are told all of it again."""
    security = secured.settings(way)
    text = "org.apache.kafka.connect.storage.StringConverter"
    return {
        "bootstrap.servers": secured.bootstraps[way],
        "listeners": f"http://127.0.0.1:{rest}",
        "key.converter": text,
        "value.converter": text,
        "offset.flush.interval.ms": "1000",
        "plugin.discovery": "service_load",
        **{
            f"{each}{name}": value
            for each in ("", "producer.", "consumer.", "admin.")
            for name, value in security.items()
        },
    }


def connectors(folder: Path, topic: str) -> dict[str, dict[str, str]]:
    """A file's lines into the topic, and from there into another file."""
    (folder / "in").write_text("".join(f"{line}\n" for line in LINES))
    package = "org.apache.kafka.connect.file"
    source = {"connector.class": f"{package}.FileStreamSourceConnector", "file": str(folder / "in"), "topic": topic}
    sink = {"connector.class": f"{package}.FileStreamSinkConnector", "file": str(folder / "out"), "topics": topic}
    return {f"source-{topic}": source, topic.replace("allowed-", "sink-"): sink}


@contextmanager
def running(class_path: str, folder: Path, main: str, *files: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Connect or MirrorMaker; where the test fails, what it said is the reason."""
    command = ["java", *FLAGS, "-cp", class_path, f"org.apache.kafka.connect.{main}", *map(str, files)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        yield process
        process.terminate()
        process.wait(PATIENCE_S)
    except BaseException as error:
        error.add_note((folder / "log").read_text()[-8_000:])
        raise
    finally:
        process.kill()
        process.wait()


def has_all_lines(process: subprocess.Popen[bytes], path: Path) -> bool:
    assert process.poll() is None, "it ended"
    return path.exists() and path.read_text().splitlines() == LINES


@pytest.mark.proves(client="Kafka Connect", feature="standalone, TLS with certificates")
def test_a_file_goes_through_a_topic_into_another_file(class_path: str, secured: TlsListeners, tmp_path: Path) -> None:
    settings = worker(secured, MUTUAL, *free_ports(1)) | {"offset.storage.file.filename": str(tmp_path / "offsets")}
    files = [
        file_of(tmp_path / name, {"name": name, **each})
        for name, each in connectors(tmp_path, "allowed-connect").items()
    ]
    with running(
        class_path, tmp_path, "cli.ConnectStandalone", file_of(tmp_path / "worker", settings), *files
    ) as process:
        wait_until(lambda: has_all_lines(process, tmp_path / "out"), "all lines have come")


@pytest.mark.proves(client="Kafka Connect", feature="distributed and exactly once, SASL_SSL")
def test_workers_of_a_group_do_so_with_transactions(class_path: str, secured: TlsListeners, tmp_path: Path) -> None:
    (rest,) = free_ports(1)
    settings = worker(secured, SASL, rest) | REPLICATION
    settings |= {"group.id": "allowed-workers", "exactly.once.source.support": "enabled"}
    settings |= {f"{each}.storage.partitions": "1" for each in ("offset", "status")}
    settings |= {f"{each}.storage.topic": f"allowed-{each}s" for each in ("config", "offset", "status")}

    def is_taken(name: str, connector: dict[str, str]) -> bool:
        asked = Request(
            f"http://127.0.0.1:{rest}/connectors/{name}/config", json.dumps(connector).encode(), method="PUT"
        )
        asked.add_header("Content-Type", "application/json")
        try:
            with urlopen(asked, timeout=PATIENCE_S) as answer:
                return answer.status in (200, 201)
        except (URLError, ConnectionError):
            assert process.poll() is None, "it ended"
            return False

    with running(class_path, tmp_path, "cli.ConnectDistributed", file_of(tmp_path / "worker", settings)) as process:
        for name, each in connectors(tmp_path, "allowed-distributed").items():
            wait_until(partial(is_taken, name, each), f"{name} is taken")
        wait_until(lambda: has_all_lines(process, tmp_path / "out"), "all lines have come")


@pytest.mark.proves(client="MirrorMaker", feature="into a broker with SASL_SSL and ACLs")
def test_mirror_maker_copies_a_topic(class_path: str, secured: TlsListeners, tmp_path: Path) -> None:
    for topic in ("near.", "mm2-", "heartbeats"):
        secured.allow("alice", "--topic", topic, "--prefixed", "--operation", "all")
    for group in ("near-mm2", "shop"):
        secured.allow("alice", "--group", group, "--operation", "all")
    with BrokerProcess(tmp_path / "near") as near:
        producer = Producer({"bootstrap.servers": near.bootstrap})
        for line in LINES:
            producer.produce("orders", line)
        assert producer.flush(PATIENCE_S) == 0
        settings = {
            "clusters": "near, far",
            "near.bootstrap.servers": near.bootstrap,
            "far.bootstrap.servers": secured.bootstraps[SASL],
            **{f"far.{name}": value for name, value in secured.settings(SASL).items()},
            "near->far.enabled": "true",
            "near->far.topics": "orders",
            "near->far.sync.topic.acls.enabled": "false",
            "emit.heartbeats.enabled": "false",
            **REPLICATION,
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "plugin.discovery": "service_load",
        }
        with running(class_path, tmp_path, "mirror.MirrorMaker", file_of(tmp_path / "mm2", settings)) as process:
            login = {
                **secured.librdkafka(SASL),
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
            }
            consumer = Consumer({**login, "group.id": "shop"})
            consumer.subscribe(["near.orders"])
            copied: list[str] = []

            def has_copied_all() -> bool:
                assert process.poll() is None, "it ended"
                come = consumer.consume(len(LINES), 0.2)  # an error as long as there is no such topic
                copied.extend(each.value().decode() for each in come if each.error() is None)
                return len(copied) >= len(LINES)

            wait_until(has_copied_all, "all lines have come")
            assert copied == LINES
            consumer.close()


@pytest.mark.proves(client="MirrorMaker", feature="between brokers with SASL_SSL and ACLs, with the offsets of groups")
def test_a_group_goes_on_at_the_other_broker_where_mirror_maker_says_it_was(
    class_path: str, secured: TlsListeners, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    with TlsListeners(tmp_path / "source") as source:
        for kind, name in (("topic", "mm2-"), ("group", "allowed-shop")):
            source.allow("alice", f"--{kind}", name, "--prefixed", "--operation", "all")
        for kind, name in (("topic", "source."), ("topic", "mm2-"), ("group", "source-mm2")):
            secured.allow("alice", f"--{kind}", name, "--prefixed", "--operation", "all")
        producer = Producer(source.librdkafka(SASL))

        def produce(lines: list[str]) -> None:
            for line in lines:
                producer.produce("allowed-orders", line)
            assert producer.flush(PATIENCE_S) == 0

        def consume(where: TlsListeners, topic: str, count: int) -> list[str]:
            """As the group, from its offset on."""
            login = where.librdkafka(SASL)
            consumer = Consumer({**login, "group.id": "allowed-shop", "auto.offset.reset": "earliest"})
            consumer.subscribe([topic])
            found: list[str] = []
            while len(found) < count:
                come = consumer.consume(count - len(found), PATIENCE_S)
                assert come, f"{len(found)} of {count} records have come"
                assert [each.error() for each in come if each.error()] == []
                found += [each.value().decode() for each in come]
            consumer.commit(asynchronous=False)
            consumer.close()
            return found

        produce(LINES)
        assert consume(source, "allowed-orders", len(LINES)) == LINES
        settings = {
            "clusters": "source, far",
            "source.bootstrap.servers": source.bootstraps[SASL],
            "far.bootstrap.servers": secured.bootstraps[SASL],
            **{f"source.{name}": value for name, value in source.settings(SASL).items()},
            **{f"far.{name}": value for name, value in secured.settings(SASL).items()},
            "source->far.enabled": "true",
            "source->far.topics": "allowed-orders",
            "source->far.groups": "allowed-shop",
            "source->far.sync.topic.acls.enabled": "false",
            "source->far.sync.group.offsets.enabled": "true",
            "source->far.sync.group.offsets.interval.seconds": "1",
            "source->far.emit.checkpoints.interval.seconds": "1",
            "source->far.refresh.groups.interval.seconds": "1",
            "source->far.offset.lag.max": "0",
            "far.offset.flush.interval.ms": "500",
            "emit.heartbeats.enabled": "false",
            **REPLICATION,
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "plugin.discovery": "service_load",
        }
        with running(class_path, tmp_path, "mirror.MirrorMaker", file_of(tmp_path / "mm2", settings)) as process:
            watcher = Consumer({**secured.librdkafka(SASL), "group.id": "allowed-shop"})

            def is_synced() -> bool:
                assert process.poll() is None, "it ended"
                (found,) = watcher.committed([TopicPartition("source.allowed-orders", 0)], PATIENCE_S)
                return found.offset == len(LINES)

            wait_until(is_synced, "the group has its offset")
            watcher.close()
            later = [f"later {number}" for number in range(10)]
            produce(later)
            assert consume(secured, "source.allowed-orders", len(later)) == later
