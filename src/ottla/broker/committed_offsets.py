"""Where groups go on: committed offsets, by the names or the ids of topics.

Topics are resolved here and nowhere else: what names no topic, or no partition of one, is refused on its own, and an
offset reaches the coordinator with the id of the topic it is meant for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ottla.broker.access import Authorizer, Operation, ResourceType
from ottla.broker.transaction_gate import Entry, TransactionGate, TransactionSupport
from ottla.groups.answers import CommitAnswer, DeleteOffsetsAnswer, FetchAnswer
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.records import CommittedOffset
from ottla.groups.requests import (
    CommitOffsets,
    Committer,
    DeleteOffsets,
    FetchOffsets,
    OffsetToCommit,
    TopicOffsetsToCommit,
)
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.producer_state import NO_SEQUENCE

NameOrId: TypeAlias = str | UUID
"""How a client names a topic."""

ErrorsByTopic: TypeAlias = list[list[ErrorCode]]
"""Of each topic of a request the outcome for each of its partitions, in the order of the request."""


NO_OFFSET: Final = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", commit_timestamp_ms=-1)
"""What a partition without a committed offset has instead."""


class TopicOffsets(Struct, frozen=True):
    """The committed offsets of one topic, by partition index.

    `name` is empty when a client gave an id that no topic has, `topic_id` None when no topic has the name.
    """

    name: str
    topic_id: UUID | None
    partitions: list[tuple[int, CommittedOffset]]
    error: ErrorCode = ErrorCode.NONE
    unstable: frozenset[int] = frozenset()
    """The partitions of which the offset is not to be told yet."""

    def error_of(self, index: int) -> ErrorCode:
        """What is wrong with one partition."""
        return ErrorCode.UNSTABLE_OFFSET_COMMIT if index in self.unstable else self.error


class GroupOffsets(Struct, frozen=True):
    """The committed offsets of a group, or why they cannot be told."""

    error: ErrorCode
    topics: list[TopicOffsets]


class CommittedOffsetService:
    """Belongs to the event loop. Each waiter is called exactly once, at once or when the coordinator answers."""

    __slots__ = ("_authorizer", "_coordinator", "_current_image", "_gate", "_replicas")

    def __init__(
        self,
        coordinator: GroupCoordinator,
        authorizer: Authorizer,
        current_image: Callable[[], MetadataImage],
        gate: TransactionGate,
        replicas: ReplicaManager,
    ) -> None:
        self._coordinator = coordinator
        self._authorizer = authorizer
        self._current_image = current_image
        self._gate = gate
        self._replicas = replicas

    def commit(
        self,
        principal: Principal,
        committer: Committer,
        topics: Sequence[tuple[NameOrId, Sequence[OffsetToCommit]]],
        waiter: Callable[[ErrorsByTopic], None],
    ) -> None:
        """Store offsets of a group."""
        if self._may(principal, Operation.READ, committer.group_id):
            self._commit(principal, CommitOffsets(committer, ()), topics, waiter)
        else:
            _refuse(topics, ErrorCode.GROUP_AUTHORIZATION_FAILED, waiter)

    def commit_in_transaction(
        self,
        principal: Principal,
        transactional_id: str,
        producer: ProducerIdentity,
        committer: Committer,
        topics: Sequence[tuple[NameOrId, Sequence[OffsetToCommit]]],
        support: TransactionSupport,
        waiter: Callable[[ErrorsByTopic], None],
    ) -> None:
        """Store offsets of a group that hold when the transaction of a producer is committed (TxnOffsetCommit).

        They wait until the coordinator of the transaction knows of the partition that the group's offsets are kept in.
        """
        if not self._authorizer.allows(principal, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            _refuse(topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, waiter)
            return
        if not self._may(principal, Operation.READ, committer.group_id):
            _refuse(topics, ErrorCode.GROUP_AUTHORIZATION_FAILED, waiter)
            return
        if not committer.group_id:
            _refuse(topics, ErrorCode.INVALID_GROUP_ID, waiter)
            return
        try:
            partition = self._replicas.get(CONSUMER_OFFSETS_TOPIC, self._coordinator.partition_of(committer.group_id))
        except ApiError:
            _refuse(topics, ErrorCode.NOT_COORDINATOR, waiter)
            return

        def on_entered(entry: Entry) -> None:
            if entry.error is ErrorCode.NONE:
                request = CommitOffsets(committer, (), producer, entry.guard)
                self._commit(principal, request, topics, waiter)
            else:
                _refuse(topics, _AS_COORDINATOR.get(entry.error, entry.error), waiter)

        self._gate.enter(partition, transactional_id, *producer, NO_SEQUENCE, support, on_entered)

    def _commit(
        self,
        principal: Principal,
        request: CommitOffsets,
        topics: Sequence[tuple[NameOrId, Sequence[OffsetToCommit]]],
        waiter: Callable[[ErrorsByTopic], None],
    ) -> None:
        """Store offsets, those of topics that are there and that the principal may read."""
        found = [self._find(principal, topic) for topic, _ in topics]

        def answered(answer: CommitAnswer) -> None:
            refused = answer.refused
            waiter(
                [
                    [_outcome(topic, asked, offset.partition, refused, answer.error) for offset in offsets]
                    for topic, (asked, offsets) in zip(found, topics, strict=True)
                ]
            )

        known = []
        for topic, (_, offsets) in zip(found, topics, strict=True):
            if isinstance(topic, TopicImage):
                count = len(topic.partitions)
                kept = tuple(offset for offset in offsets if 0 <= offset.partition < count)
                if kept:
                    known.append(TopicOffsetsToCommit(topic.name, topic.topic_id, kept))
        if known:
            self._coordinator.commit_offsets(replace(request, topics=tuple(known)), answered)
        else:
            answered(CommitAnswer())

    def fetch(
        self,
        principal: Principal,
        group_id: str,
        topics: Sequence[tuple[NameOrId, Sequence[int]]] | None,
        waiter: Callable[[GroupOffsets], None],
        member_id: str | None = None,
        member_epoch: int = -1,
        *,
        require_stable: bool = False,
    ) -> None:
        """Read offsets of a group: of partitions of some topics, or with None all it has; a member says who it is.

        With `require_stable` those that a transaction may change are not told (KIP-447).

        A name that no topic has is no error: there is no offset for it.
        """
        if not self._may(principal, Operation.DESCRIBE, group_id):
            waiter(GroupOffsets(ErrorCode.GROUP_AUTHORIZATION_FAILED, []))
            return
        image = self._current_image()
        refused: list[TopicOffsets] = []
        partitions: list[TopicPartition] | None = None
        if topics is not None:
            partitions = []
            for asked, indexes in topics:
                found = self._find(principal, asked, Operation.DESCRIBE)
                if isinstance(found, TopicImage):
                    partitions.extend(TopicPartition(found.name, index) for index in indexes)
                elif isinstance(asked, UUID):
                    refused.append(TopicOffsets("", asked, [(index, NO_OFFSET) for index in indexes], found))
                elif found is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    refused.append(TopicOffsets(asked, None, [(index, NO_OFFSET) for index in indexes], found))
                else:
                    partitions.extend(TopicPartition(asked, index) for index in indexes)

        def answered(answer: FetchAnswer) -> None:
            by_topic: dict[str, list[tuple[int, CommittedOffset]]] = {}
            for (name, index), committed in answer.offsets.items():
                shown = NO_OFFSET if (name, index) in answer.unstable else committed or NO_OFFSET
                by_topic.setdefault(name, []).append((index, shown))
            told = []
            for name, of_topic in by_topic.items():
                if topics is None and not self._may_see(principal, name):
                    continue
                topic = image.topic(name)
                topic_id = None if topic is None else topic.topic_id
                unstable = frozenset(index for each, index in answer.unstable if each == name)
                told.append(TopicOffsets(name, topic_id, of_topic, unstable=unstable))
            waiter(GroupOffsets(answer.error, told if answer.error is not ErrorCode.NONE else told + refused))

        wanted = None if partitions is None else tuple(partitions)
        self._coordinator.fetch_offsets(
            FetchOffsets(group_id, wanted, member_id, member_epoch, require_stable), answered
        )

    def delete(
        self,
        principal: Principal,
        group_id: str,
        topics: Sequence[tuple[str, Sequence[int]]],
        waiter: Callable[[ErrorCode, ErrorsByTopic], None],
    ) -> None:
        """Remove offsets of topics that the group does not read. An error of the group stands alone."""
        if not group_id:
            waiter(ErrorCode.INVALID_GROUP_ID, [])
            return
        if not self._may(principal, Operation.DELETE, group_id):
            waiter(ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
            return
        found = [self._find(principal, name) for name, _ in topics]
        partitions = tuple(
            TopicPartition(topic.name, index)
            for topic, (_, indexes) in zip(found, topics, strict=True)
            if isinstance(topic, TopicImage)
            for index in indexes
            if 0 <= index < len(topic.partitions)
        )

        def answered(answer: DeleteOffsetsAnswer) -> None:
            if answer.error is not ErrorCode.NONE:
                waiter(answer.error, [])
                return
            outcomes = answer.partitions
            waiter(
                ErrorCode.NONE,
                [
                    [_outcome(topic, name, index, outcomes, ErrorCode.NONE) for index in indexes]
                    for topic, (name, indexes) in zip(found, topics, strict=True)
                ],
            )

        self._coordinator.delete_offsets(DeleteOffsets(group_id, partitions), answered)

    def _find(
        self, principal: Principal, asked: NameOrId, operation: Operation = Operation.READ
    ) -> TopicImage | ErrorCode:
        """The topic, or why the principal cannot have to do with it; of what he may not see, not even whether it is."""
        image = self._current_image()
        topic = image.topic(asked) if isinstance(asked, str) else image.topic_by_id(asked)
        name = asked if isinstance(asked, str) else None if topic is None else topic.name
        if name is not None and not self._authorizer.allows(principal, operation, ResourceType.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return _unknown(asked) if topic is None else topic

    def _may(self, principal: Principal, operation: Operation, group_id: str) -> bool:
        return self._authorizer.allows(principal, operation, ResourceType.GROUP, group_id)

    def _may_see(self, principal: Principal, topic: str) -> bool:
        return self._authorizer.allows(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _refuse(
    topics: Sequence[tuple[NameOrId, Sequence[OffsetToCommit]]],
    error: ErrorCode,
    waiter: Callable[[ErrorsByTopic], None],
) -> None:
    waiter([[error] * len(offsets) for _, offsets in topics])


_AS_COORDINATOR: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a client that commits offsets is told instead of what concerns the partition that they are kept in."""


def _unknown(asked: NameOrId) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(asked, str) else ErrorCode.UNKNOWN_TOPIC_ID


def _outcome(
    topic: TopicImage | ErrorCode,
    asked: NameOrId,
    index: int,
    outcomes: Mapping[TopicPartition, ErrorCode],
    otherwise: ErrorCode,
) -> ErrorCode:
    """The outcome for one partition that was asked for; `outcomes` are the coordinator's."""
    if not isinstance(topic, TopicImage):
        return topic
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    outcome = outcomes.get(TopicPartition(topic.name, index), otherwise)
    # The coordinator says so of a topic that was deleted after it was found here.
    return _unknown(asked) if outcome is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else outcome
