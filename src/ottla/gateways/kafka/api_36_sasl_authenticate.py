"""SaslAuthenticate (key 36), versions 0 to 2 (KIP-152).

1 how long a session lasts (KIP-368), 0 for as long as the connection; 2 flexible. A peer that cannot prove who it is is
told so, and its connection is closed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.login import Step
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.security.sasl_server import SaslError
from ottla.security.scram import ScramError
from ottla.security.scram_server import CredentialMissingError

if TYPE_CHECKING:
    from ottla.gateways.kafka.context import RequestContext

FIRST_VERSION_WITH_LIFETIME: Final = 1


def handle(ctx: RequestContext, request: SaslAuthenticateRequest) -> None:
    """The next step of the exchange that SaslHandshake began; the last one says who the peer is."""
    connection = ctx.kafka_connection
    login = connection.login
    if login is None or login.server is None:
        if login is not None and login.step is Step.DONE:
            message = "SaslAuthenticate request received after successful authentication"
            ctx.respond(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message))
        else:
            _refuse(ctx, ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
        return
    server = login.server
    try:
        answer = server.answer(request.auth_bytes)
        lifetime_ms = 0
        if server.user is not None:
            lifetime_ms = connection.logged_in(server)
            if ctx.api_version < FIRST_VERSION_WITH_LIFETIME:
                lifetime_ms = 0  # its session ends all the same: a client chooses the version
    except CredentialMissingError as missing:
        ctx.go_on(_handle_again(ctx, SaslAuthenticateRequest(bytes(request.auth_bytes)), missing))
        return
    except SaslError as error:
        login.fail()
        if login.listener is None or login.is_peer:
            authenticator = connection.gateway.authenticator
            delay_ms = 0 if authenticator is None else authenticator.failure_delay_ms
            _refuse(ctx, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error), delay_ms)
            return
        message = str(error)
        if isinstance(error, ScramError):
            message = (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{login.mechanism}"
            )
            ctx.connection.complain(f"client {ctx.client_id!r} could not log in: {error}")
        ctx.connection.drain()
        response = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message)
        ctx.broker.timer.schedule(connection.gateway.failure_delay_ms, partial(ctx.respond, response))
        return
    ctx.respond(SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms))


async def _handle_again(ctx: RequestContext, request: SaslAuthenticateRequest, missing: CredentialMissingError) -> None:
    await missing.load()
    handle(ctx, request)


def _refuse(ctx: RequestContext, error: ErrorCode, message: str, delay_ms: int = 0) -> None:
    response = SaslAuthenticateResponse(error_code=error, error_message=message)
    if delay_ms:
        ctx.connection.drain()
        ctx.broker.timer.schedule(delay_ms, partial(ctx.respond, response))
        return
    ctx.respond(response)
    ctx.connection.drain()


API = Api(ApiKey.SASL_AUTHENTICATE, 0, 2, handle)
