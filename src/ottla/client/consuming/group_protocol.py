"""What consumers of a group tell each other through the broker, which does not look inside.

A subscription contains the topics of a member, an assignment its partitions. Both start with a version of two bytes.
Source: the ConsumerProtocolSubscription and ConsumerProtocolAssignment schemas of Kafka.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

_VERSION_BYTES = 2
_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 1


class Subscription(NamedTuple):
    """What one member wants, what it has, and since which generation."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes for JoinGroup."""
    message = ConsumerProtocolSubscription(
        topics=tuple(sorted(subscription.topics)),
        user_data=None,
        owned_partitions=tuple(
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _grouped(subscription.owned)
        ),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _SUBSCRIPTION_VERSION.to_bytes(_VERSION_BYTES, "big") + message.encode(_SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes) -> Subscription:
    """Read a member's subscription. Raises MessageError."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    message = ConsumerProtocolSubscription.decode(version, data, _VERSION_BYTES)
    owned = _flat((each.topic, each.partitions) for each in message.owned_partitions)
    return Subscription(message.topics, owned, message.generation_id, message.rack_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The bytes for SyncGroup."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _grouped(partitions)
        ),
        user_data=None,
    )
    return _ASSIGNMENT_VERSION.to_bytes(_VERSION_BYTES, "big") + message.encode(_ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Read what a member was given; nothing for no bytes. Raises MessageError."""
    if not data:
        return ()
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    message = ConsumerProtocolAssignment.decode(version, data, _VERSION_BYTES)
    return _flat((each.topic, each.partitions) for each in message.assigned_partitions)


def _grouped(partitions: Iterable[TopicPartition]) -> list[tuple[str, tuple[int, ...]]]:
    by_topic: dict[str, list[int]] = {}
    for topic_partition in partitions:
        by_topic.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return [(topic, tuple(sorted(numbers))) for topic, numbers in sorted(by_topic.items())]


def _flat(topics: Iterable[tuple[str, Sequence[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, numbers in topics for number in numbers)
