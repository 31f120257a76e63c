"""Clients over TLS, known by a certificate or by SCRAM: they write, read in a group, and no more than ACLs allow.

Those of Python are in `tests/system/test_tls.py`, Java's and Spark's beside what else they do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from ottla.client import ClientOptions, Consumer, ConsumerOptions, OffsetReset, Producer
from tests.conformance.clients.face import PATIENCE_S, Record
from tests.conformance.clients.peer_programs import franz_go_program, kafkajs_program
from tests.conformance.clients.program import Program, ProgramClient, RefusedError
from tests.conformance.needed_peers import needed_peer
from tests.conformance.tls_broker import MUTUAL, PASSWORD, SASL, WAYS, TlsListeners

VALUES = [b"%d" % number * 3_000 for number in range(20)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsListeners]:
    with TlsListeners(tmp_path_factory.mktemp("tls")) as listeners:
        yield listeners


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.proves(client="confluent-kafka", feature="TLS with certificates, SASL_SSL")
def test_librdkafka_writes_and_reads_in_a_group(secured: TlsListeners, way: str) -> None:
    config = secured.librdkafka(way)
    topic = f"allowed-librdkafka-{way[0]}"
    refused: list[Any] = []
    producer = confluent_kafka.Producer(config)
    for value in VALUES:
        producer.produce(topic, value)
    producer.produce("forbidden", b"x", on_delivery=lambda error, _: refused.append(error.name()))
    assert producer.flush(PATIENCE_S) == 0
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]
    consumer = confluent_kafka.Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert [message.value() for message in consumer.consume(len(VALUES), PATIENCE_S)] == VALUES
    consumer.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.proves(client="Ottla client", feature="TLS with certificates, SASL_SSL")
async def test_our_own_client_writes_and_reads_in_a_group(secured: TlsListeners, way: str) -> None:
    key = str(secured.keys["alice"])
    own = (
        {"security_protocol": "SSL", "ssl_keystore_type": "PEM", "ssl_keystore_location": key}
        if way == MUTUAL
        else {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
        | {"sasl_username": "alice", "sasl_password": PASSWORD}
    )
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(secured.authority)}
    options = ClientOptions.of(secured.bootstraps[way], **own, **trust)
    topic = f"allowed-ottla-{way[0]}"
    async with Producer(options) as producer:
        for value in VALUES:
            await producer.send(topic, value)
    group = ConsumerOptions(group_id=topic, auto_offset_reset=OffsetReset.EARLIEST)
    read: list[bytes | None] = []
    async with Consumer(options, group) as consumer:
        consumer.subscribe([topic])
        while len(read) < len(VALUES):
            read += [each.value for each in await consumer.poll(timeout_ms=1_000)]
    assert read == VALUES


def ottla(*arguments: str, given: str = "", code: int = 0) -> str:
    """What a command says."""
    command = [sys.executable, "-m", "ottla.cli", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize("way", [MUTUAL, pytest.param(SASL, marks=pytest.mark.long)])
def test_our_commands_write_and_read_with_a_property_file(secured: TlsListeners, way: str) -> None:
    topic, config = f"allowed-commands-{way[0]}", ("--command-config", str(secured.properties(way)))
    ottla("produce", topic, *config, given="one\ntwo\n")
    assert ottla("consume", topic, "--group", topic, "--from-beginning", "--max-messages", "2", *config).split() == [
        "one",
        "two",
    ]
    assert "TOPIC_AUTHORIZATION_FAILED" in ottla("produce", "forbidden", *config, given="x\n", code=1)


class SecuredProgram(ProgramClient):
    """A program of another language, by one of the ways."""

    def __init__(self, command: tuple[str, ...], listeners: TlsListeners, way: str) -> None:
        self.program = Program(command, listeners.bootstraps[way], listeners.of_program(way))


PROGRAMS: dict[str, Callable[[], tuple[str, ...]]] = {
    "franz-go": lambda: (str(franz_go_program()),),
    "kafkajs": lambda: ("node", str(kafkajs_program())),
}


@pytest.mark.peer
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [pytest.param(each, marks=pytest.mark.proves(client=each)) for each in PROGRAMS])
@pytest.mark.proves(feature="TLS with certificates, SASL_SSL")
def test_a_client_of_another_language_writes_and_reads_in_a_group(secured: TlsListeners, name: str, way: str) -> None:
    with needed_peer():
        command = PROGRAMS[name]()
    client = SecuredProgram(command, secured, way)
    topic = f"allowed-{name}-{way[0]}"
    client.program.call("create_topic", topic=topic, count=1, configs={})
    assert client.produce(topic, [Record(0, None, value) for value in VALUES]) == list(range(len(VALUES)))
    with pytest.raises(RefusedError, match=r"(?i)authoriz"):
        client.produce("forbidden", [Record(0, None, b"x")])
    member = client.member(topic, topic, "roundrobin")
    read: list[bytes] = []
    while len(read) < len(VALUES):
        read += member.poll()
    assert read == VALUES
    member.close()
    client.close()
