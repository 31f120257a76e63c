"""InitProducerId (key 22), versions 0 to 5.

2 flexible; 3 a producer may say which id and epoch it had (KIP-360); 4 PRODUCER_FENCED; 5 aborted transactions can be
told apart (KIP-890). Version 6, two-phase commit, is not stable in Kafka either.

An idempotent producer without transactions always gets a new id with epoch 0, whatever it had before, as from Kafka:
such producers raise the epoch themselves.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE = -1


async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out a producer id."""
    try:
        _require_idempotent(request)
        producer_id = await ctx.broker.producer_ids.next()
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _require_idempotent(request: InitProducerIdRequest) -> None:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id comes with its epoch, or neither comes")
    if request.transactional_id is None:
        return
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
    # Not COORDINATOR_NOT_AVAILABLE: clients would ask again until their time is up instead of telling their user.
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "transactions are not served")


API = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, handle, is_task=True)
