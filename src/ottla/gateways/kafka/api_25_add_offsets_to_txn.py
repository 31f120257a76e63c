"""AddOffsetsToTxn (key 25), versions 0 to 4.

2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890). With transactions V2 clients do not send it.
"""

import asyncio
from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.producer_identity import ProducerIdentity
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION: Final = 2


async def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Have the offsets of a group take part in a transaction.

    The topic of offsets is made when it is first asked for: a producer may commit the offsets of a group that no
    consumer has looked for yet.
    """
    try:
        await ctx.broker.coordinators.groups_topic()
    except ApiError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    added: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def on_error(error: ErrorCode) -> None:
        if not added.done():  # nobody waits once the connection is gone
            added.set_result(error)

    ctx.broker.transactions.add_offsets(
        ctx.principal,
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        request.group_id,
        on_error,
    )
    outcome = await added
    if outcome is ErrorCode.PRODUCER_FENCED and ctx.api_version < FENCED_VERSION:
        outcome = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=outcome)


API = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, handle, is_async=True)
