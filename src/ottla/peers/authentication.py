"""The first exchange on a connection to another broker: both prove that they know the cluster's secret."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ottla.client.errors import UnsupportedApiError
from ottla.client.io.client_io import Connection
from ottla.model.error_code import ErrorCode
from ottla.peers.cluster_secret import MECHANISM, NONCE_BYTES, BrokerIdentity, introduction, nonce
from ottla.peers.errors import NotProvenError
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.security.scram import ScramError, salted_password
from ottla.security.scram_client import Salting, ScramClient

SALTED_MAX: Final = 256
"""Salts of other brokers that are remembered with the salted secret: each broker has one for each of its lives."""


class BrokerAuthentication:
    """Proves to other brokers who this one is. Belongs to the event loop."""

    def __init__(self, identity: Callable[[], BrokerIdentity], rng: Rng, tasks: Tasks) -> None:
        """`identity` is who this broker is, once its cluster's secret is known."""
        self._identity = identity
        self._rng = rng
        self._tasks = tasks
        self._salted: OrderedDict[Salting, bytes] = OrderedDict()

    async def prove(self, connection: Connection, peer_id: int, timeout_ms: int) -> None:
        """Do it on a connection that was made to broker `peer_id`; the connection is of no use when this raises.

        Raises NotProvenError, and what `Connection.request` raises.
        """
        try:
            handshake = await connection.request(
                SaslHandshakeRequest(mechanism=MECHANISM.name), SaslHandshakeResponse, timeout_ms=timeout_ms
            )
        except UnsupportedApiError as error:
            raise NotProvenError(f"{connection.address} is not a broker of a cluster: {error}") from error
        if handshake.error_code:
            raise NotProvenError(
                f"{connection.address} does not let brokers prove who they are: {_name(handshake.error_code)}; is it "
                "a listener of a broker of this cluster?"
            )
        identity = self._identity()
        client = ScramClient(
            MECHANISM,
            str(identity.broker_id),
            nonce(self._rng.token_bytes(NONCE_BYTES)),
            introduction(identity, peer_id),
        )
        try:
            challenge = await self._exchange(connection, client.first(), timeout_ms)
            salted = await self._salted_secret(client.challenged(challenge))
            client.verify(await self._exchange(connection, client.final(salted), timeout_ms))
        except ScramError as error:
            raise NotProvenError(f"{connection.address} is not believed to be broker {peer_id}: {error}") from error

    async def _exchange(self, connection: Connection, message: bytes, timeout_ms: int) -> bytes | memoryview:
        answer = await connection.request(
            SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, timeout_ms=timeout_ms
        )
        if answer.error_code:
            raise NotProvenError(
                f"{connection.address} does not believe that this is broker {self._identity().broker_id}: "
                f"{answer.error_message or _name(answer.error_code)}"
            )
        return answer.auth_bytes

    async def _salted_secret(self, salting: Salting) -> bytes:
        salted = self._salted.get(salting)
        if salted is None:
            salted = await self._tasks.in_thread(salted_password, MECHANISM, self._identity().secret, *salting)
            while len(self._salted) >= SALTED_MAX:
                self._salted.popitem(last=False)
            self._salted[salting] = salted
        return salted


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
