"""ShareReads (key 31003), version 0, from brokers: what one asks the leader of share partitions that its clients read.

Kafka has no such API. Requests of one connection are served side by side.
"""

from ottla.broker.access import require_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.share_reads import ShareReadsRequest, ShareReadsResponse


def handle(ctx: RequestContext, request: ShareReadsRequest) -> ShareReadsResponse | None:
    """Have the readers of other brokers answered."""
    try:
        broker_id = require_broker(ctx.principal)
    except ApiError as error:
        return ShareReadsResponse(error_code=error.code, error_message=error.message)
    ctx.go_on(_answer(ctx, broker_id, bytes(request.data)))
    return None


async def _answer(ctx: RequestContext, broker_id: int, data: bytes) -> None:
    try:
        response = ShareReadsResponse(data=await ctx.broker.share_readers.answered(broker_id, data))
    except ApiError as error:
        response = ShareReadsResponse(error_code=error.code, error_message=error.message)
    ctx.respond(response)


API = Api(ApiKey.SHARE_READS, 0, 0, handle, is_between_brokers=True)
