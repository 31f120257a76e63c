"""TLS as people use it: settings written for Kafka, clients of others, keys that change while the broker runs."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from cryptography import x509
from kafka import KafkaConsumer, KafkaProducer

from ottla.client.blocking import BlockingClient
from ottla.client.errors import BrokerUnreachableError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from tests.broker_process import READY
from tests.certificates import Authority
from tests.cluster import wait_until
from tests.conformance.needed_peers import needed_peer
from tools.peers import java_class_path
from tools.ports import free_ports

PASSWORD = "secret1"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class TlsBroker:
    """`ottla serve` with a property file."""

    def __init__(self, directory: Path, settings: dict[str, str], metadata: str | None = None) -> None:
        directory.mkdir()
        self.log_path = directory / "log"
        properties = directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [sys.executable, "-m", "ottla.cli", "serve", "--config", str(properties)]
        command += ["--data", str(directory / "data")] + ([] if metadata is None else ["--metadata", metadata])
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def wait_until_ready(self) -> TlsBroker:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert READY.search(line), line + self.log_path.read_text()
        return self

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Secured:
    """One broker with a listener of each kind, and the files that its clients need."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.ca = self.authority.write(directory / "ca.pem")
        self.key = self.authority.identity("broker").write_pem(directory / "broker.pem")
        self.pkcs12 = self.authority.identity("broker").write_pkcs12(directory / "broker.p12", PASSWORD)
        for name in ("alice", "bob"):
            self.authority.identity(name).write_pem(directory / f"{name}.pem")
        plain, self.port, self.mutual_port, sasl_port = free_ports(4)
        self.plain, self.bootstrap = f"127.0.0.1:{plain}", f"localhost:{self.port}"
        self.mutual = f"localhost:{self.mutual_port}"
        self.sasl = f"localhost:{sasl_port}"
        self.broker = TlsBroker(
            directory / "broker",
            {
                "listeners": (
                    f"PLAINTEXT://{self.plain},SSL://:{self.port},MUTUAL://:{self.mutual_port},SASL_SSL://:{sasl_port}"
                ),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL,SASL_SSL:SASL_SSL",
                "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_alice="{PASSWORD}";',
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:alice",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.pkcs12),
                "ssl.keystore.password": PASSWORD,
                "listener.name.ssl.ssl.keystore.type": "PEM",
                "listener.name.ssl.ssl.keystore.location": str(self.key),
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.truststore.type": "PEM",
                "listener.name.mutual.ssl.truststore.location": str(self.ca),
                "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/L,DEFAULT",
            },
        ).wait_until_ready()

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        common = {"bootstrap.servers": self.bootstrap, "security.protocol": "SSL", "ssl.ca.location": str(self.ca)}
        return {**common, "log_level": 0, **more}

    def mutually(self, name: str) -> dict[str, Any]:
        path = str(self.directory / f"{name}.pem")
        return self.librdkafka(
            **{"bootstrap.servers": self.mutual, "ssl.certificate.location": path, "ssl.key.location": path}
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tls"))
    yield made
    made.broker.stop()


VALUES = [b"%d " % number * 3_000 for number in range(20)]


def test_librdkafka_writes_and_reads(secured: Secured):
    producer = Producer(secured.librdkafka())
    for value in VALUES:
        producer.produce("librdkafka", value)
    assert producer.flush(60) == 0
    consumer = Consumer(secured.librdkafka(**{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["librdkafka"])
    read = [message.value() for message in consumer.consume(len(VALUES), 60)]
    consumer.close()
    assert read == VALUES


def test_librdkafka_logs_in_over_tls(secured: Secured):
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": PASSWORD}
    over = {"bootstrap.servers": secured.sasl, "security.protocol": "SASL_SSL", **login}
    producer = Producer(secured.librdkafka(**over))
    outcome: list[Any] = []
    producer.produce("over-tls", b"value", on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(60) == 0
    assert outcome == [None]


WAYS = ("SSL", "MUTUAL", "SASL_SSL")


def of_python(secured: Secured, way: str, names: dict[str, str]) -> dict[str, Any]:
    """The options of clients that name their options alike; `names` are those of the login."""
    where = {"SSL": secured.bootstrap, "MUTUAL": secured.mutual, "SASL_SSL": secured.sasl}[way]
    options = {"bootstrap_servers": where, "security_protocol": "SASL_SSL" if way == "SASL_SSL" else "SSL"}
    return {**options, **(names if way == "SASL_SSL" else {})}


LOGIN = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}


@pytest.mark.parametrize("way", WAYS)
def test_kafka_python_writes_and_reads(secured: Secured, way: str):
    alice = str(secured.directory / "alice.pem")
    files = {
        "ssl_cafile": str(secured.ca),
        **({"ssl_certfile": alice, "ssl_keyfile": alice} if way == "MUTUAL" else {}),
    }
    options = {**of_python(secured, way, LOGIN), **files}
    topic = f"kafka-python-{way}"
    producer = KafkaProducer(**options)
    for value in VALUES:
        producer.send(topic, value).get(60)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **options)
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


@pytest.mark.parametrize("way", WAYS)
async def test_aiokafka_writes_and_reads(secured: Secured, way: str):
    alice = str(secured.directory / "alice.pem") if way == "MUTUAL" else None
    context = create_ssl_context(cafile=str(secured.ca), certfile=alice, keyfile=alice)
    options = {**of_python(secured, way, LOGIN), "ssl_context": context}
    topic = f"aiokafka-{way}"
    async with AIOKafkaProducer(**options) as producer:
        for value in VALUES:
            await producer.send_and_wait(topic, value)
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **options) as consumer:
        async with asyncio.timeout(60):
            assert [(await consumer.getone()).value for _ in VALUES] == VALUES


def ours(secured: Secured, **more: str) -> dict[str, str]:
    return {"security_protocol": "SSL", "ssl_truststore_location": str(secured.ca), **more}


def test_our_own_clients_and_the_command_line_write_and_read(secured: Secured):
    with BlockingClient(secured.bootstrap, **ours(secured)) as client:
        assert [each.address.port for each in client.cluster().brokers.values()] == [secured.port]

    async def connected() -> bool:
        cluster = Cluster(ClientOptions.of(secured.bootstrap, **ours(secured)), AsyncioIo())
        try:
            await cluster.connect()
            return True
        finally:
            cluster.close()

    assert asyncio.run(connected())
    properties = secured.directory / "client.properties"
    properties.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={secured.ca}\n"
        "ssl.trustmanager.algorithm=PKIX\n"
    )
    command = [sys.executable, "-m", "ottla.cli"]
    there = ["-b", secured.bootstrap, "--command-config", str(properties)]
    subprocess.run([*command, "produce", "cli", *there], input="one\ntwo\n", text=True, check=True, timeout=60)
    read = subprocess.run(
        [*command, "consume", "cli", "--exit", *there], capture_output=True, text=True, check=True, timeout=60
    )
    assert read.stdout.split() == ["one", "two"]
    assert "ignored" not in read.stderr


