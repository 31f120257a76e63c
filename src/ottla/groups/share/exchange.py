"""What is said between a share group and those who ask.

The protocol of share groups is Kafka's alone, so its own messages are used, as for streams groups.
"""

from enum import Enum
from uuid import UUID

from msgspec import Struct, field

from ottla.coordination.outcome import Answer
from ottla.protocol.messages.share_group_describe import DescribedGroup
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

TopicPartitions = dict[UUID, tuple[int, ...]]
"""Partitions by the id of their topic, in order."""


class ShareHeartbeat(Struct, frozen=True):
    """A heartbeat, and whose client it came from."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str


class ShareHeartbeatAnswer(Answer, frozen=True):
    """What the member is told.

    `to_initialize` are partitions that the group reads and that have no state yet. Whoever carries the answer has their
    state made, and reports it by `PartitionsInitialized`; they are assigned after that.
    """

    message: str | None = None
    response: ShareGroupHeartbeatResponse | None = None
    to_initialize: TopicPartitions = field(default_factory=dict)


class PartitionsInitialized(Struct, frozen=True):
    """The state of these partitions exists."""

    group_id: str
    partitions: TopicPartitions


class ShareDescribeAnswer(Answer, frozen=True):
    """A group as administrators see it; None with GROUP_ID_NOT_FOUND."""

    message: str | None = None
    group: DescribedGroup | None = None


class OffsetsPurpose(Enum):
    """Why the offsets of a share group are asked for."""

    DESCRIBE = "describe"
    ALTER = "alter"
    BEGIN = "begin"
    DELETE = "delete"


class ShareOffsets(Struct, frozen=True):
    """The partitions of topics, by id, or of all topics of a group (None), whose start offsets are to be told, changed
    or deleted. `ALTER` takes partitions without state too, `BEGIN` nothing else, and groups with members.
    """

    group_id: str
    purpose: OffsetsPurpose
    topics: TopicPartitions | None = None


class ShareOffsetsAnswer(Answer, frozen=True):
    """The partitions that have state, by the id of their topic, of those asked for; and the epoch of the group, by
    which a change of their state is newer than all before.
    """

    message: str | None = None
    partitions: TopicPartitions = field(default_factory=dict)
    epoch: int = 0
