"""AddPartitionsToTxn (key 24), versions 0 to 5.

2 PRODUCER_FENCED; 3 flexible; 4 many transactions, to be verified or added to (KIP-890), believed only from brokers
that have proved who they are; 5 for transactions V2. Clients stay at 3, and with transactions V2 do not send it at all.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.access import require_broker
from ottla.broker.transactions import V1
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.gather import Gather
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.runtime.turns import Pace, next_turn
from ottla.transactions.answers import AddAnswer
from ottla.transactions.requests import AddPartitions
from ottla.transactions.transaction_config import PARTITIONS_PER_TRANSACTION_MAX

FENCED_VERSION: Final = 2
MANY_VERSION: Final = 4

Put = Callable[[tuple[AddPartitionsToTxnTopicResult, ...]], None]


def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    """Have partitions take part in transactions."""
    if ctx.api_version < MANY_VERSION:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        if sum(len(topic.partitions) for topic in transaction.topics) > PARTITIONS_PER_TRANSACTION_MAX:
            ctx.go_on(_refuse(ctx, transaction))
            return
        _add(
            ctx,
            transaction,
            lambda results: ctx.respond(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)),
        )
        return
    try:
        require_broker(ctx.principal)
    except ApiError as error:
        ctx.note_refusal(error.code, error.message)
        ctx.respond(AddPartitionsToTxnResponse(error_code=error.code))
        return
    by_id = {each.transactional_id: each for each in request.transactions}
    gather: Gather[AddPartitionsToTxnResult] = Gather(
        len(by_id), lambda results: ctx.respond(AddPartitionsToTxnResponse(results_by_transaction=tuple(results)))
    )
    for index, transaction in enumerate(by_id.values()):
        _ask(ctx, transaction, gather.place(index))


async def _refuse(ctx: RequestContext, transaction: AddPartitionsToTxnTransaction) -> None:
    """No transaction may have so many partitions."""
    topics, pace = [], Pace()
    for topic in transaction.topics:
        results = []
        for index in topic.partitions:
            results.append(AddPartitionsToTxnPartitionResult(index, ErrorCode.TRANSACTION_ABORTABLE))
            if pace.is_enough():
                await next_turn()
        topics.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=tuple(results)))
    ctx.respond(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(topics)))


def _ask(
    ctx: RequestContext, transaction: AddPartitionsToTxnTransaction, put: Callable[[AddPartitionsToTxnResult], None]
) -> None:
    """A broker asks for a partition that it leads, and has found its client to be allowed to write."""
    ctx.broker.transactions.add_or_verify(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        _partitions(transaction),
        verify_only=transaction.verify_only,
        waiter=lambda errors: put(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, errors.__getitem__),
            )
        ),
    )


def _add(ctx: RequestContext, transaction: AddPartitionsToTxnTransaction, put: Put) -> None:
    def on_answer(error: ErrorCode, answer: AddAnswer) -> None:
        overall = error if error is not ErrorCode.NONE else answer.error

        def result_of(partition: TopicPartition) -> ErrorCode:
            found = overall if overall is not ErrorCode.NONE else answer.refused.get(partition, ErrorCode.NONE)
            if found is ErrorCode.PRODUCER_FENCED and ctx.api_version < FENCED_VERSION:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            return found

        put(_results(transaction.topics, result_of))

    request = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer=ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
        partitions=_partitions(transaction),
        client_version=V1,
    )
    ctx.broker.transactions.add_partitions(ctx.principal, request, on_answer)


def _partitions(transaction: AddPartitionsToTxnTransaction) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions)


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], result_of: Callable[[TopicPartition], ErrorCode]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=result_of(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )


API = Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, handle)
