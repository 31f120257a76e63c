"""Decides about elections of leaders that somebody asks for (KIP-183, KIP-460).

A preferred election gives a partition back to the first of its replicas; an unclean one finds a leader for a partition
that has none. While every replica is on one broker there is nothing to move: what is asked for is answered with the
reason why nothing happens.

Errors: ELECTION_NOT_NEEDED (the leader is the one that is asked for), PREFERRED_LEADER_NOT_AVAILABLE,
ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION.
"""

from collections.abc import Sequence
from enum import IntEnum

from ottla.metadata.controller.decision import Decision
from ottla.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition


class ElectionType(IntEnum):
    """What is asked for; the numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


ElectionOutcomes = list[tuple[TopicPartition, ApiError]]
"""Why each partition keeps the leader it has."""


def decide_leader_election(
    image: MetadataImage, election: ElectionType, wanted: Sequence[TopicPartition] | None
) -> Decision[ElectionOutcomes]:
    """Decide about the partitions `wanted`, in their order; with None about all, without those that need nothing."""
    if wanted is not None:
        return Decision((), [(each, _wanted_outcome(image, election, each)) for each in wanted])
    outcomes = [
        (TopicPartition(topic.name, partition.index), _outcome(election, partition))
        for topic in image.topics()
        for partition in topic.partitions
    ]
    return Decision((), [each for each in outcomes if each[1].code is not ErrorCode.ELECTION_NOT_NEEDED])


def _wanted_outcome(image: MetadataImage, election: ElectionType, wanted: TopicPartition) -> ApiError:
    if image.topic(wanted.topic) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.topic}")
    partition = image.partition(*wanted)
    if partition is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {wanted}")
    return _outcome(election, partition)


def _outcome(election: ElectionType, partition: PartitionImage) -> ApiError:
    preferred = partition.replicas[0]
    if election is ElectionType.PREFERRED:
        if partition.leader == preferred:
            return ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred}, the preferred one, leads it already")
        return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {preferred} cannot take over")
    if partition.leader != NO_LEADER:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads it already")
    return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of its replicas is there to lead it")
