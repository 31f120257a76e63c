"""What those who ask something of a group are told."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from msgspec import Struct, field

from ottla.coordination.outcome import Answer
from ottla.groups.records import CommittedOffset
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition


class JoinedMember(Struct, frozen=True):
    """A member as the leader gets to know it, with its subscription for the protocol that was chosen."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(Answer, frozen=True):
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


class SyncAnswer(Answer, frozen=True):
    """What a member is to work on."""

    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatAnswer(Answer, frozen=True):
    """Whether the member may go on; REBALANCE_IN_PROGRESS asks it to join again."""


class LeftMember(Struct, frozen=True):
    """The outcome for one member that was to leave."""

    member_id: str
    instance_id: str | None
    error: ErrorCode


class LeaveAnswer(Answer, frozen=True):
    """The outcome for each member that was to leave, in the order of the request."""

    members: tuple[LeftMember, ...] = ()


class CommitAnswer(Answer, frozen=True):
    """Whether the offsets are stored; `refused` has those partitions that are not, whatever `error` says."""

    refused: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


class FetchAnswer(Answer, frozen=True):
    """The offsets of a group, None where it has none. `unstable` are those that are not to be told yet."""

    offsets: Mapping[TopicPartition, CommittedOffset | None] = field(default_factory=dict)
    unstable: frozenset[TopicPartition] = frozenset()


class DeleteOffsetsAnswer(Answer, frozen=True):
    """The outcome for each partition."""

    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


class DeleteGroupAnswer(Answer, frozen=True):
    """Whether the group is gone."""


class MemberDescription(Struct, frozen=True):
    """A member as administrators see it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribeAnswer(Answer, frozen=True):
    """A classic group as administrators see it; GROUP_ID_NOT_FOUND and the state Dead when there is none.

    `message` says why: there is no group, or one of another kind.
    """

    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[MemberDescription, ...] = ()
    message: str | None = None


class GroupListing(Struct, frozen=True):
    """A group in a list of groups; `group_type` is Kafka's name for the protocol its members speak."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = "classic"


class ConsumerHeartbeatAnswer(Answer, frozen=True):
    """How far a member of a consumer group has come, and when to be heard of again.

    `assignment` is by topic id, and None when it is what the member was told before. `message` says what was wrong.
    """

    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[UUID, Sequence[int]] | None = None
    message: str | None = None


class ConsumerMemberDescription(Struct, frozen=True):
    """A member of a consumer group as administrators see it; assignments by topic id.

    `is_classic` says that it speaks the classic protocol: the group is moving from one to the other.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    assignment: Mapping[UUID, Sequence[int]]
    target: Mapping[UUID, Sequence[int]]
    is_classic: bool


class ConsumerDescribeAnswer(Answer, frozen=True):
    """A consumer group as administrators see it; GROUP_ID_NOT_FOUND when there is none, or one of another kind."""

    state: str = "Dead"
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[ConsumerMemberDescription, ...] = ()
    message: str | None = None
