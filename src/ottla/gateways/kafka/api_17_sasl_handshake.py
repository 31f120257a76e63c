"""SaslHandshake (key 17), versions 0 to 1 (KIP-43, KIP-152).

After version 0 the messages of the exchange come without a header, each with its length before it, until it is over;
brokers speak version 1 to each other. It begins an exchange in which a client proves who it is, at a listener where
clients log in, or a broker of the cluster, at any. Elsewhere, and where it is done and need not be done again, the
answer is ILLEGAL_SASL_STATE.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.login import REAUTH_MS_MIN, Login, Step
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin to find out who the peer is."""
    connection = ctx.kafka_connection
    login = connection.login
    now_ms = 0 if login is None or login.listener is None else ctx.broker.clock.monotonic_ms()
    if login is None or not _may_begin(login, now_ms):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = connection.gateway.mechanisms(login)
    if request.mechanism not in mechanisms:
        if login.listener is not None:
            login.fail()
            ctx.connection.complain(f"client {ctx.client_id!r} asks to log in by {request.mechanism[:100]!r}")
            ctx.connection.drain()
            mechanisms = login.listener.mechanisms
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
    if ctx.api_version == 0 and login.listener is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    server = await connection.gateway.sasl_server(login, request.mechanism, ctx.connection)
    login.begin(server, request.mechanism, now_ms)
    connection.has_bare_messages = ctx.api_version == 0
    if login.is_again:
        connection.must_log_in = True
    return SaslHandshakeResponse(mechanisms=mechanisms if login.listener is None else login.listener.mechanisms)


def _may_begin(login: Login, now_ms: int) -> bool:
    if login.step is not Step.DONE:
        return login.step is Step.HANDSHAKE
    return login.has_session and not login.is_peer and now_ms - login.begun_ms >= REAUTH_MS_MIN


API = Api(ApiKey.SASL_HANDSHAKE, 0, 1, handle, is_async=True, starts_eagerly=True)
