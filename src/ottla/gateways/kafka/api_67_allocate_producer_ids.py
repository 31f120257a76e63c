"""AllocateProducerIds (key 67), version 0 (KIP-730), from brokers."""

from ottla.broker.access import require_that_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def handle(ctx: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    """Give a broker a block of producer ids that nobody else gets."""
    try:
        require_that_broker(ctx.principal, request.broker_id)
        block = await ctx.broker.controller.allocate_producer_ids()
    except ApiError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


API = Api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, handle, is_async=True, is_between_brokers=True)
