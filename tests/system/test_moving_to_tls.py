"""A cluster that runs without any security is moved to TLS, users and ACLs, as docs/security.md says, under load."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.cli.main import run
from tests.certificates import Authority
from tests.cluster import Cluster, wait_until
from tools.ports import free_ports

pytestmark = pytest.mark.long

USERS = {"admin": "root", "anna": "pencil"}

REFUSALS = frozenset(
    (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
    )
)


class Writer:
    """Writes to a topic with acks=all for as long as it is entered, and knows what failed."""

    def __init__(self, topic: str, config: dict[str, str | bool | int], first: int = 0) -> None:
        self._topic = topic
        self.next = first
        """What is written next: numbers."""
        self._producer = Producer({"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0, **config})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.failed: list[str] = []
        self.acknowledged = 0

    def _write(self) -> None:
        while not self._stop.wait(0.002):
            self._producer.produce(self._topic, b"%d" % self.next, on_delivery=self._told)
            self._producer.poll(0)
            self.next += 1

    def _told(self, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more; returns when all is acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def wait_for_more(self) -> None:
        """Until what is written now is acknowledged."""
        before = self.acknowledged
        wait_until(lambda: self.acknowledged > before, "another acknowledged record")


class Readers:
    """Two members of a consumer group that read a topic for as long as they are entered, and commit what they read."""

    def __init__(self, topic: str, config: dict[str, str | bool | int]) -> None:
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
        self._consumers = [Consumer({**config, **settings, "group.id": "g"}) for _ in range(2)]
        self._topic = topic
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(each,)) for each in self._consumers]
        self.values: list[int] = []
        self.failed: list[str] = []

    def _read(self, consumer: Consumer) -> None:
        consumer.subscribe([self._topic], on_revoke=self._revoked)
        while not self._stop.is_set():
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    self.values.append(int(message.value()))
                elif error.fatal() or error.code() in REFUSALS:
                    self.failed.append(str(error))
            self._commit(consumer)
        self._commit(consumer)
        consumer.close()

    @staticmethod
    def _commit(consumer: Consumer) -> None:
        with suppress(KafkaException):  # tried again with the next one; what was read twice by then is no fault
            consumer.commit(asynchronous=False)

    def _revoked(self, consumer: Consumer, _partitions: object) -> None:
        self._commit(consumer)

    def __enter__(self) -> Readers:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def wait_for_more(self) -> None:
        """Until something is read that was not yet."""
        before = len(set(self.values))
        wait_until(lambda: len(set(self.values)) > before, "another record at a consumer")


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

    def add_users(self, *how: str) -> None:
        for user, password in USERS.items():
            secret = self.directory / "password"
            secret.write_text(password)
            assert run(["user", "add", user, "--password-file", str(secret), *how]) == 0

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
    plain: dict[str, str | bool | int] = {"bootstrap.servers": moved.bootstrap}
    with Readers("orders", plain) as before, Writer("orders", plain) as old:
        old.wait_for_more()
        moved.listen("PLAINTEXT", "SASL_SSL")
        moved.set(ssl_keystore_type="PEM", ssl_keystore_location=str(moved.key))
        moved.set(ssl_truststore_type="PEM", ssl_truststore_location=str(moved.ca))
        moved.restart()
        moved.add_users("-b", moved.bootstrap)
        moved.set(inter_broker_listener_name="SASL_SSL")
        moved.restart()
        old.wait_for_more()
        before.wait_for_more()
    with (
        Readers("orders", moved.librdkafka("anna")) as after,
        Writer("orders", moved.librdkafka("anna"), old.next) as new,
    ):
        new.wait_for_more()
        moved.admin = ("--command-config", moved.config("admin"))
        moved.set(authorizer_class_name="StandardAuthorizer", super_users="User:admin")
        moved.set(allow_everyone_if_no_acl_found="true")
        moved.restart()
        allow = ["acl", "add", "--principal", "User:anna"]
        assert run([*allow, "--group", "g", "--operation", "read", *moved.admin]) == 0
        assert run([*allow, "--topic", "orders", "--producer", "--consumer", *moved.admin]) == 0
        moved.listen("SASL_SSL")
        moved.set(allow_everyone_if_no_acl_found="false")
        moved.restart()
        new.wait_for_more()
        after.wait_for_more()
        assert (old.failed, new.failed, before.failed, after.failed) == ([], [], [], [])
        new.stop()
        written = set(range(new.next))
        wait_until(lambda: {*before.values, *after.values} == written, "all that was written at a consumer")
    # The group goes on where it was: what the members of before have committed is not read again by those of after.
    assert min(after.values) > 0


def test_the_authority_the_keys_and_the_secret_of_a_secured_cluster_are_exchanged_under_load(moved: Moved) -> None:
    moved.cluster.create_topic("orders", partitions=3)
    moved.add_users("-b", moved.bootstrap)
    moved.admin = ("--command-config", moved.config("admin"))
    moved.listen("SASL_SSL")
    moved.set(ssl_keystore_type="PEM", ssl_keystore_location=str(moved.key), ssl_truststore_type="PEM")
    moved.set(ssl_truststore_location=str(moved.ca))
    for broker in moved.cluster.brokers.values():
        assert broker.stop() == 0
    moved.cluster.start()
    wait_until(moved.in_sync, "all replicas in sync")
    other = Authority("another")
    both = moved.directory / "both.pem"  # clients believe both before brokers do
    both.write_text(moved.ca.read_text() + other.certificate_pem)
    anna = {**moved.librdkafka("anna"), "ssl.ca.location": str(both)}
    with Readers("orders", anna) as readers:
        with Writer("orders", anna) as writer:
            writer.wait_for_more()
            readers.wait_for_more()
            moved.ca.write_text(moved.ca.read_text() + other.certificate_pem)
            moved.restart()  # all believe both
            other.identity("broker").write_pem(moved.key)
            moved.restart()
            writer.wait_for_more()
            readers.wait_for_more()
            for step in (
                {"cluster_secret_accepted": "the secret from now on"},
                {"cluster_secret": "the secret from now on", "cluster_secret_accepted": "stored"},
            ):
                moved.set(**step)
                moved.restart()
            for broker in moved.cluster.brokers.values():
                del broker.settings["cluster.secret.accepted"]
            moved.restart()
            writer.wait_for_more()
            readers.wait_for_more()
            assert (writer.failed, readers.failed) == ([], [])
        written = set(range(writer.next))
        wait_until(lambda: set(readers.values) == written, "all that was written at a consumer")
