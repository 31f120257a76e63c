"""AddPartitionsToTxn (key 24), versions 0 to 5.

2 PRODUCER_FENCED; 3 flexible; 4 many transactions, to be verified or added to (KIP-890); 5 for transactions V2. Kafka's
clients stay at 3, and with transactions V2 do not send it at all; others send 4 and 5 as well. Brokers that have proved
who they are ask for clients whose rights they have looked at; everybody else asks with rights of their own.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.broker.transactions import V1, V2
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.principal import BROKER
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
from ottla.runtime.gather import Gather
from ottla.runtime.turns import Pace, next_turn
from ottla.transactions.answers import AddAnswer
from ottla.transactions.requests import AddPartitions
from ottla.transactions.transaction_config import PARTITIONS_PER_TRANSACTION_MAX

FENCED_VERSION: Final = 2
MANY_VERSION: Final = 4

TRANSACTIONS_MAX: Final = 100
"""In one request of a client, which has one as a rule: they are asked for in one turn."""

Put = Callable[[AddPartitionsToTxnResult], None]
Respond = Callable[[Sequence[AddPartitionsToTxnResult]], None]


def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    """Have partitions take part in transactions."""
    if ctx.api_version < MANY_VERSION:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        _add_for_client(
            ctx,
            [transaction],
            lambda results: ctx.respond(
                AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
            ),
        )
        return
    transactions = list({each.transactional_id: each for each in request.transactions}.values())

    def respond(results: Sequence[AddPartitionsToTxnResult]) -> None:
        ctx.respond(AddPartitionsToTxnResponse(results_by_transaction=tuple(results)))

    if ctx.principal.type != BROKER:
        _add_for_client(ctx, transactions, respond)
        return
    gather = Gather(len(transactions), respond)
    for index, transaction in enumerate(transactions):
        _ask(ctx, transaction, gather.place(index))


def _add_for_client(
    ctx: RequestContext, transactions: Sequence[AddPartitionsToTxnTransaction], respond: Respond
) -> None:
    """A client asks for itself, as a rule for one transaction."""
    asked = sum(len(topic.partitions) for each in transactions for topic in each.topics)
    if len(transactions) > TRANSACTIONS_MAX or asked > PARTITIONS_PER_TRANSACTION_MAX:
        ctx.go_on(_refuse(transactions, respond))
        return
    gather = Gather(len(transactions), respond)
    for index, transaction in enumerate(transactions):
        _add(ctx, transaction, gather.place(index))


async def _refuse(transactions: Sequence[AddPartitionsToTxnTransaction], respond: Respond) -> None:
    """No transaction may have so many partitions, and no client needs so many transactions."""
    answers, pace = [], Pace()
    for transaction in transactions:
        topics = []
        for topic in transaction.topics:
            results = []
            for index in topic.partitions:
                results.append(AddPartitionsToTxnPartitionResult(index, ErrorCode.TRANSACTION_ABORTABLE))
                if pace.is_enough():
                    await next_turn()
            topics.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=tuple(results)))
        answers.append(AddPartitionsToTxnResult(transaction.transactional_id, tuple(topics)))
        if pace.is_enough():
            await next_turn()
    respond(answers)


def _ask(ctx: RequestContext, transaction: AddPartitionsToTxnTransaction, put: Put) -> None:
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

        put(AddPartitionsToTxnResult(transaction.transactional_id, _results(transaction.topics, result_of)))

    request = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer=ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
        partitions=_partitions(transaction),
        client_version=V1 if ctx.api_version < MANY_VERSION or transaction.verify_only else V2,
        verify_only=transaction.verify_only,
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
