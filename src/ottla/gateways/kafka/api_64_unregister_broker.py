"""UnregisterBroker (key 64), version 0 (KIP-631).

A broker is in the cluster for as long as its session lasts and is gone with it: there are no registrations of brokers
that are not there.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Say why the broker is not taken out."""
    try:
        ctx.broker.cluster.unregister(ctx.principal, request.broker_id)
    except ApiError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(error_message=None)


API = Api(ApiKey.UNREGISTER_BROKER, 0, 0, handle, is_task=True, is_decided_by_controller=True)
