"""Decides about new topics.

Errors, as Kafka answers them: INVALID_REQUEST (a name twice, an assignment beside counts, the name of Kafka's
metadata), INVALID_TOPIC_EXCEPTION (an illegal name, or one that differs from another only in `.` and `_`),
TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG,
POLICY_VIOLATION.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct, field

from ottla.metadata.controller.decision import Decision, Outcome
from ottla.metadata.controller.delay_target import require_sound_target
from ottla.metadata.controller.replica_assignment import new_partition, validate_assignments
from ottla.metadata.controller.replica_placement import place_replicas
from ottla.metadata.controller.topic_config import validated_topic_config
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.metadata.records import ConfigRecord, MetadataRecord, TopicRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import (
    CLUSTER_METADATA_TOPIC,
    KEPT_TOPIC_REPLICAS,
    KEPT_TOPICS,
    collision_key,
    validate_topic_name,
)
from ottla.runtime.rng import Rng

DEFAULT: Final = -1
"""Asks for the broker's default."""


class NewTopic(Struct, frozen=True):
    """A topic somebody asks for."""

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    """Partitions with their brokers; when given, both counts are -1."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


class CreatedTopic(Struct, frozen=True):
    """A topic that is there now, or would be if the request had not only asked to check."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    """What the topic sets itself."""


def decide_topic_creation(
    image: MetadataImage, topics: Sequence[NewTopic], limits: TopicLimits, rng: Rng
) -> Decision[dict[str, Outcome[CreatedTopic]]]:
    """Decide about each topic by itself, in the order of the request; names that occur twice are all refused."""
    outcomes: dict[str, Outcome[CreatedTopic]] = {}
    records: list[MetadataRecord] = []
    occurrences = Counter(topic.name for topic in topics)
    too_many = _request_error(topics, limits)
    collisions = _Collisions(image)
    planned: dict[int, int] = {}
    for topic in topics:
        if occurrences[topic.name] > 1:
            outcomes[topic.name] = ApiError(
                ErrorCode.INVALID_REQUEST, f"Duplicate topic name: the request repeats {topic.name}"
            )
            continue
        try:
            if too_many is not None:
                raise too_many
            collisions.require_free(topic.name)
            record, configs = _new_topic(image, topic, limits, rng, planned)
        except ApiError as error:
            outcomes[topic.name] = error
            continue
        collisions.add(topic.name)
        records.append(record)
        records.extend(ConfigRecord(ConfigResourceType.TOPIC, topic.name, key, value) for key, value in configs.items())
        outcomes[topic.name] = CreatedTopic(
            topic.name, record.topic_id, len(record.partitions), len(record.partitions[0].replicas), configs
        )
    return Decision(tuple(records), outcomes)


class _Collisions:
    """Names that a new topic must not come near. The index of names is built only when a name could collide."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._added: dict[str, str] = {}
        self._existing: dict[str, str] | None = None

    def require_free(self, name: str) -> None:
        """Raises ApiError INVALID_TOPIC_EXCEPTION, INVALID_REQUEST or TOPIC_ALREADY_EXISTS."""
        validate_topic_name(name)
        if name == CLUSTER_METADATA_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Creation of internal topic {name} is prohibited: Kafka keeps its metadata there",
            )
        if self._image.topic(name) is not None:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists")
        if "." not in name and "_" not in name:
            return
        if self._existing is None:
            self._existing = {collision_key(each): each for each in self._image.topics_by_name}
        key = collision_key(name)
        other = self._existing.get(key) or self._added.get(key)
        if other is not None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic {other}: metrics cannot tell '.' from '_'",
            )

    def add(self, name: str) -> None:
        self._added[collision_key(name)] = name


def _request_error(topics: Sequence[NewTopic], limits: TopicLimits) -> ApiError | None:
    """What is wrong with the request as a whole."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == DEFAULT:
            total += limits.num_partitions
        else:
            total += max(topic.num_partitions, 0)
    try:
        limits.require_request_size(total)
    except ApiError as error:
        return error
    return None


def _new_topic(
    image: MetadataImage, topic: NewTopic, limits: TopicLimits, rng: Rng, planned: dict[int, int]
) -> tuple[TopicRecord, dict[str, str]]:
    configs = validated_topic_config(topic.configs)
    require_sound_target(image, topic.name, configs)
    replicas = _assigned(image, topic) if topic.assignments else _placed(image, topic, limits, rng)
    limits.require_capacity(image, replicas, planned)
    active = image.active_brokers()
    return TopicRecord(topic.name, rng.uuid(), tuple(new_partition(each, active) for each in replicas)), configs


def _assigned(image: MetadataImage, topic: NewTopic) -> list[tuple[int, ...]]:
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"topic {topic.name}: with a manual partition assignment, partition count and replication factor must "
            "be set to -1",
        )
    return validate_assignments(image.brokers, topic.assignments)


def _placed(image: MetadataImage, topic: NewTopic, limits: TopicLimits, rng: Rng) -> list[tuple[int, ...]]:
    num_partitions = limits.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    if num_partitions < 1:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"Number of partitions of {topic.name} is below 1: {num_partitions}"
        )
    replication_factor = topic.replication_factor
    if replication_factor == DEFAULT:
        replication_factor = limits.default_replication_factor
        if topic.name in KEPT_TOPICS:
            replication_factor = max(replication_factor, min(KEPT_TOPIC_REPLICAS, len(image.active_brokers())))
    if replication_factor < 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor of {topic.name} must be larger than 0, or -1 to use the default value, not "
            f"{replication_factor}",
        )
    return place_replicas(image.brokers.values(), num_partitions, replication_factor, rng)
