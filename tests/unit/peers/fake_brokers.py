"""Brokers without sockets for the tests of what talks to them: connections that are refused, answered, lost."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.address import Address
from ottla.client.errors import BrokerUnreachableError, ConnectionLostError
from ottla.client.io.version_table import VersionTable
from ottla.client.options import ClientOptions
from ottla.model.error_code import ErrorCode
from ottla.peers.cluster_secret import MECHANISM, BrokerIdentity, ClusterCredential
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.security.scram import ScramError
from ottla.security.scram_server import ScramServer

Answer = Callable[[ApiMessage], ApiMessage]


class FakeConnection:
    """A connection to a `FakeBroker`."""

    def __init__(self, broker: "FakeBroker") -> None:
        self.broker = broker
        self.address = broker.address
        self.versions = VersionTable({})
        self.closed = False
        self.timed_out = False
        self.on_closed: Callable[[], None] | None = None
        self.agreed = 0
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server = ScramServer(MECHANISM, broker.credential.of, "nonce-of-the-fake-broker")

    async def agree_on_versions(self, timeout_ms: int) -> None:
        assert self._server.user is not None
        self.agreed += 1

    async def request(self, message: ApiMessage, response: type[Any], *, timeout_ms: int) -> Any:
        await asyncio.sleep(0)
        if self.closed:
            raise ConnectionLostError("it is closed")
        if isinstance(message, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=(MECHANISM.name,))
        if isinstance(message, SaslAuthenticateRequest):
            return self._authenticate(message)
        self.broker.requests.append((self._server.user, message))
        if self.broker.answer is None:
            await self._ended
            raise ConnectionLostError("it ended")
        return self.broker.answer(message)

    def _authenticate(self, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        data = bytes(message.auth_bytes)
        try:
            said = self._server.challenge(data) if data.startswith(b"n,") else self._server.outcome(data)
        except ScramError as error:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error), auth_bytes=b""
            )
        return SaslAuthenticateResponse(error_message=None, auth_bytes=self.broker.forged or said)

    def close(self) -> None:
        """Ended by us or, for the tests, by the other side."""
        if not self.closed:
            self.closed = True
            if not self._ended.done():
                self._ended.set_result(None)
            if self.on_closed is not None:
                self.on_closed()


class FakeBroker:
    """One that takes connections, while `is_up`."""

    def __init__(self, identity: BrokerIdentity, address: Address) -> None:
        self.address = address
        self.credential = ClusterCredential(identity, b"salt-of-a-broker")
        self.requests: list[tuple[str | None, ApiMessage]] = []
        self.connections: list[FakeConnection] = []
        self.answer: Answer | None = lambda message: message
        """None: it is silent."""
        self.is_up = True
        self.ends_at_once = 0
        """How many of the connections to come it ends before it refuses the rest: its process is dying."""
        self.forged = b""


class FakeNetwork:
    """A `PeerIo` between fake brokers."""

    def __init__(self, brokers: Mapping[Address, FakeBroker]) -> None:
        self.brokers = dict(brokers)
        self.attempts = 0

    async def connect(self, address: Address, options: ClientOptions) -> FakeConnection:
        self.attempts += 1
        await asyncio.sleep(0)
        broker = self.brokers[address]
        if broker.ends_at_once:
            broker.ends_at_once -= 1
            raise BrokerUnreachableError(f"cannot reach a broker at {address}: the broker closed the connection")
        if not broker.is_up:
            try:
                raise ConnectionRefusedError
            except ConnectionRefusedError as error:
                raise BrokerUnreachableError(f"cannot reach a broker at {address}: connection refused") from error
        connection = FakeConnection(broker)
        broker.connections.append(connection)
        return connection
