"""The groups of one partition of `__consumer_offsets`: the state machine that the coordination runtime drives."""

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import TYPE_CHECKING, Final, cast

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups import group_config, inspection, joining, membership, record_format
from ottla.groups.answers import (
    ConsumerDescribeAnswer,
    ConsumerHeartbeatAnswer,
    DeleteGroupAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    LeftMember,
    SyncAnswer,
)
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group import Group, GroupType
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_kind import GroupContext, GroupKind
from ottla.groups.group_offsets import GroupOffsets
from ottla.groups.group_state import GroupState
from ottla.groups.kinds import new_kind
from ottla.groups.offset_sweep import SLICE_INTERVAL_MS, SLICE_ITEMS_MAX
from ottla.groups.records import GroupRecord, OffsetRecord, Record
from ottla.groups.requests import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from ottla.groups.step import (
    DowngradeTimer,
    JoinTimer,
    LoadedGroupsTimer,
    MemberTimer,
    OffsetExpiryTimer,
    OffsetSweepTimer,
    SessionTimer,
    Step,
    SyncTimer,
)
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.transaction_marker import TransactionMarker

if TYPE_CHECKING:
    from ottla.groups.consumer.consumer_groups import ConsumerGroups
    from ottla.groups.share.exchange import PartitionsInitialized, ShareHeartbeat, ShareOffsets
    from ottla.groups.share.share_groups import ShareGroups
    from ottla.groups.streams.exchange import StreamsHeartbeat
    from ottla.groups.streams.streams_groups import StreamsGroups

_NO_METADATA: Final = MetadataImage("")


