"""What members of a classic consumer group tell each other through the coordinator.

Written by tools/generate_protocol.py from schemas/messages/consumer_protocol.schema.
Change the table, not this file.
"""

from typing import ClassVar

from ottla.model.lazy_dataclass import dataclass
from ottla.protocol.message import Message


@dataclass(frozen=True, slots=True)
class ConsumerProtocolSubscriptionTopicPartition:
    """Stands in `ConsumerProtocolSubscription.owned_partitions`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class ConsumerProtocolSubscription(Message):
    """The data, versions 0-3, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[ConsumerProtocolSubscriptionTopicPartition, ...] = ()  # 1+
    generation_id: int = -1  # int32, 2+
    rack_id: str | None = None  # 3+


@dataclass(frozen=True, slots=True)
class ConsumerProtocolAssignmentTopicPartition:
    """Stands in `ConsumerProtocolAssignment.assigned_partitions`."""

    topic: str = ""
    partitions: tuple[int, ...] = ()  # int32


@dataclass(frozen=True, slots=True)
class ConsumerProtocolAssignment(Message):
    """The data, versions 0-3, never flexible."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 3

    assigned_partitions: tuple[ConsumerProtocolAssignmentTopicPartition, ...] = ()
    user_data: bytes | None = None
