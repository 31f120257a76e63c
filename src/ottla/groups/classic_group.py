"""A classic consumer group: its state, its generation and its members."""

from collections.abc import Iterable, Iterator

from ottla.groups.answers import JoinAnswer, JoinedMember
from ottla.groups.group import GroupType
from ottla.groups.group_state import TRANSITIONS, GroupState
from ottla.groups.members import GroupMembers, Member, MemberProtocol
from ottla.groups.records import CommittedOffset, GroupRecord, GroupSnapshot, MemberSnapshot
from ottla.groups.requests import CommitOffsets
from ottla.groups.subscription import subscribed_topics
from ottla.model.error_code import ErrorCode

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers; other users of groups (Kafka Connect) have theirs and no topics we know of."""


class ClassicGroup:
    """One group and the rules that hold within it; what follows from a request is decided beside it.

    `generation_id` grows with every rebalance. `leader_id` is the member that assigns. `protocol_type` is None for a
    group that only stores offsets (a simple consumer's). `pending_sync` are members of this generation that did not
    fetch their assignment yet. `is_recorded` says that the log holds a record of the group.
    """

    __slots__ = (
        "generation_id",
        "group_id",
        "initial_wait_left_ms",
        "is_recorded",
        "leader_id",
        "member_added_in_wait",
        "members",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "topics",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_since_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members = GroupMembers()
        self.pending_sync: dict[str, None] = {}
        self.topics: frozenset[str] | None = None
        self.is_recorded = False
        self.initial_wait_left_ms: int | None = None
        """In the first rebalance of an empty group: how much longer it may be put off for members still to come."""
        self.member_added_in_wait = False
        """Whether one came since the wait began or was last extended."""

    @property
    def group_type(self) -> GroupType:
        """Its kind."""
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        """Its state, as clients see it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is GroupState.EMPTY

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state; the transition must be in the table."""
        assert state in TRANSITIONS[self.state], f"group {self.group_id}: {self.state.value} to {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now; while one is prepared there is no need for another."""
        return GroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def is_first_rebalance(self) -> bool:
        """Whether the rebalance being prepared began when the group was empty."""
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    @property
    def is_blank(self) -> bool:
        """Whether nothing would be lost with it, offsets aside: no members now or to come, no record in the log."""
        return not (self.is_recorded or self.members or self.members.pending)

    def add(self, member: Member) -> None:
        """Take a member in; the first one decides the protocol type and leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        self.members.add(member)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Take a member, or a pending id, out; the next member in line leads if the leader went."""
        member = self.members.remove(member_id)
        self.pending_sync.pop(member_id, None)
        if self.leader_id == member_id:
            self.leader_id = next((other.member_id for other in self.members), None)
        return member

    def replace_static(self, member: Member, new_member_id: str) -> Member:
        """A static member came back: the same member under a new id, with the old one's place and assignment."""
        led = self.leader_id == member.member_id
        self.members.remove(member.member_id)
        self.pending_sync.pop(member.member_id, None)
        successor = Member(
            member_id=new_member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            protocol_type=member.protocol_type,
            protocols=member.protocols,
            assignment=member.assignment,
        )
        self.members.add(successor)
        if led:
            self.leader_id = new_member_id
        return successor

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it joined, else let the first member that did lead. False when nobody joined."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is None or not leader.awaits_join:
            leader = next((member for member in self.members if member.awaits_join), None)
        if leader is None:
            return False
        self.leader_id = leader.member_id
        return True

    def begin_generation(self, now_ms: int) -> None:
        """The rebalance is prepared: agree on a protocol, or become empty."""
        self.generation_id += 1
        self.pending_sync.clear()
        self.initial_wait_left_ms = None
        self.member_added_in_wait = False
        self.protocol_name = self.members.select_protocol() if self.members else None
        self.topics = self._subscribed_topics()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def supports(self, protocol_type: str, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether a member that offers these protocols can take part."""
        protocols = tuple(protocols)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and self.members.supports_any(protocols)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE when this is a member; FENCED_INSTANCE_ID when another client has its instance id now."""
        if instance_id is not None:
            current_id = self.members.static_member_id(instance_id)
            if current_id is not None and current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def joined(self, member_id: str, *, skip_assignment: bool = False) -> JoinAnswer:
        """What a member of the current generation is told; the leader gets to know the others."""
        members: tuple[JoinedMember, ...] = ()
        if member_id == self.leader_id:
            members = tuple(
                JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
                for member in self.members
            )
        return JoinAnswer(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id or "",
            skip_assignment=skip_assignment,
            members=members,
        )

    def snapshot(self) -> GroupSnapshot:
        """The generation, as it is written to the log."""
        return GroupSnapshot(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            state_since_ms=self.state_since_ms,
            members=tuple(
                MemberSnapshot(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members
            ),
        )

    @classmethod
    def from_snapshot(cls, group_id: str, snapshot: GroupSnapshot) -> "ClassicGroup":
        """The group as it was when the snapshot was taken; nobody waits in it."""
        group = cls(group_id, snapshot.state_since_ms)
        group.is_recorded = True
        group.generation_id = snapshot.generation_id
        group.protocol_type = snapshot.protocol_type or None
        group.protocol_name = snapshot.protocol_name
        group.leader_id = snapshot.leader_id
        group.state = GroupState.STABLE if snapshot.members else GroupState.EMPTY
        for member in snapshot.members:
            group.members.add(
                Member(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    protocol_type=snapshot.protocol_type,
                    protocols=(MemberProtocol(snapshot.protocol_name or "", member.subscription),),
                    assignment=member.assignment,
                )
            )
        group.topics = group._subscribed_topics()
        return group

    def check_commit(self, request: CommitOffsets) -> ErrorCode:
        """Whether this client may commit now: a member of this generation, or anybody while there are no members."""
        committer = request.committer
        if committer.generation_id < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if committer.generation_id < 0 and not committer.member_id and committer.instance_id is None:
            # A producer of old commits for a consumer that it does not name.
            return ErrorCode.NONE if committer.is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(committer.member_id, committer.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if committer.generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is GroupState.COMPLETING_REBALANCE and not committer.is_transactional:
            # The member knows the generation but not its assignment: let it hear of that first.
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Anybody may know the offsets of a classic group: its members do not say who they are."""
        return ErrorCode.NONE

    def unused_since_ms(self, topic: str, committed: CommittedOffset) -> int | None:
        """When the retention of an offset began; None while the group may be using it."""
        if self.protocol_type is None:
            return committed.commit_timestamp_ms
        if self.is_subscribed_to(topic):
            return None
        if self.state is GroupState.EMPTY:
            return self.state_since_ms if self.state_since_ms >= 0 else committed.commit_timestamp_ms
        knows_its_topics = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.topics is not None
        if knows_its_topics and self.state is GroupState.STABLE:
            return committed.commit_timestamp_ms
        return None

    def tombstones(self) -> Iterator[GroupRecord]:
        """The record that removes the group."""
        yield GroupRecord(self.group_id, None)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading the topic; when the subscriptions are not known, consumers may."""
        if self.topics is not None:
            return topic in self.topics
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members:
            of_member = subscribed_topics(member.metadata(self.protocol_name))
            if of_member is None:
                return None
            topics |= of_member
        return topics