class GroupShard:
    """Groups and their offsets, and what may be asked of them. Pure: see `CoordinatorShard`.

    Offsets change by replay alone, and so do the groups of the newer protocols (`GroupKind`). A classic group lives in
    memory: its members, who waits, its timers. The record of a generation is a picture of that, taken when the
    generation is complete; while the shard loads, replay brings the group back from it, and once it is live the group
    already is what its picture shows.
    """

    __slots__ = (
        "_config",
        "_context",
        "_groups",
        "_is_loading",
        "_kinds",
        "_loaded_groups",
        "_offsets",
    )

    def __init__(
        self,
        config: GroupConfig,
        deleted_topics: DeletedTopics,
        image: Callable[[], MetadataImage] = lambda: _NO_METADATA,
    ) -> None:
        """`image` tells the metadata as it is now."""
        self._config = config
        self._groups: dict[str, Group] = {}
        self._context = GroupContext(self._groups, config, image)
        self._kinds: dict[GroupType, GroupKind] = {}
        self._offsets = GroupOffsets(self._groups, deleted_topics, config.offsets_retention_check_interval_ms)
        self._is_loading = True
        self._loaded_groups: Iterator[Group] = iter(())
        """Groups that were loaded and whose sessions have not begun yet."""

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    @property
    def offset_count(self) -> int:
        """How many offsets are stored."""
        return len(self._offsets)

    def groups(self) -> Iterator[Group]:
        """The groups, to look at."""
        return iter(self._groups.values())

    def type_of(self, group_id: str) -> GroupType | None:
        """The kind of a group; None when there is none of that name."""
        group = self._groups.get(group_id)
        return None if group is None else group.group_type

    def kind(self, group_type: GroupType) -> GroupKind:
        """The part of the shard that has the groups of a kind; made when it is first asked for."""
        kind = self._kinds.get(group_type)
        if kind is None:
            kind = self._kinds[group_type] = new_kind(group_type, self._context)
        return kind

    @property
    def _consumers(self) -> "ConsumerGroups":
        return cast("ConsumerGroups", self.kind(GroupType.CONSUMER))

    @property
    def _streams(self) -> "StreamsGroups":
        return cast("StreamsGroups", self.kind(GroupType.STREAMS))

    @property
    def _shares(self) -> "ShareGroups":
        return cast("ShareGroups", self.kind(GroupType.SHARE))

    # Records

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """The key and value of a record, in Kafka's format."""
        return record_format.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record of a key and value; None for kinds that are not known."""
        return record_format.decode(key, value)

    def replay(self, record: Record) -> None:
        """Apply a record."""
        if isinstance(record, OffsetRecord):
            self._offsets.replay(record)
        elif isinstance(record, GroupRecord):
            self._replay_group(record)
        else:
            self.kind(record_format.kind_of(record)).replay(record)

    def replay_transactional(self, record: Record, producer_id: int) -> None:
        """Keep an offset that a producer committed until its transaction ends; nothing else is ever part of one."""
        if isinstance(record, OffsetRecord):
            self._offsets.replay_transactional(record, producer_id)

    def replay_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """The offsets of a transaction hold, or come to nothing."""
        self._offsets.replay_transaction_end(producer_id, committed=committed)

    def _replay_group(self, record: GroupRecord) -> None:
        group = self._groups.get(record.group_id)
        if record.snapshot is None:
            if isinstance(group, ClassicGroup):
                del self._groups[record.group_id]
                group.move_to(GroupState.DEAD, group.state_since_ms)
        elif self._is_loading or group is None:
            # A group that is not there was a consumer group up to the records before this one.
            self._groups[record.group_id] = ClassicGroup.from_snapshot(record.group_id, record.snapshot)

    # The life of the shard

    def handle_loaded(self, now_ms: int) -> Outcome:
        """Begin to serve: every member has a whole session to be heard of."""
        self._is_loading = False
        step = self._step(now_ms)
        self._loaded_groups = iter(tuple(self._groups.values()))
        self._begin_sessions(step)
        self._offsets.begin(step)
        return step.outcome

    def handle_unloaded(self) -> Outcome:
        """Another broker coordinates these groups now: have everybody who waits find it."""
        outcome = Outcome()
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                joining.answer_everybody(outcome, group, ErrorCode.NOT_COORDINATOR)
        return outcome

    def handle_timer(self, now_ms: int, key: Hashable) -> Outcome:
        """A timer is due."""
        step = self._step(now_ms)
        if isinstance(key, OffsetExpiryTimer):
            self._offsets.expire(step)
        elif isinstance(key, LoadedGroupsTimer):
            self._begin_sessions(step)
        elif isinstance(key, OffsetSweepTimer):
            self._offsets.go_on_sweeping(step)
        else:
            assert isinstance(key, MemberTimer)
            group = self._groups.get(key.group_id)
            if isinstance(group, ClassicGroup):
                self._on_classic_timer(step, group, key)
            elif group is not None:
                self.kind(group.group_type).handle_timer(step, group, key)
        return step.outcome

    def _on_classic_timer(self, step: Step, group: ClassicGroup, key: MemberTimer) -> None:
        if isinstance(key, SessionTimer):
            membership.on_session_timer(step, group, key.member_id)
        elif isinstance(key, JoinTimer):
            joining.on_join_timer(step, group)
        elif isinstance(key, SyncTimer):
            joining.on_sync_timer(step, group)
        elif isinstance(key, DowngradeTimer) and group.can_rebalance:
            joining.prepare_rebalance(step, group, "its last member of the consumer protocol is gone")
        self._forget_if_blank(group)

    # Members of classic groups, and of consumer groups while they move from one protocol to the other

    def handle_join(self, now_ms: int, request: Join, waiter: Waiter) -> Outcome:
        """JoinGroup. A group is made for a client without a member id; one with an id must know its group."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        is_share = group is not None and group.group_type is GroupType.SHARE
        if group is not None and not isinstance(group, ClassicGroup) and (is_share or not group.is_empty):
            # A share group keeps its name while it has no members: its state says what is accepted.
            if group.group_type is not GroupType.CONSUMER:
                step.answer(waiter, JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
                return step.outcome
            return self._of_consumers(
                now_ms, waiter, JoinAnswer, lambda step: self._consumers.join(step, request), request.member_id
            )
        if request.member_id and not isinstance(group, ClassicGroup):
            step.answer(waiter, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        elif group is None and not self._has_room:
            step.answer(waiter, JoinAnswer(ErrorCode.POLICY_VIOLATION))
        else:
            if not isinstance(group, ClassicGroup):
                for record in () if group is None else group.tombstones():
                    step.outcome.write(record)
                group = self._groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
            joining.join(step, group, request, waiter)
            self._forget_if_blank(group)
        return step.outcome

    def handle_sync(self, now_ms: int, request: Sync, waiter: Waiter) -> Outcome:
        """SyncGroup."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            membership.sync(step, group, request, waiter)
        elif group is not None and group.group_type is GroupType.CONSUMER:
            return self._of_consumers(now_ms, waiter, SyncAnswer, lambda step: self._consumers.sync(step, request))
        else:
            step.answer(waiter, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        return step.outcome

    def handle_heartbeat(self, now_ms: int, request: Heartbeat, waiter: Waiter) -> Outcome:
        """Heartbeat."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            step.answer(waiter, membership.heartbeat(step, group, request))
        elif group is not None and group.group_type is GroupType.CONSUMER:
            return self._of_consumers(
                now_ms, waiter, HeartbeatAnswer, lambda step: self._consumers.classic_heartbeat(step, request)
            )
        else:
            step.answer(waiter, HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        return step.outcome

    def handle_leave(self, now_ms: int, request: Leave, waiter: Waiter) -> Outcome:
        """LeaveGroup."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            step.answer(waiter, membership.leave(step, group, request))
            self._forget_if_blank(group)
        elif group is not None and group.group_type is GroupType.CONSUMER:
            step.answer(waiter, self._consumers.leave(step, request))
        else:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            members = tuple(LeftMember(each.member_id, each.instance_id, unknown) for each in request.members)
            step.answer(waiter, LeaveAnswer(members=members))
        return step.outcome

    # Members of consumer groups

    def handle_consumer_heartbeat(self, now_ms: int, request: ConsumerHeartbeat, waiter: Waiter) -> Outcome:
        """ConsumerGroupHeartbeat: join, say what one owns, hear what one is to own, leave."""
        group = self._groups.get(request.group_id)
        if group is None and not self._has_room:
            step = self._step(now_ms)
            message = f"the coordinator has {group_config.GROUPS_PER_SHARD_MAX} groups, it takes no more"
            step.answer(waiter, ConsumerHeartbeatAnswer(ErrorCode.POLICY_VIOLATION, message=message))
            return step.outcome
        outcome = self._of_consumers(
            now_ms, waiter, ConsumerHeartbeatAnswer, lambda step: self._consumers.heartbeat(step, request)
        )
        if isinstance(group, ClassicGroup) and GroupRecord(request.group_id, None) in outcome.records:
            # It is a consumer group now; who waits for its rebalance is to join again.
            joining.answer_everybody(outcome, group, ErrorCode.REBALANCE_IN_PROGRESS)
            outcome.cancel_timer(JoinTimer(group.group_id))
            outcome.cancel_timer(SyncTimer(group.group_id))
        return outcome

    def handle_consumer_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """ConsumerGroupDescribe, of one group."""
        return self._of_consumers(
            now_ms, waiter, ConsumerDescribeAnswer, lambda step: self._consumers.describe(group_id)
        )

    def _of_consumers(
        self,
        now_ms: int,
        waiter: Waiter,
        answer_type: type[Answer],
        decide: Callable[[Step], Answer],
        member_id: str | None = None,
    ) -> Outcome:
        """What `decide` makes of a step; nothing but an answer when it refuses, by ApiError."""
        step = self._step(now_ms)
        try:
            answer = decide(step)
        except ApiError as error:
            step = self._step(now_ms)
            if answer_type is JoinAnswer:
                answer = JoinAnswer(error.code, member_id=member_id or "")
            elif answer_type in (ConsumerHeartbeatAnswer, ConsumerDescribeAnswer):
                answer = answer_type(error.code, message=error.message)
            else:
                answer = answer_type(error.code)
        step.answer(waiter, answer)
        return step.outcome

    # Members of streams groups

    def handle_streams_heartbeat(self, now_ms: int, said: "StreamsHeartbeat", waiter: Waiter) -> Outcome:
        """StreamsGroupHeartbeat: join, say what one has, hear what one is to have, leave."""
        return self._streams.handle_heartbeat(now_ms, said, waiter)

    def handle_streams_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """StreamsGroupDescribe, of one group."""
        return self._streams.handle_describe(now_ms, group_id, waiter)

    # Members of share groups

    def handle_share_heartbeat(self, now_ms: int, said: "ShareHeartbeat", waiter: Waiter) -> Outcome:
        """ShareGroupHeartbeat: join, be there, hear what to read, leave."""
        group = self._groups.get(said.request.group_id)
        if isinstance(group, ClassicGroup) and self._offsets.has_any(group.group_id):
            step = self._step(now_ms)
            message = f"Group {group.group_id} is not a share group."
            step.answer(waiter, self._shares.refusal(ErrorCode.GROUP_ID_NOT_FOUND, message))
            return step.outcome
        return self._shares.handle_heartbeat(now_ms, said, waiter)

    def handle_share_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """ShareGroupDescribe, of one group."""
        return self._shares.handle_describe(now_ms, group_id, waiter)

    def handle_share_initialized(self, now_ms: int, report: "PartitionsInitialized", waiter: Waiter) -> Outcome:
        """The delivery state of partitions exists."""
        return self._shares.handle_initialized(now_ms, report, waiter)

    def handle_share_offsets(self, now_ms: int, request: "ShareOffsets", waiter: Waiter) -> Outcome:
        """The partitions of a share group whose offsets are asked for, altered or deleted."""
        return self._shares.handle_offsets(now_ms, request, waiter)

    # Offsets

    def handle_commit(self, now_ms: int, request: CommitOffsets, waiter: Waiter) -> Outcome:
        """OffsetCommit."""
        step = self._step(now_ms)
        step.answer(waiter, self._offsets.commit(step, request, has_room=self._has_room))
        return step.outcome

    def handle_fetch(self, now_ms: int, request: FetchOffsets, waiter: Waiter) -> Outcome:
        """OffsetFetch."""
        step = self._step(now_ms)
        step.answer(waiter, self._offsets.fetch(request))
        return step.outcome

    def handle_transaction_end(self, now_ms: int, marker: TransactionMarker, waiter: Waiter) -> Outcome:
        """The marker of a transaction. Answers with an Answer."""
        step = self._step(now_ms)
        step.answer(waiter, self._offsets.end_transaction(step, marker))
        return step.outcome

    def handle_delete_offsets(self, now_ms: int, request: DeleteOffsets, waiter: Waiter) -> Outcome:
        """OffsetDelete."""
        step = self._step(now_ms)
        step.answer(waiter, self._offsets.delete(step, request))
        return step.outcome

    def handle_topics_deleted(self, now_ms: int, topics: Collection[str]) -> Outcome:
        """Topics are gone, as `DeletedTopics` knows already: so are the offsets in them, a slice at a time."""
        step = self._step(now_ms)
        self._offsets.begin_sweep(step, topics)
        return step.outcome

    # Groups

    def handle_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """DescribeGroups, of one group."""
        step = self._step(now_ms)
        step.answer(waiter, inspection.describe(group_id, self._groups.get(group_id)))
        return step.outcome

    def handle_delete(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """DeleteGroups, of one group."""
        step = self._step(now_ms)
        group = self._groups.get(group_id)
        if group is None:
            step.answer(waiter, DeleteGroupAnswer(ErrorCode.GROUP_ID_NOT_FOUND))
        elif not group.is_empty:
            step.answer(waiter, DeleteGroupAnswer(ErrorCode.NON_EMPTY_GROUP))
        else:
            self._offsets.delete_group(step, group)
            step.answer(waiter, DeleteGroupAnswer())
        return step.outcome

    def _step(self, now_ms: int) -> Step:
        return Step(now_ms, self._config)

    @property
    def _has_room(self) -> bool:
        return len(self._groups) < group_config.GROUPS_PER_SHARD_MAX

    def _begin_sessions(self, step: Step) -> None:
        """Begin the sessions of loaded members, some in a turn of the loop; until then nobody is missed."""
        looked_at = 0
        for group in self._loaded_groups:
            if self._groups.get(group.group_id) is not group:
                continue
            if isinstance(group, ClassicGroup):
                looked_at += 1 + joining.begin_sessions(step, group)
            else:
                looked_at += 1 + self.kind(group.group_type).begin_sessions(step, group)
            if looked_at >= SLICE_ITEMS_MAX:
                step.outcome.set_timer(LoadedGroupsTimer(), SLICE_INTERVAL_MS)
                return

    def _forget_if_blank(self, group: ClassicGroup) -> None:
        """A group that nobody is in and nothing is stored of leaves no trace: naming a group costs nothing for long."""
        if group.state is GroupState.EMPTY and group.is_blank and not self._offsets.has_any(group.group_id):
            self._groups.pop(group.group_id, None)
