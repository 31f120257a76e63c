"""SaslAuthenticate (key 36), versions 0 to 2 (KIP-152).

1 how long a session lasts (KIP-368): as long as the connection; 2 flexible. A peer that cannot prove that it is a
broker is told why, and its connection is closed.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.principal import broker_principal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.security.scram import ScramError


def handle(ctx: RequestContext, request: SaslAuthenticateRequest) -> None:
    """The next step of the exchange that SaslHandshake began; the last one makes the peer a broker."""
    connection = ctx.kafka_connection
    proof = connection.proof
    if proof is None:
        _refuse(ctx, ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first")
        return
    try:
        answer = proof.answer(request.auth_bytes)
        if proof.user is not None:
            connection.principal = broker_principal(int(proof.user))
            connection.proof = None
    except ScramError as error:
        _refuse(ctx, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
        return
    ctx.respond(SaslAuthenticateResponse(error_message=None, auth_bytes=answer))


def _refuse(ctx: RequestContext, error: ErrorCode, message: str) -> None:
    ctx.respond(SaslAuthenticateResponse(error_code=error, error_message=message))
    ctx.connection.drain()


API = Api(ApiKey.SASL_AUTHENTICATE, 0, 2, handle)
