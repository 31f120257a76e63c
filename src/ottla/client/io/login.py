"""A client proves who it is, after the versions and before anything else (KIP-43, KIP-152).

SaslHandshake --> SaslAuthenticate, twice for SCRAM and else once --> how long the session lasts (KIP-368)
"""

from collections.abc import Awaitable, Callable
from typing import Final

from ottla.client.errors import BrokerError, ProtocolViolationError, broker_error
from ottla.client.io.client_io import Connection
from ottla.client.sasl import ClientSasl, salted
from ottla.model.error_code import ErrorCode
from ottla.model.sasl import OAUTHBEARER, PLAIN, TOKEN_AUTH
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.runtime.rng import Rng
from ottla.security.scram import MECHANISMS, ScramError, base64_of
from ottla.security.scram_client import ScramClient

NONCE_BYTES: Final = 24
RENEWED_AT: Final = 0.85
"""The part of a session after which the client logs in again, before the broker would end it."""


async def log_in(
    connection: Connection, sasl: ClientSasl, rng: Rng, timeout_ms: int, token: Callable[[], Awaitable[str]]
) -> int:
    """Prove it; returns for how many milliseconds that holds, 0 for as long as the connection.

    `token` asks for the one of OAUTHBEARER, before anything is sent.

    Raises BrokerError SASL_AUTHENTICATION_FAILED and UNSUPPORTED_SASL_MECHANISM, each with what the broker says, and
    what `Connection.request` raises.
    """
    mechanism = sasl.mechanism
    user, password = ("", "") if mechanism == OAUTHBEARER else sasl.credentials
    who = f" as {user!r}" if user else ""
    shown = await token() if mechanism == OAUTHBEARER else ""
    what = f"could not log in to {connection.address}{who} by {mechanism}"
    answer = await connection.request(SaslHandshakeRequest(mechanism), SaslHandshakeResponse, timeout_ms=timeout_ms)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{what}: the broker takes {', '.join(answer.mechanisms) or 'none'}"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise BrokerError(
            ErrorCode.ILLEGAL_SASL_STATE, f"{what}: nobody logs in at this listener; is security.protocol right?"
        )
    if answer.error_code:
        raise broker_error(answer.error_code, what)

    async def exchange(message: bytes) -> SaslAuthenticateResponse:
        response = await connection.request(
            SaslAuthenticateRequest(message), SaslAuthenticateResponse, timeout_ms=timeout_ms
        )
        if response.error_code:
            raise broker_error(response.error_code, what, response.error_message)
        return response

    if mechanism == OAUTHBEARER:
        outcome = await exchange(f"n,,\x01auth=Bearer {shown}\x01\x01".encode())
        if outcome.auth_bytes:  # why it is refused, which has to be acknowledged
            await exchange(b"\x01")
            raise ProtocolViolationError(f"{what}: the broker neither took nor refused the token")
        return outcome.session_lifetime_ms
    if mechanism == PLAIN:
        return (await exchange(f"\0{user}\0{password}".encode())).session_lifetime_ms
    extensions = {TOKEN_AUTH: "true"} if sasl.is_delegation_token else None
    client = ScramClient(MECHANISMS[mechanism], user, base64_of(rng.token_bytes(NONCE_BYTES)), extensions)
    try:
        salting = client.challenged((await exchange(client.first())).auth_bytes)
        outcome = await exchange(client.final(salted(mechanism, password, *salting)))
        client.verify(outcome.auth_bytes)
    except ScramError as error:
        raise ProtocolViolationError(f"{what}: {error}") from error
    return outcome.session_lifetime_ms
