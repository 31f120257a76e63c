"""Decides about partitions that are to be on other brokers (KIP-455).

    asked for          replicas 1,2,3 -> 4,2,3       replicas 4,2,3,1   adding 4   removing 1
    all that stay are in sync (a leader's proposal)  replicas 4,2,3
    cancelled before                                 replicas 2,3,1
    asked for 5,2,3 before                           replicas 5,2,3,1   adding 5   removing 1

Nothing is taken away before what stays is in sync, so that no moment has fewer copies than before. What needs no new
copy is done at once. What is asked for while another move is on its way takes its place, and is cancelled to the
replicas before both. Who was to be added and is not any more goes at once; one that is in sync already goes with the
others, and is listed as added and as removed. The order of the replicas is the order in which they are preferred as
leaders.

Errors, as Kafka answers them: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR (their
number was not to change, KIP-860), NO_REASSIGNMENT_IN_PROGRESS, POLICY_VIOLATION (partitions.per.broker.max).
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.partition_leadership import begin_reassignment, cancel_reassignment
from ottla.metadata.controller.replica_assignment import validate_replicas
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.controller.topic_replication import ReplicationRule, ReplicationRules
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition


class Reassignment(Struct, frozen=True):
    """The brokers that a partition is to be on, the preferred leader first; None takes back what is under way."""

    topic: str
    index: int
    replicas: Sequence[int] | None


class OngoingReassignment(Struct, frozen=True):
    """A partition on its way; `replicas` has those in it that are added and removed."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def decide_reassignments(
    image: MetadataImage,
    requests: Sequence[Reassignment],
    limits: TopicLimits,
    broker_settings: Mapping[str, str],
    *,
    may_change_factor: bool = True,
    reason: str = "it was asked for",
) -> Decision[list[Outcome[None]]]:
    """Begin or cancel the reassignment of each partition by itself; the outcomes in the order of the requests."""
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers())
    outcomes: list[Outcome[None]] = []
    planned: dict[int, int] = {}
    for request in requests:
        try:
            topic, partition = _find(image, request)
            if request.replicas is None:
                _cancel(changes, topic, partition, reason)
            else:
                _begin(image, changes, topic, partition, request.replicas, limits, planned, may_change_factor, reason)
            outcomes.append(None)
        except ApiError as error:
            outcomes.append(error)
    return Decision(changes.records(), outcomes, changes.lines())


def ongoing_reassignments(
    image: MetadataImage, wanted: Sequence[TopicPartition] | None = None
) -> list[OngoingReassignment]:
    """The partitions on their way to other brokers, of those `wanted`, with None of all; others are left out."""
    if wanted is None:
        found = [
            (TopicPartition(topic.name, partition.index), partition)
            for topic in image.topics()
            for partition in topic.partitions
        ]
    else:
        found = [(each, partition) for each in wanted if (partition := image.partition(*each)) is not None]
    return [
        OngoingReassignment(name, partition.replicas, partition.adding, partition.removing)
        for name, partition in found
        if partition.is_reassigned
    ]


def _find(image: MetadataImage, request: Reassignment) -> tuple[TopicImage, PartitionImage]:
    topic, partition = image.topic(request.topic), image.partition(request.topic, request.index)
    if topic is None or partition is None:
        name = TopicPartition(request.topic, request.index)
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: there is no partition {name}")
    return topic, partition


def _begin(
    image: MetadataImage,
    changes: PartitionChanges,
    topic: TopicImage,
    partition: PartitionImage,
    replicas: Sequence[int],
    limits: TopicLimits,
    planned: dict[int, int],
    may_change_factor: bool,
    reason: str,
) -> None:
    target = validate_replicas(image.brokers, partition.index, replicas, None)
    factor = len(set(partition.replicas) - set(partition.removing))
    if not may_change_factor and len(target) != factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the partition has {factor} replicas and would have {len(target)}, which was not to change",
        )
    limits.require_capacity(image, [tuple(each for each in target if each not in partition.replicas)], planned)

    def step(state: PartitionState, rule: ReplicationRule, live: frozenset[int]) -> PartitionState:
        return begin_reassignment(state, target, live, min_isr=rule.min_isr)

    changes.one(topic, partition.index, reason, step)


def _cancel(changes: PartitionChanges, topic: TopicImage, partition: PartitionImage, reason: str) -> None:
    if not partition.is_reassigned:
        raise ApiError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            f"No partition reassignment is in progress for {topic.name}-{partition.index}",
        )

    def step(state: PartitionState, rule: ReplicationRule, live: frozenset[int]) -> PartitionState:
        after = cancel_reassignment(state, live, min_isr=rule.min_isr, may_lose_records=rule.may_lose_records)
        if after is None:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{topic.name}-{partition.index} cannot go back: only the brokers that were added are in sync, and "
                "unclean.leader.election.enable is false",
            )
        return after

    changes.one(topic, partition.index, f"the reassignment is cancelled: {reason}", step)
