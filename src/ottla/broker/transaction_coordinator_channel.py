"""Asks the coordinator of a transaction, on whichever broker it is, about partitions (AddPartitionsToTxn, KIP-890).

the gate of this broker --> its own coordinator: asked at once
                        --> another broker's: those of one turn of the event loop in one request
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.transaction_gate import ANSWER_MS_MAX
from ottla.broker.transactions import OnErrors, TransactionService
from ottla.client.errors import ClientError, error_code
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_name import TRANSACTION_STATE_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.peers.broker_channels import BrokerChannels, Lane
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.runtime.environment import Defer
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

TRANSACTIONS: Final = Lane("transactions")
"""Questions are answered once the coordinator's log is committed; they wait behind nothing else."""


class _Question(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    verify_only: bool
    waiter: OnErrors


class TransactionCoordinatorChannel:
    """A `TransactionVerifier`. Belongs to the event loop; its methods never block."""

    def __init__(
        self,
        local: TransactionService,
        partition_of: Callable[[str], int],
        channels: BrokerChannels,
        current_image: Callable[[], MetadataImage],
        *,
        defer: Defer,
        tasks: Tasks,
    ) -> None:
        """`partition_of` says which partition of its topic keeps a transactional id."""
        self._local = local
        self._partition_of = partition_of
        self._channels = channels
        self._current_image = current_image
        self._defer = defer
        self._tasks = tasks
        self._due: defaultdict[int, list[_Question]] = defaultdict(list)

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        waiter: OnErrors,
    ) -> None:
        """See `TransactionVerifier`."""
        partition = self._current_image().partition(TRANSACTION_STATE_TOPIC, self._partition_of(transactional_id))
        if partition is not None and partition.leader == NO_LEADER:
            waiter(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif partition is None or partition.leader == self._channels.broker_id:
            self._local.add_or_verify(
                transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only, waiter=waiter
            )
        else:
            if not self._due:
                self._defer(self._send)
            self._due[partition.leader].append(
                _Question(transactional_id, producer_id, producer_epoch, partitions, verify_only, waiter)
            )

    def _send(self) -> None:
        due, self._due = self._due, defaultdict(list)
        for coordinator_id, questions in due.items():
            for some in _of_different_transactions(questions):
                self._tasks.spawn(self._ask(coordinator_id, some), f"asking broker {coordinator_id} of transactions")

    async def _ask(self, coordinator_id: int, questions: Sequence[_Question]) -> None:
        for question, errors in zip(questions, await self._errors(coordinator_id, questions), strict=True):
            try:
                question.waiter(errors)
            except Exception:
                logger.exception("a request that waited for the verification of %r failed", question.transactional_id)

    async def _errors(
        self, coordinator_id: int, questions: Sequence[_Question]
    ) -> list[Mapping[TopicPartition, ErrorCode]]:
        request = AddPartitionsToTxnRequest(transactions=tuple(map(_transaction, questions)))
        try:
            answer = await self._channels.request(
                coordinator_id, request, AddPartitionsToTxnResponse, timeout_ms=ANSWER_MS_MAX, lane=TRANSACTIONS
            )
        except ClientError as error:
            logger.debug("the coordinator on broker %d did not answer: %s", coordinator_id, error)
            return [dict.fromkeys(each.partitions, ErrorCode.NETWORK_EXCEPTION) for each in questions]
        if answer.error_code:
            return [dict.fromkeys(each.partitions, error_code(answer.error_code)) for each in questions]
        results = {each.transactional_id: each for each in answer.results_by_transaction}
        return [_errors_of(each, results.get(each.transactional_id)) for each in questions]


def _of_different_transactions(questions: Sequence[_Question]) -> list[list[_Question]]:
    """The questions in groups in which no transactional id is twice."""
    groups: list[dict[str, _Question]] = []
    for question in questions:
        for group in groups:
            if question.transactional_id not in group:
                group[question.transactional_id] = question
                break
        else:
            groups.append({question.transactional_id: question})
    return [list(group.values()) for group in groups]


def _transaction(question: _Question) -> AddPartitionsToTxnTransaction:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for name in question.partitions:
        by_topic[name.topic].append(name.partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=question.verify_only,
        topics=tuple(AddPartitionsToTxnTopic(topic, tuple(indexes)) for topic, indexes in by_topic.items()),
    )


def _errors_of(question: _Question, result: AddPartitionsToTxnResult | None) -> Mapping[TopicPartition, ErrorCode]:
    """The error of each partition; of one that the answer leaves out nothing is known."""
    answered = {
        TopicPartition(topic.name, each.partition_index): error_code(each.partition_error_code)
        for topic in (result.topic_results if result is not None else ())
        for each in topic.results_by_partition
    }
    return {name: answered.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in question.partitions}
