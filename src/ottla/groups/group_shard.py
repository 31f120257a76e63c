"""The groups of one partition of `__consumer_offsets`: the state machine that the coordination runtime drives."""

from collections.abc import Collection, Hashable, Iterator

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups import group_config, inspection, joining, membership, offsets, record_format
from ottla.groups.answers import (
    CommitAnswer,
    DeleteGroupAnswer,
    DeleteOffsetsAnswer,
    FetchAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    LeftMember,
    SyncAnswer,
)
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_state import GroupState
from ottla.groups.offset_store import OffsetStore
from ottla.groups.offset_sweep import SLICE_INTERVAL_MS, SLICE_ITEMS_MAX, OffsetSweep
from ottla.groups.records import CommittedOffset, GroupRecord, OffsetRecord, Record
from ottla.groups.requests import CommitOffsets, DeleteOffsets, FetchOffsets, Heartbeat, Join, Leave, Sync
from ottla.groups.step import (
    JoinTimer,
    LoadedGroupsTimer,
    OffsetExpiryTimer,
    OffsetSweepTimer,
    SessionTimer,
    Step,
    SyncTimer,
)
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition


class GroupShard:
    """Groups and their offsets, and what may be asked of them. Pure: see `CoordinatorShard`.

    Offsets change by replay alone. A group lives in memory: its members, who waits, its timers. The record of a
    generation is a picture of that, taken when the generation is complete; while the shard loads, replay brings the
    group back from it, and once it is live the group already is what its picture shows.
    """

    __slots__ = (
        "_config",
        "_deleted_topics",
        "_groups",
        "_is_loading",
        "_loaded_groups",
        "_offsets",
        "_sweep",
        "_to_expire",
    )

    def __init__(self, config: GroupConfig, deleted_topics: DeletedTopics) -> None:
        self._config = config
        self._deleted_topics = deleted_topics
        self._groups: dict[str, ClassicGroup] = {}
        self._offsets = OffsetStore()
        self._sweep = OffsetSweep(self._offsets, deleted_topics)
        self._is_loading = True
        self._loaded_groups: Iterator[ClassicGroup] = iter(())
        """Groups that were loaded and whose sessions have not begun yet."""
        self._to_expire: Iterator[ClassicGroup] | None = None
        """The groups whose offsets are still to be looked at, while that is going on."""

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    @property
    def offset_count(self) -> int:
        """How many offsets are stored."""
        return len(self._offsets)

    def groups(self) -> Iterator[ClassicGroup]:
        """The groups, to look at."""
        return iter(self._groups.values())

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
            self._replay_offset(record)
        else:
            self._replay_group(record)

    def _replay_offset(self, record: OffsetRecord) -> None:
        if record.committed is None:
            self._offsets.remove(record.group_id, record.partition)
            return
        if record.group_id not in self._groups:
            self._groups[record.group_id] = ClassicGroup(record.group_id, record.committed.commit_timestamp_ms)
        self._offsets.put(record.group_id, record.partition, record.committed)

    def _replay_group(self, record: GroupRecord) -> None:
        if record.snapshot is None:
            group = self._groups.pop(record.group_id, None)
            if group is not None:
                group.move_to(GroupState.DEAD, group.state_since_ms)
        elif self._is_loading:
            self._groups[record.group_id] = ClassicGroup.from_snapshot(record.group_id, record.snapshot)

    # The life of the shard

    def handle_loaded(self, now_ms: int) -> Outcome:
        """Begin to serve: every member has a whole session to be heard of."""
        self._is_loading = False
        step = self._step(now_ms)
        self._loaded_groups = iter(tuple(self._groups.values()))
        self._begin_sessions(step)
        step.outcome.set_timer(OffsetExpiryTimer(), self._config.offsets_retention_check_interval_ms)
        self._sweep.begin_all(step)
        return step.outcome

    def handle_unloaded(self) -> Outcome:
        """Another broker coordinates these groups now: have everybody who waits find it."""
        outcome = Outcome()
        for group in self._groups.values():
            for member in group.members:
                for waiter, kind in (
                    (group.members.unpark_join(member), JoinAnswer),
                    (member.unpark_sync(), SyncAnswer),
                ):
                    if waiter is not None:
                        answer: Answer = kind(ErrorCode.NOT_COORDINATOR)
                        outcome.answer(waiter, answer)
        return outcome

    def handle_timer(self, now_ms: int, key: Hashable) -> Outcome:
        """A timer is due."""
        step = self._step(now_ms)
        if isinstance(key, OffsetExpiryTimer):
            self._expire_offsets(step)
            return step.outcome
        if isinstance(key, LoadedGroupsTimer):
            self._begin_sessions(step)
            return step.outcome
        if isinstance(key, OffsetSweepTimer):
            self._sweep.go_on(step)
            return step.outcome
        assert isinstance(key, SessionTimer | JoinTimer | SyncTimer)
        group = self._groups.get(key.group_id)
        if group is None:
            return step.outcome
        if isinstance(key, SessionTimer):
            membership.on_session_timer(step, group, key.member_id)
        elif isinstance(key, JoinTimer):
            joining.on_join_timer(step, group)
        else:
            joining.on_sync_timer(step, group)
        self._forget_if_blank(group)
        return step.outcome

    # Members

    def handle_join(self, now_ms: int, request: Join, waiter: Waiter) -> Outcome:
        """JoinGroup. A group is made for a client without a member id; one with an id must know its group."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if group is None and request.member_id:
            step.answer(waiter, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        elif group is None and not self._has_room:
            step.answer(waiter, JoinAnswer(ErrorCode.POLICY_VIOLATION))
        else:
            if group is None:
                group = self._groups[request.group_id] = ClassicGroup(request.group_id, now_ms)
            joining.join(step, group, request, waiter)
            self._forget_if_blank(group)
        return step.outcome

    def handle_sync(self, now_ms: int, request: Sync, waiter: Waiter) -> Outcome:
        """SyncGroup."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if group is None:
            step.answer(waiter, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            membership.sync(step, group, request, waiter)
        return step.outcome

    def handle_heartbeat(self, now_ms: int, request: Heartbeat, waiter: Waiter) -> Outcome:
        """Heartbeat."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if group is None:
            step.answer(waiter, HeartbeatAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            step.answer(waiter, membership.heartbeat(step, group, request))
        return step.outcome

    def handle_leave(self, now_ms: int, request: Leave, waiter: Waiter) -> Outcome:
        """LeaveGroup."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            members = tuple(LeftMember(each.member_id, each.instance_id, unknown) for each in request.members)
            step.answer(waiter, LeaveAnswer(members=members))
        else:
            step.answer(waiter, membership.leave(step, group, request))
            self._forget_if_blank(group)
        return step.outcome

    # Offsets

    def handle_commit(self, now_ms: int, request: CommitOffsets, waiter: Waiter) -> Outcome:
        """OffsetCommit."""
        step = self._step(now_ms)
        group = self._groups.get(request.committer.group_id)
        if group is None and not self._has_room:
            step.answer(waiter, CommitAnswer(ErrorCode.POLICY_VIOLATION))
        else:
            step.answer(waiter, offsets.commit_offsets(step, group, request, self._deleted_topics.id_of))
        return step.outcome

    def handle_fetch(self, now_ms: int, request: FetchOffsets, waiter: Waiter) -> Outcome:
        """OffsetFetch. A group that does not exist has no offsets, nor has any in a topic that is gone."""
        step = self._step(now_ms)
        found: dict[TopicPartition, CommittedOffset | None]
        if request.partitions is None:
            found = {
                partition: committed
                for partition, committed in self._offsets.of_group(request.group_id).items()
                if not self._deleted_topics.is_orphaned(partition.topic, committed)
            }
        else:
            found = {each: self._offset(request.group_id, each) for each in request.partitions}
        step.answer(waiter, FetchAnswer(offsets=found))
        return step.outcome

    def handle_delete_offsets(self, now_ms: int, request: DeleteOffsets, waiter: Waiter) -> Outcome:
        """OffsetDelete."""
        step = self._step(now_ms)
        group = self._groups.get(request.group_id)
        if group is None:
            step.answer(waiter, DeleteOffsetsAnswer(ErrorCode.GROUP_ID_NOT_FOUND))
        else:
            step.answer(waiter, offsets.delete_offsets(step, group, self._offsets, request))
        return step.outcome

    def handle_topics_deleted(self, now_ms: int, topics: Collection[str]) -> Outcome:
        """Topics are gone, as `DeletedTopics` knows already: so are the offsets in them, a slice at a time."""
        step = self._step(now_ms)
        self._sweep.begin(step, topics)
        return step.outcome

    # Groups

    def handle_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """DescribeGroups, of one group."""
        step = self._step(now_ms)
        step.answer(waiter, inspection.describe(self._groups.get(group_id)))
        return step.outcome

    def handle_delete(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """DeleteGroups, of one group."""
        step = self._step(now_ms)
        group = self._groups.get(group_id)
        if group is None:
            step.answer(waiter, DeleteGroupAnswer(ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.state is not GroupState.EMPTY:
            step.answer(waiter, DeleteGroupAnswer(ErrorCode.NON_EMPTY_GROUP))
        else:
            offsets.delete_group(step, group, self._offsets)
            step.answer(waiter, DeleteGroupAnswer())
        return step.outcome

    def _step(self, now_ms: int) -> Step:
        return Step(now_ms, self._config)

    def _offset(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        """The offset of a group in a partition, unless it was committed to a topic that is gone."""
        committed = self._offsets.get(group_id, partition)
        if committed is None or self._deleted_topics.is_orphaned(partition.topic, committed):
            return None
        return committed

    @property
    def _has_room(self) -> bool:
        return len(self._groups) < group_config.GROUPS_PER_SHARD_MAX

    def _begin_sessions(self, step: Step) -> None:
        """Begin the sessions of loaded members, some in a turn of the loop; until then nobody is missed."""
        looked_at = 0
        for group in self._loaded_groups:
            if self._groups.get(group.group_id) is not group:
                continue
            for member in group.members:
                if not member.is_new:
                    joining.extend_session(step, group, member)
            if len(group.members) > self._config.max_size and group.can_rebalance:
                joining.prepare_rebalance(step, group, f"it is larger than group.max.size={self._config.max_size}")
            looked_at += 1 + len(group.members)
            if looked_at >= SLICE_ITEMS_MAX:
                step.outcome.set_timer(LoadedGroupsTimer(), SLICE_INTERVAL_MS)
                return

    def _expire_offsets(self, step: Step) -> None:
        """Look through all groups, a slice in a turn of the loop; what one group has is one piece of work."""
        if self._to_expire is None:
            self._to_expire = iter(tuple(self._groups.values()))
        looked_at = 0
        for group in self._to_expire:
            if self._groups.get(group.group_id) is not group:
                continue
            looked_at += 1 + self._offsets.count(group.group_id)
            nothing_left = offsets.expire_offsets(step, group, self._offsets)
            if nothing_left and group.state is GroupState.EMPTY and not group.members.pending:
                step.outcome.write(GroupRecord(group.group_id, None))
            if looked_at >= SLICE_ITEMS_MAX:
                step.outcome.set_timer(OffsetExpiryTimer(), SLICE_INTERVAL_MS)
                return
        self._to_expire = None
        step.outcome.set_timer(OffsetExpiryTimer(), self._config.offsets_retention_check_interval_ms)

    def _forget_if_blank(self, group: ClassicGroup) -> None:
        """A group that nobody is in and nothing is stored of leaves no trace: naming a group costs nothing for long."""
        if group.state is GroupState.EMPTY and group.is_blank and group.group_id not in self._offsets:
            self._groups.pop(group.group_id, None)
