"""What classic consumers put into JoinGroup and SyncGroup, read and written by the coordinator.

In a classic group these are bytes between the members. A consumer group that has classic members reads their
subscriptions and writes their assignments itself: an int16 version, then the message in it.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar
from uuid import UUID

from ottla.metadata.image.image import MetadataImage
from ottla.native.errors import MessageError
from ottla.protocol.message import Message
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)

_VERSION: Final = struct.Struct(">h")
_M = TypeVar("_M", bound=Message)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """The subscription of a member. Raises MessageError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes, image: MetadataImage) -> dict[UUID, list[int]]:
    """The assignment of a member, by the ids its topics have now; nothing for none. Raises MessageError."""
    if not data:
        return {}
    assignment = _read(ConsumerProtocolAssignment, data)
    return by_topic_id(((each.topic, each.partitions) for each in assignment.assigned_partitions), image)


def by_topic_id(partitions: Iterable[tuple[str, Iterable[int]]], image: MetadataImage) -> dict[UUID, list[int]]:
    """Partitions by the ids of the topics that have these names now."""
    found: dict[UUID, list[int]] = {}
    for name, indexes in partitions:
        topic = image.topic(name)
        if topic is not None:
            found.setdefault(topic.topic_id, []).extend(indexes)
    return found


def write_assignment(partitions: Mapping[UUID, Iterable[int]], image: MetadataImage, subscription: bytes) -> bytes:
    """An assignment for a member, in the version of its subscription; topics that are gone are left out."""
    version = min(max(_version(subscription), ConsumerProtocolAssignment.MIN_VERSION), 3)
    named = sorted(
        (topic.name, tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
        if (topic := image.topic_by_id(topic_id)) is not None
    )
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=tuple(ConsumerProtocolAssignmentTopicPartition(*each) for each in named)
    )
    return _VERSION.pack(version) + assignment.encode(version)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MessageError("embedded consumer protocol: ends within its version")
    return int(_VERSION.unpack_from(data)[0])


def _read(message: type[_M], data: bytes) -> _M:
    """A message in its version, or in the highest that is known here: later ones add fields at the end."""
    version = _version(data)
    if version < message.MIN_VERSION:
        raise MessageError(f"embedded consumer protocol: version {version}")
    if version <= message.MAX_VERSION:
        return message.decode(version, data, _VERSION.size)
    raise MessageError(f"embedded consumer protocol: version {version} is above {message.MAX_VERSION}")
