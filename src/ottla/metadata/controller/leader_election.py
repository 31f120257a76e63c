"""Decides about elections of leaders: those that somebody asks for (KIP-183, KIP-460), and the balance of leaders.

A preferred election gives a partition back to the first of its replicas; an unclean one finds a leader for a partition
that has none, which may lose records.

Errors: ELECTION_NOT_NEEDED (the leader is the one that is asked for), PREFERRED_LEADER_NOT_AVAILABLE,
ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.partition_leadership import Election, elect
from ottla.metadata.controller.topic_replication import ReplicationRule, ReplicationRules
from ottla.metadata.image.image import NO_LEADER, MetadataImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition

ELECTIONS_PER_BALANCE: Final = 1_000
"""Leaders that one round of balancing moves at most, as in Kafka: each move stops a partition for a moment."""


class ElectionType(IntEnum):
    """What is asked for; the numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


ElectionOutcomes = list[tuple[TopicPartition, Outcome[None]]]
"""Of each partition that it was elected, or why it keeps the leader it has."""

UncleanOrders = Mapping[TopicPartition, Sequence[int]]
"""The replicas of partitions as an unclean election is to prefer them (`partition_leadership.unclean_order`)."""


def decide_leader_election(
    image: MetadataImage,
    election: ElectionType,
    wanted: Sequence[TopicPartition] | None,
    broker_settings: Mapping[str, str],
    unclean_orders: UncleanOrders | None = None,
) -> Decision[ElectionOutcomes]:
    """Decide about the partitions `wanted`, in their order; with None about all, without those that need nothing."""
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers())
    names = wanted
    if names is None:
        names = [
            TopicPartition(topic.name, partition.index) for topic in image.topics() for partition in topic.partitions
        ]
    outcomes: ElectionOutcomes = []
    for name in names:
        try:
            _elect(image, changes, election, name, (unclean_orders or {}).get(name))
            outcomes.append((name, None))
        except ApiError as error:
            if wanted is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.append((name, error))
    return Decision(changes.records(), outcomes, changes.lines())


def leaderless(image: MetadataImage, broker_settings: Mapping[str, str]) -> list[TopicPartition]:
    """The partitions without a leader whose topics may lose records to get one, and that have a live replica."""
    rules, live = ReplicationRules(image, broker_settings), image.active_brokers()
    return [
        TopicPartition(topic.name, partition.index)
        for topic in image.topics_by_id.values()
        for partition in topic.partitions
        if partition.leader == NO_LEADER
        and not (live - image.unusable_on(topic.topic_id, partition.index)).isdisjoint(partition.replicas)
        and rules.of(topic.name).may_lose_records
    ]


def decide_leader_balance(image: MetadataImage, broker_settings: Mapping[str, str]) -> Decision[bool]:
    """Give partitions back to the first of their replicas, where that is there and in sync.

    The result is whether there are more of them than one round moves.
    """
    active = image.active_brokers()
    movable = [
        (topic, partition)
        for topic in image.topics()
        for partition in topic.partitions
        if partition.leader != partition.replicas[0]
        and partition.replicas[0] in active
        and partition.replicas[0] in partition.isr
    ]
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), active)
    for topic, partition in movable[:ELECTIONS_PER_BALANCE]:
        changes.one(topic, partition.index, "leaders are balanced: the first replica is preferred", _preferred)
    return Decision(changes.records(), len(movable) > ELECTIONS_PER_BALANCE, changes.lines())


def _elect(
    image: MetadataImage,
    changes: PartitionChanges,
    election: ElectionType,
    name: TopicPartition,
    unclean_order: Sequence[int] | None,
) -> None:
    topic, partition = image.topic(name.topic), image.partition(*name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name.topic}")
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}")
    preferred = partition.replicas[0]
    if election is ElectionType.PREFERRED:
        if partition.leader == preferred:
            raise ApiError(
                ErrorCode.ELECTION_NOT_NEEDED,
                f"Leader election not needed: broker {preferred}, the preferred one, leads {name} already",
            )
        after = changes.one(topic, name.partition, "its preferred leader was asked for", _preferred)
        if after.leader != preferred:
            raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} cannot take over")
        return
    if partition.leader != NO_LEADER:
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED, f"Leader election not needed: broker {partition.leader} leads {name} already"
        )

    def step(state: PartitionState, rule: ReplicationRule, live: frozenset[int]) -> PartitionState:
        return elect(state, live, min_isr=rule.min_isr, election=Election.UNCLEAN, unclean_order=unclean_order)

    after = changes.one(topic, name.partition, "any leader was asked for, also one that lost records", step)
    if after.leader == NO_LEADER:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of its replicas is there to lead it")


def _preferred(state: PartitionState, rule: ReplicationRule, live: frozenset[int]) -> PartitionState:
    return elect(state, live, min_isr=rule.min_isr, election=Election.PREFERRED)
