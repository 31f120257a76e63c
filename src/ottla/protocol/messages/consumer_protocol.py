"""What members of a classic consumer group tell each other through the coordinator.

Written by tools/generate_protocol.py from schemas/messages/consumer_protocol.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import Message


class ConsumerProtocolSubscriptionTopicPartition(Struct, frozen=True):
    """Stands in `ConsumerProtocolSubscription.owned_partitions`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


class ConsumerProtocolSubscription(Message, frozen=True):
    """The data, versions 0-3, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[ConsumerProtocolSubscriptionTopicPartition, ...] = ()  # 1+
    generation_id: int = -1  # int32, 2+
    rack_id: str | None = None  # 3+


class ConsumerProtocolAssignmentTopicPartition(Struct, frozen=True):
    """Stands in `ConsumerProtocolAssignment.assigned_partitions`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


class ConsumerProtocolAssignment(Message, frozen=True):
    """The data, versions 0-3, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    assigned_partitions: tuple[ConsumerProtocolAssignmentTopicPartition, ...] = ()
    user_data: bytes | None = None
