"""A broker's gateway and another broker's channels over loopback: who proves what, and what strangers are told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.address import Address
from ottla.client.errors import ConnectionLostError, UnsupportedApiError
from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.gateways.kafka import api_17_sasl_handshake, api_18_api_versions, api_36_sasl_authenticate
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.network.connection import Connection
from ottla.network.task_gate import TaskGate
from ottla.peers.authentication import BrokerAuthentication
from ottla.peers.authenticator import PeerAuthenticator
from ottla.peers.broker_channels import BrokerChannels
from ottla.peers.cluster_secret import MECHANISM, BrokerIdentity
from ottla.peers.errors import NotProvenError
from ottla.peers.peer_sockets import PeerSockets
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.runtime.clock import SystemClock
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.network.peers import opened, until

SECRET = b"what the brokers of a cluster know"


class Brokers:
    """Broker 2 with its gateway, and broker 1 with channels to it."""

    def __init__(self, gateway: KafkaGateway, address: Address, tasks: Tasks) -> None:
        self.gateway = gateway
        self.address = address
        self.tasks = tasks
        self.asked: list[str] = []

    async def ask(
        self, *, secret: bytes = SECRET, cluster: str = "abc", broker_id: int = 1
    ) -> AllocateProducerIdsResponse:
        """What a broker is answered."""
        timer, rng = ManualTimer(), SeededRng(3)
        channels = BrokerChannels(
            broker_id,
            "default",
            PeerSockets(),
            clock=SystemClock(),
            rng=rng,
            timer=timer,
            tasks=self.tasks,
            authentication=BrokerAuthentication(lambda: BrokerIdentity(broker_id, cluster, secret), rng, self.tasks),
        )
        channels.on_image(MetadataImage(cluster, brokers={2: BrokerImage(2, 1, *self.address, None)}))
        try:
            return await channels.request(
                2, AllocateProducerIdsRequest(broker_id=broker_id), AllocateProducerIdsResponse, timeout_ms=60_000
            )
        finally:
            channels.close()

    @asynccontextmanager
    async def stranger(self) -> AsyncIterator[AsyncioConnection]:
        """A client's connection to broker 2."""
        connection = await AsyncioIo().connect(self.address, ClientOptions((self.address,)))
        yield connection
        connection.close()


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    tasks = Tasks()
    asked: list[str] = []

    async def allocate(ctx: RequestContext, _request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        asked.append(str(ctx.principal))
        return AllocateProducerIdsResponse(producer_id_start=5, producer_id_len=1)

    apis = ApiTable.of(
        (
            api_17_sasl_handshake.API,
            api_18_api_versions.API,
            api_36_sasl_authenticate.API,
            Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, allocate, is_async=True, is_between_brokers=True),
        )
    )
    features = SimpleNamespace(supported=[], finalized=SimpleNamespace(epoch=0, levels={}))
    broker: Any = SimpleNamespace(task_gate=TaskGate(), tasks=tasks, features=features)
    gateway = KafkaGateway(broker, apis, None)  # type: ignore[arg-type]

    def connect(connection: Connection) -> Any:
        return gateway.connect(connection)

    async with opened(connect) as listening:
        identity = BrokerIdentity(2, "abc", SECRET)
        gateway.authenticator = PeerAuthenticator(lambda: identity, SeededRng(2), tasks, {1, 2}.__contains__)
        world = Brokers(gateway, Address(*listening.listener.address), tasks)
        world.asked = asked
        yield world
        await tasks.close()


async def handshake(connection: AsyncioConnection, mechanism: str = MECHANISM.name) -> SaslHandshakeResponse:
    return await connection.request(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, timeout_ms=60_000)


async def authenticate(connection: AsyncioConnection, data: bytes) -> SaslAuthenticateResponse:
    return await connection.request(SaslAuthenticateRequest(data), SaslAuthenticateResponse, timeout_ms=60_000)


async def test_a_broker_is_believed_and_told_of_what_is_between_brokers(brokers: Brokers) -> None:
    assert (await brokers.ask()).producer_id_start == 5
    assert brokers.asked == ["Broker:1"]


