"""Decides about more partitions for topics.

Errors, as Kafka answers them: INVALID_REQUEST (a topic twice), UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS (not
more than there are), INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, POLICY_VIOLATION.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.replica_assignment import new_partition, validate_replicas
from ottla.metadata.controller.replica_placement import place_replicas
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.image import MetadataImage, TopicImage
from ottla.metadata.records import MetadataRecord, PartitionsAddedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.unknown_topic import no_such_topic
from ottla.runtime.rng import Rng


class NewPartitions(Struct, frozen=True):
    """How many partitions a topic is to have in all, and the brokers of the new ones when the request names them."""

    topic: str
    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


def decide_partition_growth(
    image: MetadataImage, requests: Sequence[NewPartitions], limits: TopicLimits, rng: Rng
) -> Decision[dict[str, Outcome[int]]]:
    """Decide about each topic by itself; the outcome is its new partition count."""
    outcomes: dict[str, Outcome[int]] = {}
    records: list[MetadataRecord] = []
    occurrences = Counter(request.topic for request in requests)
    planned: dict[int, int] = {}
    planned_count = 0
    active = image.active_brokers()
    for request in requests:
        try:
            if occurrences[request.topic] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name: the request repeats {request.topic}")
            topic = _growing_topic(image, request)
            added_count = request.total_count - len(topic.partitions)
            limits.require_request_size(planned_count + added_count)
            replicas = _replicas(image, topic, request, added_count, rng)
            limits.require_capacity(image, replicas, planned)
            partitions = tuple(new_partition(each, active) for each in replicas)
        except ApiError as error:
            outcomes[request.topic] = error
            continue
        planned_count += added_count
        records.append(PartitionsAddedRecord(topic.topic_id, partitions))
        outcomes[request.topic] = request.total_count
    return Decision(tuple(records), outcomes)


def _growing_topic(image: MetadataImage, request: NewPartitions) -> TopicImage:
    topic = image.topic(request.topic)
    if topic is None:
        raise no_such_topic(request.topic)
    count = len(topic.partitions)
    if request.total_count == count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s): {topic.name}")
    if request.total_count < count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s), {request.total_count} would not be an "
            "increase",
        )
    return topic


def _replicas(
    image: MetadataImage, topic: TopicImage, request: NewPartitions, added_count: int, rng: Rng
) -> list[tuple[int, ...]]:
    if request.assignments is None:
        return place_replicas(image.brokers.values(), added_count, topic.replication_factor, rng)
    if len(request.assignments) != added_count:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added_count} additional partition(s) are to be added to {topic.name}, the assignment(s) specified are "
            f"{len(request.assignments)}",
        )
    first = len(topic.partitions)
    return [
        validate_replicas(image.brokers, first + index, replicas, topic.replication_factor)
        for index, replicas in enumerate(request.assignments)
    ]
