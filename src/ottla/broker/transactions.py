"""Transactions, for whoever may have to do with them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ottla.broker.access import Authorizer, Operation, ResourceType
from ottla.coordination.outcome import Answer, Waiter
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.principal import Principal
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, is_internal_topic
from ottla.model.topic_partition import TopicPartition
from ottla.transactions.answers import (
    AddAnswer,
    DescribeTransactionAnswer,
    EndAnswer,
    InitAnswer,
    TransactionListing,
)
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.requests import AddPartitions, EndTransaction, InitProducer, TransactionFilter
from ottla.transactions.transaction import EPOCH_BUMP_VERSION, Partitions

OnErrors = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Told of each partition whether it has a part in the transaction, or why not."""

V1: Final = 0
V2: Final = EPOCH_BUMP_VERSION
"""The transaction versions of clients, as they are recorded (KIP-890)."""


class TransactionService:
    """Asks whether the principal may, then the coordinator. Belongs to the event loop.

    Each `waiter` is called exactly once, with the answer that `TransactionCoordinator` names, and with its error
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED for who may not.
    """

    __slots__ = ("_authorizer", "_coordinator", "_current_image", "_partition_of_group")

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        authorizer: Authorizer,
        current_image: Callable[[], MetadataImage],
        partition_of_group: Callable[[str], int],
    ) -> None:
        """`partition_of_group` says which partition of the offsets topic the offsets of a group go to."""
        self._coordinator = coordinator
        self._authorizer = authorizer
        self._current_image = current_image
        self._partition_of_group = partition_of_group

    def init_producer(self, principal: Principal, request: InitProducer, waiter: Waiter) -> None:
        """Become the producer of a transactional id."""
        if self._may(principal, Operation.WRITE, request.transactional_id, waiter, InitAnswer):
            self._coordinator.init_producer(request, waiter)

    def add_partitions(
        self, principal: Principal, request: AddPartitions, waiter: Callable[[ErrorCode, AddAnswer], None]
    ) -> None:
        """Have partitions take part in a transaction.

        The waiter gets an error that concerns the transactional id, or NONE and the outcomes for the partitions: where
        one of them cannot be written to, those that could be are OPERATION_NOT_ATTEMPTED.
        """
        if not self._authorizer.allows(
            principal, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
        ):
            waiter(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AddAnswer())
            return
        refused = {}
        for partition in request.partitions:
            error = self._check_partition(principal, partition)
            if error is not ErrorCode.NONE:
                refused[partition] = error
        if refused:
            everything = dict.fromkeys(request.partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
            waiter(ErrorCode.NONE, AddAnswer(refused=everything))
        else:
            self._coordinator.add_partitions(request, lambda answer: waiter(ErrorCode.NONE, answer))

    def add_offsets(
        self,
        principal: Principal,
        transactional_id: str,
        producer: ProducerIdentity,
        group_id: str,
        waiter: Callable[[ErrorCode], None],
    ) -> None:
        """Have the offsets of a group take part in a transaction (AddOffsetsToTxn).

        COORDINATOR_NOT_AVAILABLE where this broker has not heard of their topic yet, for the reason that
        `add_or_verify` gives.
        """
        allows = self._authorizer.allows
        if not allows(principal, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            waiter(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        if not allows(principal, Operation.READ, ResourceType.GROUP, group_id):
            waiter(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, self._partition_of_group(group_id))
        if not self._is_known(partition):
            waiter(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._coordinator.add_partitions(
                AddPartitions(transactional_id, producer, (partition,), V1), lambda answer: waiter(answer.error)
            )

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
        """On behalf of who writes to partitions: have them take part in the transaction, or ask whether they do.

        `waiter` is called exactly once, with an error for each partition. One of which this broker has not heard yet is
        UNKNOWN_TOPIC_OR_PARTITION, and takes no part: its marker would be taken for one of a topic that was deleted.
        """

        def answered(answer: AddAnswer) -> None:
            if answer.error is not ErrorCode.NONE:
                waiter(dict.fromkeys(known, answer.error) | unknown)
            else:
                waiter(dict.fromkeys(known, ErrorCode.NONE) | dict(answer.refused) | unknown)

        unknown: dict[TopicPartition, ErrorCode] = {}
        if not verify_only:
            unknown = {each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in partitions if not self._is_known(each)}
        known = tuple(each for each in partitions if each not in unknown)
        if not known:
            waiter(unknown)
            return
        request = AddPartitions(
            transactional_id,
            ProducerIdentity(producer_id, producer_epoch),
            known,
            V1 if verify_only else V2,
            verify_only,
        )
        self._coordinator.add_partitions(request, answered)

    def end(self, principal: Principal, request: EndTransaction, waiter: Waiter) -> None:
        """Commit or abort."""
        if self._may(principal, Operation.WRITE, request.transactional_id, waiter, EndAnswer):
            self._coordinator.end(request, waiter)

    def describe(self, principal: Principal, transactional_id: str, waiter: Waiter) -> None:
        """A transactional id and the partitions of its transaction, of those the principal may see."""

        def answered(answer: DescribeTransactionAnswer) -> None:
            shown: Partitions = {
                topic: numbers
                for topic, numbers in answer.partitions.items()
                if self._authorizer.allows(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)
            }
            waiter(replace(answer, partitions=shown))

        if self._may(principal, Operation.DESCRIBE, transactional_id, waiter, DescribeTransactionAnswer):
            self._coordinator.describe(transactional_id, answered)

    async def list_transactions(self, principal: Principal, wanted: TransactionFilter) -> list[TransactionListing]:
        """The transactional ids this broker coordinates, of those the principal may see. Raises ApiError while some
        are loaded.
        """
        listed = await self._coordinator.list_transactions(wanted)
        allows = self._authorizer.allows
        return [
            each
            for each in listed
            if allows(principal, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
        ]

    def _check_partition(self, principal: Principal, partition: TopicPartition) -> ErrorCode:
        if is_internal_topic(partition.topic):
            # Their coordinators alone write there, and so have them take part.
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not self._authorizer.allows(principal, Operation.WRITE, ResourceType.TOPIC, partition.topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE if self._is_known(partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _is_known(self, partition: TopicPartition) -> bool:
        topic = self._current_image().topic(partition.topic)
        return topic is not None and 0 <= partition.partition < len(topic.partitions)

    def _may(
        self,
        principal: Principal,
        operation: Operation,
        transactional_id: str,
        waiter: Waiter,
        answer_type: type[Answer],
    ) -> bool:
        if self._authorizer.allows(principal, operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return True
        waiter(answer_type(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return False
