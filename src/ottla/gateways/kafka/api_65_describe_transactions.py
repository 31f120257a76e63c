"""DescribeTransactions (key 65), version 0 (KIP-664)."""

import asyncio
from collections.abc import Callable, Sequence

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.runtime.gather import Gather
from ottla.runtime.turns import Pace, next_turn
from ottla.transactions.answers import DescribeTransactionAnswer


async def handle(ctx: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Show transactional ids and the partitions of their transactions; one that is asked for twice is shown once."""
    transactional_ids = tuple(dict.fromkeys(request.transactional_ids))
    answered: asyncio.Future[DescribeTransactionsResponse] = asyncio.get_running_loop().create_future()

    def answer(states: Sequence[TransactionState]) -> None:
        if not answered.done():  # nobody waits once the connection is gone
            answered.set_result(DescribeTransactionsResponse(transaction_states=tuple(states)))

    gather: Gather[TransactionState] = Gather(len(transactional_ids), answer)
    pace = Pace()
    for index, transactional_id in enumerate(transactional_ids):
        if pace.is_enough():
            await next_turn()
        ctx.broker.transactions.describe(
            ctx.principal, transactional_id, _on_answer(transactional_id, gather.place(index))
        )
    return await answered


def _on_answer(
    transactional_id: str, put: Callable[[TransactionState], None]
) -> Callable[[DescribeTransactionAnswer], None]:
    def on_answer(answer: DescribeTransactionAnswer) -> None:
        if answer.error is not ErrorCode.NONE:
            put(TransactionState(error_code=answer.error, transactional_id=transactional_id))
            return
        put(
            TransactionState(
                transactional_id=transactional_id,
                transaction_state=answer.state,
                transaction_timeout_ms=answer.timeout_ms,
                transaction_start_time_ms=answer.start_ms,
                producer_id=answer.producer_id,
                producer_epoch=answer.producer_epoch,
                topics=tuple(
                    TopicData(topic=topic, partitions=tuple(sorted(numbers)))
                    for topic, numbers in answer.partitions.items()
                ),
            )
        )

    return on_answer


API = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, handle, is_async=True)