def test_a_client_may_do_what_the_name_in_its_certificate_may(secured: Secured):
    alice, bob = AdminClient(secured.mutually("alice")), AdminClient(secured.mutually("bob"))
    assert alice.create_topics([NewTopic("alices", 1, 1)])["alices"].result(60) is None
    with pytest.raises(KafkaException) as refused:
        bob.create_topics([NewTopic("bobs", 1, 1)])["bobs"].result(60)
    denied = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    assert refused.value.args[0].code() in denied


@pytest.mark.parametrize("client", ["blocking", "asyncio"])
@pytest.mark.parametrize(
    ("port", "options", "said"),
    [
        ("port", {"security_protocol": "PLAINTEXT"}, "is its listener one of this security.protocol"),
        ("plain", {"security_protocol": "SSL"}, "is it a listener with TLS, or"),
        ("port", {"security_protocol": "SSL"}, "its certificate is not believed"),
        ("mutual_port", {}, r"ssl\.keystore\.location"),
    ],
)
def test_what_is_wrong_is_said_to_the_client(secured: Secured, client: str, port: str, options: Any, said: str):
    where = secured.plain if port == "plain" else f"localhost:{getattr(secured, port)}"
    given = {**(options or ours(secured)), "api_timeout_ms": 10_000}

    async def connect() -> None:
        cluster = Cluster(ClientOptions.of(where, **given), AsyncioIo())
        try:
            await cluster.connect()
        finally:
            cluster.close()

    def connect_blocking() -> None:
        with BlockingClient(where, **given) as blocking:
            blocking.cluster()

    with pytest.raises(BrokerUnreachableError, match=said):
        asyncio.run(connect()) if client == "asyncio" else connect_blocking()


