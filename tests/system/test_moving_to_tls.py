"""A cluster that runs without any security is moved to TLS, users and ACLs, as docs/security.md says, under load."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from ottla.cli.main import run
from tests.certificates import Authority
from tests.cluster import Cluster, wait_until
from tools.ports import free_ports

pytestmark = pytest.mark.long

USERS = {"admin": "root", "anna": "pencil"}


class Writer:
    """Writes to a topic with acks=all for as long as it is entered, and knows what failed."""

    def __init__(self, topic: str, config: dict[str, str | bool | int]) -> None:
        self._topic = topic
        self._producer = Producer({"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0, **config})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.failed: list[str] = []
        self.acknowledged = 0

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(0.002):
            self._producer.produce(self._topic, b"%d" % number, on_delivery=self._told)
            self._producer.poll(0)
            number += 1

    def _told(self, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def wait_for_more(self) -> None:
        """Until what is written now is acknowledged."""
        before = self.acknowledged
        wait_until(lambda: self.acknowledged > before, "another acknowledged record")


class Moved:
    """Three brokers whose settings change one restart after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        authority = Authority()
        self.ca = authority.write(directory / "ca.pem")
        self.key = authority.identity("broker").write_pem(directory / "broker.pem")
        self.cluster = Cluster(directory, 3)
        self.ports = {number: free_ports(2) for number in self.cluster.brokers}
        for broker in self.cluster.brokers.values():
            broker.protocol = "SASL_SSL"  # whatever `listeners` says comes after it

    def listen(self, *protocols: str) -> None:
        """Have the next start of each broker listen so: PLAINTEXT at its first port, SASL_SSL at its second."""
        for number, broker in self.cluster.brokers.items():
            plain, secure = self.ports[number]
            where = {"PLAINTEXT": plain, "SASL_SSL": secure}
            broker.port = where[protocols[0]]
            broker.settings["listeners"] = ",".join(f"{each}://127.0.0.1:{where[each]}" for each in protocols)

    def set(self, **settings: str) -> None:
        """Settings of the next start; keys are written with `_` for `.`."""
        for broker in self.cluster.brokers.values():
            broker.settings |= {name.replace("_", "."): value for name, value in settings.items()}

    def restart(self) -> None:
        """One broker after the other, each when the one before it is in sync again."""
        for broker in self.cluster.brokers.values():
            assert broker.stop() == 0
            broker.start()
            wait_until(lambda: self.in_sync(), "all replicas in sync")

    def in_sync(self) -> bool:
        code = run(["cluster", "status", "--json", *self.admin])
        return code == 0

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{plain}" for plain, _ in self.ports.values())

    @property
    def secure_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{secure}" for _, secure in self.ports.values())

    def config(self, user: str) -> str:
        """The file of a user's settings."""
        path = self.directory / f"{user}.properties"
        path.write_text(
            f"bootstrap.servers={self.secure_bootstrap}\nsecurity.protocol=SASL_SSL\n"
            f"sasl.username={user}\nsasl.password={USERS[user]}\nssl.truststore.location={self.ca}\n"
        )
        return str(path)

    def librdkafka(self, user: str) -> dict[str, str | bool | int]:
        return {
            "bootstrap.servers": self.secure_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": USERS[user],
            "ssl.ca.location": str(self.ca),
        }

    admin: tuple[str, ...] = ()


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Moved]:
    made = Moved(tmp_path)
    made.listen("PLAINTEXT")
    made.admin = ("-b", made.bootstrap)
    with made.cluster:
        made.cluster.wait_until_registered()
        yield made


def test_a_running_cluster_is_moved_to_tls_users_and_acls_without_a_failed_write(moved: Moved) -> None:
    moved.cluster.create_topic("orders", partitions=3)
    with Writer("orders", {"bootstrap.servers": moved.bootstrap}) as old:
        old.wait_for_more()
        moved.listen("PLAINTEXT", "SASL_SSL")
        moved.set(ssl_keystore_type="PEM", ssl_keystore_location=str(moved.key))
        moved.set(ssl_truststore_type="PEM", ssl_truststore_location=str(moved.ca))
        moved.restart()
        for user, password in USERS.items():
            secret = moved.directory / "password"
            secret.write_text(password)
            assert run(["user", "add", user, "--password-file", str(secret), "-b", moved.bootstrap]) == 0
        moved.set(inter_broker_listener_name="SASL_SSL")
        moved.restart()
        old.wait_for_more()
    with Writer("orders", moved.librdkafka("anna")) as new:
        new.wait_for_more()
        moved.admin = ("--command-config", moved.config("admin"))
        moved.set(authorizer_class_name="StandardAuthorizer", super_users="User:admin")
        moved.set(allow_everyone_if_no_acl_found="true")
        moved.restart()
        allow = ["acl", "add", "--principal", "User:anna", "--topic", "orders", "--producer", "--consumer"]
        assert run([*allow, *moved.admin]) == 0
        assert run(["acl", "add", "--principal", "User:anna", "--group", "g", "--operation", "read", *moved.admin]) == 0
        moved.listen("SASL_SSL")
        moved.set(allow_everyone_if_no_acl_found="false")
        moved.restart()
        new.wait_for_more()
    assert (old.failed, new.failed) == ([], [])
    consumer = Consumer({**moved.librdkafka("anna"), "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition("orders", partition, OFFSET_BEGINNING) for partition in range(3)])
    wanted = old.acknowledged + new.acknowledged
    read = 0
    while read < wanted:
        found = consumer.consume(10_000, 60)
        assert found, f"{read} records of {wanted} are there"
        assert [each.error() for each in found if each.error()] == []
        read += len(found)
    consumer.close()
    assert read == wanted
