"""Clients of others log in by OAUTHBEARER, with tokens that an issuer signed, and as clients did before Kafka 1.0."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.net.sasl.oauth
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
from tests.certificates import Authority
from tests.identity_provider import IdentityProvider
from tests.tokens import TokenIssuer, write_jwks

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ISSUER = TokenIssuer.rsa("of-the-test")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("tokens")
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="pencil";',
        "sasl.oauthbearer.jwks.endpoint.url": write_jwks(directory / "keys.json", ISSUER),
        "sasl.oauthbearer.expected.audience": "ottla",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:alice",
    }
    users = {"OTTLA_SCRAM_USERS": "SCRAM-SHA-512=[name=alice,password=pencil]"}
    with BrokerProcess(directory / "data", settings, protocol="SASL_PLAINTEXT", environment=users) as broker:
        yield broker


def librdkafka(broker: BrokerProcess, token: str, expires: float) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, expires),
    }


def test_librdkafka_logs_in(tokens: BrokerProcess) -> None:
    config = librdkafka(tokens, ISSUER.token(), time.time() + 3_600)
    producer = confluent_kafka.Producer(config)
    outcome: list[Any] = []
    producer.produce("of-librdkafka", b"value", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    assert outcome == [None]
    consumer = confluent_kafka.Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["of-librdkafka"])
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()


def test_librdkafka_is_told_that_its_token_is_not_believed(tokens: BrokerProcess) -> None:
    said: list[Any] = []
    stranger = TokenIssuer.rsa("of-the-test").token()
    config = {**librdkafka(tokens, stranger, time.time() + 3_600), "error_cb": said.append}
    producer = confluent_kafka.Producer(config)
    end = time.monotonic() + 60
    while not any(each.code() == confluent_kafka.KafkaError._AUTHENTICATION for each in said):
        producer.poll(0.1)
        assert time.monotonic() < end
    assert "invalid_token" in str(said)


class Provider(kafka.net.sasl.oauth.AbstractTokenProvider):
    def token(self) -> str:
        return ISSUER.token()


def test_kafka_python_logs_in(tokens: BrokerProcess) -> None:
    config = {
        "bootstrap_servers": tokens.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    producer = kafka.KafkaProducer(**config)
    producer.send("of-kafka-python", b"value").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "of-kafka-python", **config, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_of_kafka_0_11_logs_in_by_messages_without_a_header(tokens: BrokerProcess, mechanism: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=tokens.bootstrap,
        api_version=(0, 11),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password="pencil",
    )
    assert producer.send("of-kafka-0.11", b"value").get(60).topic == "of-kafka-0.11"
    producer.close()


class AioProvider(aiokafka.abc.AbstractTokenProvider):
    async def token(self) -> str:
        return ISSUER.token()


async def test_aiokafka_logs_in(tokens: BrokerProcess) -> None:
    config = {
        "bootstrap_servers": tokens.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": AioProvider(),
    }
    async with aiokafka.AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait("of-aiokafka", b"value")
    async with aiokafka.AIOKafkaConsumer("of-aiokafka", **config, auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).value == b"value"


def options(broker: BrokerProcess, **settings: Any) -> ClientOptions:
    return ClientOptions.of(broker.bootstrap, security_protocol="SASL_PLAINTEXT", **settings)


async def test_our_own_client_asks_for_a_new_token_before_the_last_one_is_over(tokens: BrokerProcess) -> None:
    for io in (AsyncioIo(), BlockingIo()):
        for _ in range(20):
            if await asks_twice_more(io, tokens):
                break
        else:
            raise AssertionError("the machine never had the time for three tokens")


async def asks_twice_more(io: AsyncioIo | BlockingIo, broker: BrokerProcess) -> bool:
    """False where something took longer than a client has to log in again: no client could have done it in time."""
    asked: list[str] = []

    def token() -> str:
        asked.append(ISSUER.token(lives_s=3))
        return asked[-1]

    made = options(broker, sasl_oauthbearer_token=token)
    answered = time.monotonic()
    try:
        connection = await io.connect(made.bootstrap[0], made)
        try:
            while len(asked) < 3:
                answered = time.monotonic()
                answer = await connection.request(ListGroupsRequest(), ListGroupsResponse, timeout_ms=60_000)
                assert answer.error_code == 0
                await asyncio.sleep(0.05)
            assert not connection.closed
        finally:
            connection.close()
    except ClientError:
        if time.monotonic() - answered < (1 - RENEWED_AT) * 2:  # a token of 3 s is good for 2 s at least
            raise
        return False
    return True


async def test_our_own_client_says_that_its_token_is_not_believed(tokens: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(ISSUER.token(aud="another") + "\n")
    made = options(tokens, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=f"file://{path}")
    for connect in (AsyncioIo().connect(made.bootstrap[0], made), BlockingIo().connect(made.bootstrap[0], made)):
        with pytest.raises(BrokerError, match=r"could not log in to \S+ by OAUTHBEARER.*invalid_token") as refused:
            await connect
        assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_our_commands_log_in_by_the_token_of_a_file(tokens: BrokerProcess, tmp_path: Path) -> None:
    token, config = tmp_path / "token", tmp_path / "client.properties"
    token.write_text(ISSUER.token())
    config.write_text(
        f"bootstrap.servers={tokens.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{token}\n"
    )
    assert run(["topic", "create", "of-commands", "--command-config", str(config)]) == 0


def test_no_token_is_in_the_log(tokens: BrokerProcess) -> None:
    log = tokens.log_path.read_text()
    assert "OAUTHBEARER" in log
    assert "eyJ" not in log


@pytest.fixture(scope="module")
def provided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IdentityProvider, BrokerProcess, Path]]:
    """A provider with a certificate of a private authority, a broker that reads its keys, and that authority."""
    directory = tmp_path_factory.mktemp("provider")
    authority = Authority()
    trusted = authority.write(directory / "ca.pem")
    key = authority.identity("provider").write_pem(directory / "key.pem")
    with IdentityProvider(ISSUER, certificate=key) as provider:
        settings = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
                f'{OAUTH} ssl.truststore.location="{trusted}" ssl.truststore.type=PEM;'
            ),
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
            "sasl.oauthbearer.expected.audience": "ottla",
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": "User:alice",
        }
        with BrokerProcess(directory / "data", settings, protocol="SASL_PLAINTEXT") as broker:
            yield provider, broker, trusted


def test_our_commands_ask_a_provider_for_tokens(
    provided: tuple[IdentityProvider, BrokerProcess, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, broker, trusted = provided
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.url}/token\n"
        f'sasl.jaas.config={OAUTH} clientId="alice" clientSecret="s3cret" scope="topics" '
        f'ssl.truststore.location="{trusted}";\n'
    )
    command = ["topic", "create", "of-ottla", "-b", broker.bootstrap, "--command-config", str(properties)]
    assert run(command) == 0
    assert provider.asked[-1]["scope"] == "topics"
    wrong = ["-X", "sasl.oauthbearer.client.credentials.client.secret=guess"]
    assert run([*command, *wrong]) == 1
    said = capsys.readouterr().err
    assert "status 401, invalid_client" in said
    assert "guess" not in said


def test_librdkafka_asks_a_provider_for_tokens(provided: tuple[IdentityProvider, BrokerProcess, Path]) -> None:
    provider, broker, trusted = provided
    admin = confluent_kafka.admin.AdminClient(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": "s3cret",
            "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
            "https.ca.location": str(trusted),
        }
    )
    assert admin.list_topics(timeout=60).brokers


async def test_a_client_asks_for_another_token_before_its_session_ends(
    provided: tuple[IdentityProvider, BrokerProcess, Path],
) -> None:
    """Sessions last as long as tokens, and a token is as good as its session: the renewal takes a new one."""
    provider, broker, trusted = provided
    provider.claims = {"exp": int(time.time()) + 4}
    options = ClientOptions.of(
        broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_oauthbearer_token_endpoint_url=f"{provider.url}/token",
        sasl_oauthbearer_scope="renewed",
        sasl_jaas_config=f'{OAUTH} clientId=alice clientSecret=s3cret ssl.truststore.location="{trusted}";',
    )
    connection = await AsyncioIo().connect(options.bootstrap[0], options)
    provider.claims = {}
    async with asyncio.timeout(60):
        while [each.get("scope") for each in provider.asked].count("renewed") < 2:  # noqa: ASYNC110 (it knows no events)
            await asyncio.sleep(0.05)
    await connection.request(ListGroupsRequest(), ListGroupsResponse, timeout_ms=60_000)
    connection.close()
