"""InitProducerId (key 22), versions 0 to 5.

2 flexible; 3 a producer may say which id and epoch it had (KIP-360); 4 PRODUCER_FENCED; 5 aborted transactions can be
told apart (KIP-890). Version 6, two-phase commit, is not stable in Kafka either.

An idempotent producer without transactions always gets a new id with epoch 0, whatever it had before, as from Kafka:
such producers raise the epoch themselves.
"""

import asyncio
from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.producer_identity import ProducerIdentity
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.transactions.answers import InitAnswer
from ottla.transactions.requests import InitProducer

NONE: Final = -1
FENCED_VERSION: Final = 4


async def handle(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out a producer id, or the next epoch of the producer of a transactional id."""
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        # A producer id comes with its epoch, or neither comes.
        return _refusal(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            ctx.broker.cluster.require_idempotent_producer(ctx.principal)
            return InitProducerIdResponse(producer_id=await ctx.broker.producer_ids.next(), producer_epoch=0)
        except ApiError as error:
            return _refusal(error.code)
    expected = None
    if request.producer_id != NONE:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    answered: asyncio.Future[InitAnswer] = asyncio.get_running_loop().create_future()

    def on_answer(answer: InitAnswer) -> None:
        if not answered.done():
            answered.set_result(answer)

    asked = InitProducer(request.transactional_id, request.transaction_timeout_ms, expected)
    ctx.broker.transactions.init_producer(ctx.principal, asked, on_answer)
    answer = await answered
    if answer.error is ErrorCode.NONE:
        return InitProducerIdResponse(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
    if answer.error is ErrorCode.PRODUCER_FENCED and ctx.api_version < FENCED_VERSION:
        return _refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
    return _refusal(answer.error)


def _refusal(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NONE, producer_epoch=NONE)


API = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, handle, is_async=True, after_responses=True)
