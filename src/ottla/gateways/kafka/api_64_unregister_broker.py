"""UnregisterBroker (key 64), version 0 (KIP-631).

A broker that does not run stays registered, fenced, until it is taken out for good; one that runs is not taken out.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Take a broker out that does not come back."""
    try:
        ctx.broker.cluster.require_alterer(ctx.principal)
        await ctx.broker.controller.unregister_broker(request.broker_id)
    except ApiError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(error_message=None)


API = Api(ApiKey.UNREGISTER_BROKER, 0, 0, handle, is_async=True, is_decided_by_controller=True)
