"""What those who ask something of a group are told."""

from collections.abc import Mapping
from dataclasses import field

from ottla.coordination.outcome import Answer
from ottla.groups.records import CommittedOffset
from ottla.model.error_code import ErrorCode
from ottla.model.lazy_dataclass import dataclass
from ottla.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader gets to know it, with its subscription for the protocol that was chosen."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer(Answer):
    """The generation a member takes part in. Only the leader gets `members`, and assigns unless told to skip it.

    With MEMBER_ID_REQUIRED `member_id` is the id to join again with.
    """

    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer(Answer):
    """What a member is to work on."""

    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer(Answer):
    """Whether the member may go on; REBALANCE_IN_PROGRESS asks it to join again."""


@dataclass(frozen=True, slots=True)
class LeftMember:
    """The outcome for one member that was to leave."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswer(Answer):
    """The outcome for each member that was to leave, in the order of the request."""

    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitAnswer(Answer):
    """Whether the offsets are stored; `refused` has those partitions that are not, whatever `error` says."""

    refused: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchAnswer(Answer):
    """The offsets of a group, None where it has none."""

    offsets: Mapping[TopicPartition, CommittedOffset | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteOffsetsAnswer(Answer):
    """The outcome for each partition."""

    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteGroupAnswer(Answer):
    """Whether the group is gone."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member as administrators see it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribeAnswer(Answer):
    """A group as administrators see it; GROUP_ID_NOT_FOUND and the state Dead when there is none."""

    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list of groups; `group_type` is Kafka's name for the protocol its members speak."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"
