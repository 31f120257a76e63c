"""The streams groups of one shard: heartbeats, descriptions, timers, replay (KIP-1071)."""

from typing import Final, cast

from ottla.coordination.outcome import Outcome, Waiter
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.group import Group
from ottla.groups.group_config import GROUPS_PER_SHARD_MAX
from ottla.groups.group_kind import GroupContext
from ottla.groups.member_epoch import JOIN_GROUP, LEAVE_GROUP
from ottla.groups.records import KeyedRecord
from ottla.groups.step import AssignmentTimer, MemberTimer, RebalanceTimer, SessionTimer, Step
from ottla.groups.streams import assignment, membership
from ottla.groups.streams.description import describe
from ottla.groups.streams.exchange import StreamsDescribeAnswer, StreamsHeartbeat, StreamsHeartbeatAnswer
from ottla.groups.streams.heartbeat import heartbeat
from ottla.groups.streams.member import MemberState
from ottla.groups.streams.request_check import require_valid
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.groups.streams.streams_group import StreamsGroup
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.coordinator_records.streams_group import StreamsGroupMetadataKey, StreamsGroupTopologyKey

TOPOLOGY_BYTES_PER_SHARD_MAX: Final = 64 * 1024 * 1024
"""What the topologies of all groups of a shard may take as records. In memory they take about ten times that; an
application with a hundred topics has 10 KB.
"""


class StreamsGroups:
    """The part of a shard that has the streams groups; see `GroupKind`."""

    __slots__ = ("_context", "_topology_bytes", "_topology_bytes_total")

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._topology_bytes: dict[str, int] = {}
        self._topology_bytes_total = 0

    # Requests

    def handle_heartbeat(self, now_ms: int, said: StreamsHeartbeat, waiter: Waiter) -> Outcome:
        """StreamsGroupHeartbeat: a member joins, is there, or leaves. What is refused leaves nothing behind."""
        step = Step(now_ms, self._context.config)
        try:
            answer = self._heartbeat(step, said)
        except ApiError as error:
            step = Step(now_ms, self._context.config)
            answer = StreamsHeartbeatAnswer(error.code, message=error.message)
        step.answer(waiter, answer)
        return step.outcome

    def handle_describe(self, now_ms: int, group_id: str, waiter: Waiter) -> Outcome:
        """StreamsGroupDescribe, of one group."""
        step = Step(now_ms, self._context.config)
        try:
            answer = StreamsDescribeAnswer(group=describe(self._find(group_id)))
        except ApiError as error:
            answer = StreamsDescribeAnswer(error.code, message=error.message)
        step.answer(waiter, answer)
        return step.outcome

    def _heartbeat(self, step: Step, said: StreamsHeartbeat) -> StreamsHeartbeatAnswer:
        request = said.request
        require_valid(request)
        joins = request.member_epoch == JOIN_GROUP
        if not joins and request.member_epoch != LEAVE_GROUP and request.group_id not in self._context.groups:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found.")
        group = self._find_or_new(step, request.group_id) if joins else self._find(request.group_id)
        if request.member_epoch == LEAVE_GROUP:
            return membership.leave(step, group, request)
        answer = heartbeat(step, group, said, self._context.image(), self._config(request.group_id))
        # A new group takes its place now and not when its first record is replayed: it knows things that no record has.
        self._context.groups[group.group_id] = group
        return answer

    def _find(self, group_id: str) -> StreamsGroup:
        """The group. Raises ApiError GROUP_ID_NOT_FOUND when there is none, or one of another kind."""
        group = self._context.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        return group

    def _find_or_new(self, step: Step, group_id: str) -> StreamsGroup:
        """The group a member joins. A classic group without members becomes one; its offsets stay."""
        group = self._context.groups.get(group_id)
        if group is not None and not (isinstance(group, ClassicGroup) and group.is_empty):
            return self._find(group_id)
        if group is None and len(self._context.groups) >= GROUPS_PER_SHARD_MAX:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "There are too many groups.")
        if self._topology_bytes_total >= TOPOLOGY_BYTES_PER_SHARD_MAX:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "The topologies of other groups take all the room there is.")
        if isinstance(group, ClassicGroup) and group.is_recorded:
            for record in group.tombstones():
                step.outcome.write(record)
        return StreamsGroup(group_id)

    def _config(self, group_id: str) -> StreamsConfig:
        return self._context.config.streams.of_group(group_id)

    # What the shard asks

    def replay(self, record: KeyedRecord) -> None:
        """Apply a record; the first of a group makes it, the tombstone of its own record removes it."""
        key = record.key
        # Every key of a group names it.
        group_id = cast("StreamsGroupMetadataKey", key).group_id
        if isinstance(key, StreamsGroupTopologyKey):
            size = 0 if record.value is None else len(record.value.encode(0))
            self._topology_bytes_total += size - self._topology_bytes.pop(group_id, 0)
            if size:
                self._topology_bytes[group_id] = size
        group = self._context.groups.get(group_id)
        if not isinstance(group, StreamsGroup):
            if record.value is None:
                return
            group = self._context.groups[group_id] = StreamsGroup(group_id)
        if isinstance(key, StreamsGroupMetadataKey) and record.value is None:
            del self._context.groups[group_id]
        else:
            group.replay(record)

    def begin_sessions(self, step: Step, group: Group) -> int:
        """The group was loaded: every member has a whole session, and a whole time to give up what it has to."""
        assert isinstance(group, StreamsGroup)
        session_timeout_ms = self._config(group.group_id).session_timeout_ms
        for member_id, member in group.members.items():
            step.outcome.set_timer(SessionTimer(group.group_id, member_id), session_timeout_ms)
            if member.state is MemberState.UNREVOKED_TASKS:
                timeout_ms = max(member.metadata.rebalance_timeout_ms, 0)
                step.outcome.set_timer(RebalanceTimer(group.group_id, member_id), timeout_ms)
        return len(group.members)

    def handle_timer(self, step: Step, group: Group, key: MemberTimer) -> None:
        """A timer of a group is due."""
        assert isinstance(group, StreamsGroup)
        if isinstance(key, AssignmentTimer):
            assignment.make_delayed(step, group)
        elif isinstance(key, SessionTimer) and key.member_id in group.members:
            membership.remove_member(step, group, key.member_id, "was not heard of, it is removed")
        elif isinstance(key, RebalanceTimer):
            member = group.members.get(key.member_id)
            if member is not None and member.state is MemberState.UNREVOKED_TASKS:
                membership.remove_member(step, group, key.member_id, "did not give up its tasks in time, it is removed")
