"""Decides about what a broker says of its data directories: which replica lies in which (KIP-858).

Errors, as Kafka answers them: STALE_BROKER_EPOCH for the whole request; UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
NOT_LEADER_OR_FOLLOWER (the broker has no replica of it).
"""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import ReplicaDirectoriesRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.unknown_topic import no_such_partition, no_such_topic_id


class ReplicaPlace(Struct, frozen=True):
    """A partition, and the id of the directory in which the broker has its replica."""

    topic_id: UUID
    index: int
    directory_id: UUID


def decide_replica_directories(
    image: MetadataImage, broker_id: int, broker_epoch: int, places: Sequence[ReplicaPlace]
) -> Decision[list[Outcome[None]]]:
    """Note where the replicas of a broker lie, each by itself. Raises ApiError STALE_BROKER_EPOCH."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered with epoch {broker_epoch}")
    changed: dict[UUID, dict[int, UUID]] = {}
    outcomes: list[Outcome[None]] = []
    for place in places:
        error = _refusal(image, broker_id, place)
        outcomes.append(error)
        if error is None and image.replica_directory(place.topic_id, place.index, broker_id) != place.directory_id:
            changed.setdefault(place.topic_id, {})[place.index] = place.directory_id
    records = tuple(
        ReplicaDirectoriesRecord(broker_id, topic_id, tuple(sorted(of_topic.items())))
        for topic_id, of_topic in changed.items()
    )
    return Decision(records, outcomes)


def _refusal(image: MetadataImage, broker_id: int, place: ReplicaPlace) -> ApiError | None:
    topic = image.topic_by_id(place.topic_id)
    if topic is None:
        return no_such_topic_id(place.topic_id)
    if not 0 <= place.index < len(topic.partitions):
        return no_such_partition(topic.name, place.index)
    if broker_id not in topic.partitions[place.index].replicas:
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} has no replica of {topic.name}-{place.index}"
        )
    return None
