"""Clients log in, and do what ACLs let them do: those of Python, librdkafka's, Ottla's own and its commands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

from ottla.cli.main import run
from ottla.client.errors import BrokerError, ClientError
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.blocking_io import BlockingIo
from ottla.client.io.login import RENEWED_AT
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.broker_process import BrokerProcess

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SESSION_MS = 1_200
DAY_MS = 86_400_000
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_admin="root" user_plain="secret";',
    "listener.name.sasl_plaintext.connections.max.reauth.ms": str(SESSION_MS),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "the key of the test",
}
USERS = {"PLAIN": "plain", "SCRAM-SHA-256": "short", "SCRAM-SHA-512": "long"}
LINES = "SCRAM-SHA-256=[name=short,password=secret]\nSCRAM-SHA-512=[name=long,password=secret]"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("secured")
    broker = BrokerProcess(
        directory / "data", SETTINGS, protocol="SASL_PLAINTEXT", environment={"OTTLA_SCRAM_USERS": LINES}
    )
    with broker:
        (directory / "admin.properties").write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nbootstrap.servers={broker.bootstrap}\n"
            f'sasl.jaas.config={JAAS} username="admin" password="root";\n'
        )
        command = ("acl", "add", "--topic", "allowed-", "--prefixed", "--operation", "all")
        assert "User:long" in ottla(broker, *command, *(f"--principal=User:{user}" for user in USERS.values()))
        assert "User:*" in ottla(broker, "acl", "add", "--principal=User:*", "--group=*", "--operation=read")
        yield broker


def ottla(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """What the command says to an administrator."""
    config = ("--command-config", str(broker.data_dir.parent / "admin.properties"))
    said, complained = StringIO(), StringIO()
    with redirect_stdout(said), redirect_stderr(complained):
        assert run([*arguments, *config]) == code, complained.getvalue()
    return said.getvalue() + complained.getvalue()


def round_of_librdkafka(bootstrap: str, mechanism: str, topic: str) -> list[bytes]:
    config = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USERS[mechanism],
        "sasl.password": "secret",
    }
    producer = confluent_kafka.Producer({**config, "message.timeout.ms": 60_000})
    outcome: list[Any] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    if not outcome or outcome[0] is not None:
        raise PermissionError(outcome[0].name() if outcome else "no answer")
    consumer = confluent_kafka.Consumer({**config, "group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    consumer.close()
    return [message.value()]


def round_of_kafka_python(bootstrap: str, mechanism: str, topic: str) -> list[bytes]:
    config = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USERS[mechanism],
        "sasl_plain_password": "secret",
    }
    producer = kafka.KafkaProducer(**config)
    producer.send(topic, b"value").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **config, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    found = [next(consumer).value]
    consumer.close()
    return found


ROUNDS: list[Callable[[str, str, str], list[bytes]]] = [round_of_librdkafka, round_of_kafka_python]


@pytest.mark.parametrize("mechanism", USERS)
@pytest.mark.parametrize("round_of", ROUNDS)
def test_a_client_logs_in_and_does_what_it_may(
    secured: BrokerProcess, round_of: Callable[[str, str, str], list[bytes]], mechanism: str
) -> None:
    topic = f"allowed-{round_of.__name__}-{mechanism.lower()}"
    assert round_of(secured.bootstrap, mechanism, topic) == [b"value"]


def test_and_nothing_else(secured: BrokerProcess) -> None:
    with pytest.raises(PermissionError, match="TOPIC_AUTHORIZATION_FAILED"):
        round_of_librdkafka(secured.bootstrap, "SCRAM-SHA-512", "forbidden")


async def test_aiokafka_logs_in(secured: BrokerProcess) -> None:
    config = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "long",
        "sasl_plain_password": "secret",
    }
    async with aiokafka.AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait("allowed-aiokafka", b"value")
    async with aiokafka.AIOKafkaConsumer("allowed-aiokafka", **config, auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).value == b"value"


def options(broker: BrokerProcess, mechanism: str, password: str = "secret") -> ClientOptions:
    return ClientOptions.of(
        broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username=USERS[mechanism],
        sasl_password=password,
    )


async def test_our_own_client_stays_logged_in_for_longer_than_a_session(secured: BrokerProcess) -> None:
    made = options(secured, "SCRAM-SHA-256")
    for io in (AsyncioIo(), BlockingIo()):
        for _ in range(40):
            if await outlives_two_sessions(io, made):
                break
        else:
            raise AssertionError("the machine never had the time for two sessions")


async def outlives_two_sessions(io: AsyncioIo | BlockingIo, made: ClientOptions) -> bool:
    """False where one request took longer than a client has to log in again: no client could have done it in time."""
    connection = await io.connect(made.bootstrap[0], made)
    begun = answered = time.monotonic()
    try:
        while answered - begun < 2.2 * SESSION_MS / 1_000:
            answer = await connection.request(ListGroupsRequest(), ListGroupsResponse, timeout_ms=60_000)
            assert answer.error_code == 0
            answered = time.monotonic()
        assert not connection.closed
    except ClientError:
        if time.monotonic() - answered < (1 - RENEWED_AT) * SESSION_MS / 1_000:
            raise
        return False
    finally:
        connection.close()
    return True


async def test_our_own_client_says_why_it_could_not_log_in(secured: BrokerProcess) -> None:
    made = options(secured, "SCRAM-SHA-512", "wrong")
    for connect in (AsyncioIo().connect(made.bootstrap[0], made), BlockingIo().connect(made.bootstrap[0], made)):
        with pytest.raises(BrokerError, match=r"could not log in to .* as 'long'") as refused:
            await connect
        assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_users_and_acls_are_changed_by_the_commands(secured: BrokerProcess, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("pencil\n")
    assert "added anna" in ottla(secured, "user", "add", "anna", "--password-file", str(password))
    assert "already" in ottla(secured, "user", "add", "anna", "--password-file", str(password), code=1)
    assert "anna" in ottla(secured, "user", "list")
    ottla(secured, "acl", "add", "--principal", "User:anna", "--topic", "orders", "--operation", "read")
    assert "orders" in ottla(secured, "acl", "list", "--principal", "User:anna")
    assert "orders" in ottla(secured, "acl", "remove", "--principal", "User:anna")
    ottla(secured, "acl", "remove", "--principal", "User:anna", code=4)
    assert "removed anna" in ottla(secured, "user", "remove", "anna")
    ottla(secured, "user", "remove", "anna", code=4)


def test_delegation_tokens_are_made_shown_renewed_and_ended_by_the_commands(
    secured: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = json.loads(
        ottla(secured, "token", "create", "--owner=User:long", "--renewer=User:admin", "--lifetime=2d", "--json")
    )
    assert (made["owner"], made["renewers"]) == ("User:long", ["User:admin"])
    assert made["max_ms"] - made["issued_ms"] == 2 * DAY_MS
    properties = tmp_path / "token.properties"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    properties.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nbootstrap.servers={secured.bootstrap}\n"
        f'sasl.jaas.config={scram} username="{made["token"]}" password="{made["secret"]}" tokenauth="true";\n'
    )
    assert run(["topic", "create", "allowed-by-token", "--command-config", str(properties)]) == 0
    listed = ottla(secured, "token", "list", "--owner=User:long", "--json")
    assert [each["token"] for each in json.loads(listed)] == [made["token"]]
    assert made["secret"] not in listed + ottla(secured, "token", "list")
    assert json.loads(ottla(secured, "token", "list", "--owner=User:nobody", "--json")) == []
    renewed = json.loads(ottla(secured, "token", "renew", made["token"], "--for=1h", "--json"))
    assert made["issued_ms"] < renewed["expires_ms"] < made["expires_ms"]
    assert made["token"] in ottla(secured, "token", "expire", made["token"])
    assert "no token" in ottla(secured, "token", "renew", made["token"], code=4)
    assert run(["topic", "list", "--command-config", str(properties)]) == 1
    assert "invalid credentials" in capsys.readouterr().err
    assert "not TYPE:NAME" in ottla(secured, "token", "create", "--owner=long", code=2)
    assert "not a duration" in ottla(secured, "token", "create", "--lifetime=soon", code=2)


def test_what_was_denied_and_changed_is_in_the_log_and_no_password_is(secured: BrokerProcess) -> None:
    log = secured.log_path.read_text()
    assert "audit: User:admin from 127.0.0.1 added the ACL User:long from * ALLOW ALL TOPIC allowed- (PREFIXED)" in log
    assert "secret" not in log
    assert "pencil" not in log