@pytest.mark.peer
@pytest.mark.parametrize("way", [pytest.param("MUTUAL"), pytest.param("SASL_SSL", marks=pytest.mark.long)])
def test_a_tool_of_kafka_is_known_by_its_certificate_or_its_password(secured: Secured, way: str):
    with needed_peer():
        class_path = java_class_path()
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={secured.ca}\n"
    where, lines = secured.mutual, f"ssl.keystore.type=PEM\nssl.keystore.location={secured.directory}/alice.pem\n"
    if way == "SASL_SSL":
        line = f'{PLAIN} required username="alice" password="{PASSWORD}";'
        where, lines = secured.sasl, f"sasl.mechanism=PLAIN\nsasl.jaas.config={line}\n"
    properties = secured.directory / "java.properties"
    properties.write_text(f"security.protocol={'SASL_SSL' if way == 'SASL_SSL' else 'SSL'}\n{trust}{lines}")
    tool = ["java", "-cp", class_path, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", where]
    done = subprocess.run(
        [*tool, "--command-config", str(properties), "--create", "--topic", f"of-java-{way}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert f"Created topic of-java-{way}." in done.stdout, done.stdout + done.stderr


def shown_number(secured: Secured, port: int) -> int:
    """The serial number of the certificate that a listener shows now."""
    pem = ssl.get_server_certificate(("localhost", port), timeout=60)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_keys_are_exchanged_while_the_broker_runs(secured: Secured):
    new = secured.authority.identity("broker")
    new.write_pem(secured.key)
    wait_until(lambda: shown_number(secured, secured.port) == new.certificate.serial_number, "the file is read again")

    other = secured.authority.identity("broker")
    path = other.write_pem(secured.directory / "other.pem")
    admin = AdminClient(secured.librdkafka())

    def alter(location: Path) -> None:
        name = "listener.name.ssl.ssl.keystore.location"
        entry = ConfigEntry(name, str(location), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)

    with pytest.raises(KafkaException, match=f"{secured.directory}/none.pem: No such file") as refused:
        alter(secured.directory / "none.pem")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    alter(path)
    wait_until(lambda: shown_number(secured, secured.port) == other.certificate.serial_number, "the setting is used")
    resource = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([resource])[resource].result(60)
    assert described["listener.name.ssl.ssl.keystore.location"].value == str(path)
    assert described["ssl.keystore.password"].value is None
    assert PASSWORD not in secured.broker.log_path.read_text()


@pytest.mark.slow
def test_brokers_speak_tls_to_each_other_and_show_their_certificates(tmp_path: Path):
    authority = Authority()
    ca = authority.write(tmp_path / "ca.pem")
    ports = free_ports(4)
    brokers = []
    for number in (0, 1):
        key = authority.identity(f"broker-{number}").write_pem(tmp_path / f"{number}.pem")
        settings = {
            "node.id": str(number + 1),
            "listeners": f"SSL://127.0.0.1:{ports[number]},BROKERS://127.0.0.1:{ports[2 + number]}",
            "listener.security.protocol.map": "SSL:SSL,BROKERS:SSL",
            "inter.broker.listener.name": "BROKERS",
            "listener.name.brokers.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
        }
        brokers.append(TlsBroker(tmp_path / f"broker-{number}", settings, f"embedded:{tmp_path / 'metadata'}"))
    try:
        for broker in brokers:
            broker.wait_until_ready()
        common = {"security.protocol": "SSL", "ssl.ca.location": str(ca), "log_level": 0}
        options = {"bootstrap.servers": f"127.0.0.1:{ports[0]}", **common}
        admin = AdminClient(options)
        wait_until(lambda: len(admin.list_topics(timeout=60).brokers) == 2, "both brokers are known")
        admin.create_topics([NewTopic("t", 2, 2, config={"min.insync.replicas": "2"})])["t"].result(60)
        producer = Producer({**options, "acks": "all"})
        errors: list[object] = []
        for number in range(200):
            producer.produce("t", b"x" * 1_000, partition=number % 2, callback=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        assert set(errors) == {None}
        assert len(errors) == 200
    finally:
        for broker in brokers:
            broker.stop()
