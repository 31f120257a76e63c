"""SaslHandshake (key 17), version 1 (KIP-43, KIP-152).

Version 0, after which tokens come without a header, is not served. Only brokers prove who they are, by the listener at
which they speak to each other; elsewhere, and a second time, the answer is ILLEGAL_SASL_STATE as from a Kafka broker's
listener without SASL.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin to find out who the peer is."""
    connection = ctx.kafka_connection
    authenticator = connection.gateway.authenticator
    if (
        authenticator is None
        or ctx.connection.listener_name != authenticator.listener_name
        or connection.principal is not ANONYMOUS
        or connection.proof is not None
    ):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = (authenticator.mechanism,)
    if request.mechanism not in mechanisms:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
    connection.proof = await authenticator.exchange()
    return SaslHandshakeResponse(mechanisms=mechanisms)


API = Api(ApiKey.SASL_HANDSHAKE, 1, 1, handle, is_task=True)
