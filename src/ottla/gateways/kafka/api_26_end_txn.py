"""EndTxn (key 26), versions 0 to 5.

2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE; 5 for transactions V2: the answer has the epoch of the next
transaction, and its producer id (KIP-890).
"""

import asyncio
from typing import Final

from ottla.broker.transactions import V1, V2
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.producer_identity import ProducerIdentity
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.transactions.answers import EndAnswer
from ottla.transactions.requests import EndTransaction

FENCED_VERSION: Final = 2
EPOCH_BUMP_API_VERSION: Final = 5


async def handle(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort; answered when that is decided for good."""
    answered: asyncio.Future[EndAnswer] = asyncio.get_running_loop().create_future()

    def on_answer(answer: EndAnswer) -> None:
        if not answered.done():  # nobody waits once the connection is gone
            answered.set_result(answer)

    ctx.broker.transactions.end(
        ctx.principal,
        EndTransaction(
            transactional_id=request.transactional_id,
            producer=ProducerIdentity(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=V1 if ctx.api_version < EPOCH_BUMP_API_VERSION else V2,
        ),
        on_answer,
    )
    answer = await answered
    error = answer.error
    if error is ErrorCode.PRODUCER_FENCED and ctx.api_version < FENCED_VERSION:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    if ctx.api_version < EPOCH_BUMP_API_VERSION:
        return EndTxnResponse(error_code=error)
    return EndTxnResponse(error_code=error, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)


API = Api(ApiKey.END_TXN, 0, 5, handle, is_async=True, after_responses=True)
