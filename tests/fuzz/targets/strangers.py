"""What a stranger sends who wants to be taken for a broker: he stays a stranger, and nothing inside is looked at.

    kind, 1 byte | length of what follows, 2 bytes | bytes        and the next, on the same connection

    0 SaslHandshake with this mechanism; nothing: the one that brokers use       3 Envelope with this inside
    1 SaslAuthenticate with these bytes                                          4 a frame as it is
    2 SaslAuthenticate with a second message that fits the first, with this for the proof

The secret is one that no input can have. A broker behind the gateway would be in reach only of who has proved it:
whatever looks for one is a finding, as is whatever is logged as an error.
"""

import asyncio
import base64
import logging
import struct
from types import SimpleNamespace
from typing import Any

from ottla.gateways.kafka import (
    api_17_sasl_handshake,
    api_18_api_versions,
    api_36_sasl_authenticate,
    api_56_alter_partition,
    api_58_envelope,
    api_63_broker_heartbeat,
    api_67_allocate_producer_ids,
)
from ottla.gateways.kafka.api_table import ApiTable
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.principal import ANONYMOUS
from ottla.network.task_gate import TaskGate
from ottla.peers.authenticator import PeerAuthenticator
from ottla.peers.cluster_secret import BrokerIdentity
from ottla.protocol.frame import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.runtime.clock import ManualClock
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.security.scram import attributes_of
from tests.fuzz.targets.requests import Buffer, Client, Failures, Slot

HANDSHAKE, AUTHENTICATE, SECOND_MESSAGE, ENVELOPE, FRAME = range(5)
STEPS_MAX = 8
LENGTH_BYTES = 4
CLUSTER, BROKER_ID = "wLAJf7yEQxOj3kE9gJKu0w", 2
APIS = ApiTable.of(
    each.API
    for each in (
        api_17_sasl_handshake,
        api_18_api_versions,
        api_36_sasl_authenticate,
        api_56_alter_partition,
        api_58_envelope,
        api_63_broker_heartbeat,
        api_67_allocate_producer_ids,
    )
)


class Line(Client):
    """A connection to the listener of the brokers."""

    listener_name = "BROKERS"


class World:
    """A gateway with nothing behind it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.tasks = Tasks("fuzz")
        features = SimpleNamespace(supported=[], finalized=SimpleNamespace(epoch=0, levels={}))
        broker: Any = SimpleNamespace(task_gate=TaskGate(), tasks=self.tasks, features=features)
        self.gateway = KafkaGateway(broker, APIS, None)  # type: ignore[arg-type]
        rng = SeededRng(3)
        identity = BrokerIdentity(BROKER_ID, CLUSTER, rng.token_bytes(32))
        self.gateway.authenticator = PeerAuthenticator(lambda: identity, rng, self.tasks, lambda _broker_id: True)
        self.loop.run_until_complete(self.gateway.authenticator.exchange())
        self.failures = Failures()
        logging.getLogger("ottla").addHandler(self.failures)
        self.throttle = LogThrottle(logging.getLogger("ottla.fuzz"), ManualClock())


class Stranger:
    """One connection and what was said on it."""

    def __init__(self, world: World) -> None:
        self.line = Line(world.throttle)
        self.connection = world.gateway.connect(self.line)  # type: ignore[arg-type]
        self.first = ""
        self.challenge = ""

    async def say(self, kind: int, data: bytes) -> None:
        """One step; the answer is looked at."""
        if kind == HANDSHAKE:
            await self.ask(SaslHandshakeRequest(data.decode("latin-1") or "SCRAM-SHA-512"), 1)
        elif kind == AUTHENTICATE:
            self.first = data.decode("utf-8", "replace")
            await self.authenticate(data)
        elif kind == SECOND_MESSAGE:
            header = base64.b64encode(",".join(self.first.split(",", 2)[:2]).encode() + b",").decode()
            nonce = dict(attributes_of(self.challenge))["r"] if self.challenge else "nothing"
            await self.authenticate(f"c={header},r={nonce},p={base64.b64encode(data).decode()}".encode())
        elif kind == ENVELOPE:
            answer = await self.ask(EnvelopeRequest(data, data, data[:16]), 0)
            if answer is not None:
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, answer
                assert answer.response_data is None
        else:
            await self.send(data)

    async def authenticate(self, data: bytes) -> None:
        answer = await self.ask(SaslAuthenticateRequest(data), 2)
        if isinstance(answer, SaslAuthenticateResponse):
            assert answer.error_code or bytes(answer.auth_bytes).startswith(b"r="), answer
            self.challenge = "" if answer.error_code else bytes(answer.auth_bytes).decode()

    async def ask(self, request: ApiMessage, version: int) -> Any:
        """The answer, None when the connection was closed."""
        frame = await self.send(encode_request(7, "stranger", request, version)[LENGTH_BYTES:])
        return None if not frame else decode_response(request.API_KEY, version, frame[LENGTH_BYTES:])[1]

    async def send(self, frame: bytes) -> bytes | None:
        buffer, slot = Buffer(), Slot()
        try:
            self.connection.on_frame(memoryview(bytearray(frame)), buffer, slot)  # type: ignore[arg-type]
        except InvalidInputError as error:
            self.line.fail(str(error))
        buffer.release()
        for _ in range(10):
            if slot.frame is not None or self.line.is_closed:
                break
            await asyncio.sleep(0)
        assert self.connection.principal is ANONYMOUS, "a stranger is taken for a broker"
        return slot.frame


_worlds: list[World] = []


def check(data: bytes) -> None:
    """See the top of the file."""
    if not _worlds:
        _worlds.append(World())
    world = _worlds[0]
    world.loop.run_until_complete(_converse(world, data))
    assert not world.failures.lines, world.failures.lines


async def _converse(world: World, data: bytes) -> None:
    stranger = Stranger(world)
    for _ in range(STEPS_MAX):
        if len(data) < 3 or stranger.line.is_closed or stranger.line.is_draining:
            break
        kind, (size,) = data[0] % 5, struct.unpack_from(">H", data, 1)
        body, data = data[3 : 3 + size], data[3 + size :]
        await stranger.say(kind, body)
    stranger.connection.on_close()


def said(*steps: tuple[int, bytes]) -> bytes:
    """An input that says these one after the other."""
    return b"".join(bytes([kind]) + struct.pack(">H", len(data)) + data for kind, data in steps)


def introduction(broker_id: int = 1, cluster: str = CLUSTER, to: int = BROKER_ID) -> bytes:
    """The first message of a broker, whose secret is all that is missing."""
    return f"n,,n={broker_id},r=abcdefghijklmnopqrstuvwx,cluster={cluster},broker={to}".encode()