async def test_both_ends_send_again_soon_when_brokers_speak_and_not_to_strangers(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon: list[str] = []
    monkeypatch.setattr("ottla.gateways.kafka.gateway.retransmit_soon", lambda fd: soon.append(f"accepted {fd > 0}"))
    monkeypatch.setattr("ottla.peers.peer_sockets.retransmit_soon", lambda fd: soon.append(f"connected {fd > 0}"))
    async with brokers.stranger() as connection:
        await handshake(connection)
    assert soon == []
    await brokers.ask()
    assert soon == ["connected True", "accepted True"]


async def test_it_is_said_when_a_connection_of_a_broker_ends_and_only_then(brokers: Brokers) -> None:
    left: list[int] = []
    brokers.gateway.on_broker_left = left.append
    async with brokers.stranger() as connection:
        await handshake(connection)
    await brokers.ask()
    await until(lambda: left)
    assert left == [1]


async def test_another_secret_is_refused_with_one_line_and_asks_nothing(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotProvenError, match="did not prove that it knows the password"):
        await brokers.ask(secret=b"a guess")
    assert brokers.asked == []
    refusals = [each for each in caplog.messages if "SASL_AUTHENTICATION_FAILED" in each]
    assert len(refusals) == 1


async def test_a_broker_of_another_cluster_is_refused(brokers: Brokers) -> None:
    with pytest.raises(NotProvenError, match="it belongs to another cluster than this one") as refused:
        await brokers.ask(cluster="xyz")
    assert "abc" not in str(refused.value)  # it is told to whoever says that it is a broker
    assert brokers.asked == []


async def test_who_knows_the_secret_is_no_broker_that_the_cluster_does_not_have(brokers: Brokers) -> None:
    with pytest.raises(NotProvenError, match="no broker 77 is registered in this cluster"):
        await brokers.ask(broker_id=77)
    assert brokers.asked == []


async def test_a_client_is_not_told_of_what_is_between_brokers(brokers: Brokers) -> None:
    async with brokers.stranger() as connection:
        with pytest.raises(UnsupportedApiError, match="no version of AllocateProducerIds"):
            await connection.request(AllocateProducerIdsRequest(), AllocateProducerIdsResponse, timeout_ms=60_000)


async def test_a_mechanism_that_is_not_served_is_refused_and_another_may_follow(brokers: Brokers) -> None:
    async with brokers.stranger() as connection:
        answer = await handshake(connection, "PLAIN")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ("SCRAM-SHA-512",)
        assert (await handshake(connection)).error_code == ErrorCode.NONE
        assert (await handshake(connection)).error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_a_proof_without_a_handshake_is_refused_and_ends_the_connection(brokers: Brokers) -> None:
    async with brokers.stranger() as connection:
        assert (await authenticate(connection, b"n,,n=1,r=x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        with pytest.raises(ConnectionLostError):
            await handshake(connection)


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"n,,n=2,r=" + b"a" * 40, b"n,,n=0001,r=" + b"a" * 40])
async def test_what_is_no_proof_is_refused_and_ends_the_connection(brokers: Brokers, data: bytes) -> None:
    async with brokers.stranger() as connection:
        await handshake(connection)
        answer = await authenticate(connection, data)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message
        with pytest.raises(ConnectionLostError):
            await handshake(connection)


async def test_who_does_not_prove_the_secret_is_answered_late(brokers: Brokers) -> None:
    assert brokers.gateway.authenticator is not None
    brokers.gateway.authenticator.failure_delay_ms = 250
    timer = brokers.gateway.broker.timer = ManualTimer()  # type: ignore[misc]
    async with brokers.stranger() as connection:
        await handshake(connection)
        asked = asyncio.ensure_future(authenticate(connection, b"n,,n=1,r=" + b"a" * 40))
        await until(lambda: len(timer) > 0)
        timer.advance(249)
        assert not asked.done()
        timer.advance(1)
        assert (await asked).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_on_a_broker_that_is_alone_nobody_proves_anything(brokers: Brokers) -> None:
    brokers.gateway.authenticator = None
    with pytest.raises(NotProvenError, match="ILLEGAL_SASL_STATE; is it a listener of a broker of this cluster"):
        await brokers.ask()
    async with brokers.stranger() as connection:
        assert (await handshake(connection)).error_code == ErrorCode.ILLEGAL_SASL_STATE
