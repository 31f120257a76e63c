"""Random schedules of clients that come, go, forget and repeat themselves, against rules that always hold."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_timers import ShardTimers
from ottla.groups.answers import JoinAnswer, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.group_state import GroupState
from ottla.groups.members import MemberProtocol
from ottla.groups.records import GroupRecord
from ottla.groups.requests import (
    CommitOffsets,
    Committer,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
    TopicOffsetsToCommit,
)
from ottla.model.error_code import ErrorCode
from ottla.runtime.timer import ManualTimer
from tests.unit.groups.topics import Topics

GROUP = "g"
TOPICS = Topics("t")
PROTOCOLS = tuple(MemberProtocol(name, name.encode()) for name in ("range", "sticky"))
WHO = st.integers(0, 5)
LATE = st.sampled_from([False, False, False, True])
SESSION_MS, REBALANCE_MS, NEW_MEMBER_MS = 10_000, 20_000, 40_000


class Request:
    """One request, which must hear exactly one answer."""

    def __init__(self, member_id: str, generation_id: int = -1) -> None:
        self.member_id = member_id
        self.generation_id = generation_id
        self.answers: list[object] = []

    def __call__(self, answer: object) -> None:
        self.answers.append(answer)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.config = GroupConfig(
            initial_rebalance_delay_ms=1_000, new_member_join_timeout_ms=NEW_MEMBER_MS, max_size=4
        )
        self.timer = ManualTimer()
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.shard = GroupShard(self.config, DeletedTopics(TOPICS))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.requests: list[Request] = []
        self.given = 0
        self.generations_before_restart = 3
        self._carry_out(self.shard.handle_loaded(0))

    # What clients do

    @rule(
        static=st.sampled_from([None, "i1", "i2"]),
        old=st.booleans(),
        protocols=st.sampled_from([PROTOCOLS, PROTOCOLS[::-1], PROTOCOLS[:1]]),
    )
    def join_without_id(self, static: str | None, old: bool, protocols: tuple[MemberProtocol, ...]):
        self.given += 1
        new_id = f"m{self.given}"
        request = self._join("", new_id, static, protocols, must_rejoin_with_id=not old)
        self._check_join(request)

    @precondition(lambda self: self._group() is not None)
    @rule(who=WHO, right=st.integers(0, 7), protocols=st.sampled_from([PROTOCOLS, PROTOCOLS[:1]]))
    def join_with_id(self, who: int, right: int, protocols: tuple[MemberProtocol, ...]):
        member_id, instance_id = self._somebody(who)
        self._join(member_id, "", instance_id if right else "i1", protocols, must_rejoin_with_id=True)

    @precondition(lambda self: self._group() is not None)
    @rule()
    def everybody_joins(self):
        """What the members do when their heartbeats tell them to."""
        group = self._group()
        if group is not None and group.state is GroupState.PREPARING_REBALANCE:
            for member_id in (*group.members.pending, *(member.member_id for member in group.members)):
                member = group.members.get(member_id)
                if member is None or not member.awaits_join:
                    instance_id = member.instance_id if member else None
                    self._join(member_id, "", instance_id, PROTOCOLS, must_rejoin_with_id=True)

    @precondition(lambda self: self._group() is not None)
    @rule()
    def the_leader_syncs(self):
        group = self._group()
        if group is not None and group.leader_id is not None:
            self._sync(group.leader_id, group.generation_id)

    @precondition(lambda self: self._group() is not None)
    @rule(who=WHO, late=LATE)
    def sync(self, who: int, late: bool):
        member_id, _ = self._somebody(who)
        generation_id = self._generation() - late
        self._sync(member_id, generation_id)

    @precondition(lambda self: self._group() is not None)
    @rule(who=WHO, late=LATE)
    def heartbeat(self, who: int, late: bool):
        member_id, _ = self._somebody(who)
        generation_id = self._generation() - late
        request = self._request(member_id, generation_id)
        heartbeat = Heartbeat(GROUP, generation_id, member_id)
        self._carry_out(self.shard.handle_heartbeat(self._now(), heartbeat, request))
        assert len(request.answers) == 1

    @precondition(lambda self: self._size() > 2)
    @rule(who=WHO)
    def leave(self, who: int):
        member_id, _ = self._somebody(who)
        request = self._request(member_id)
        leave = Leave(GROUP, (LeavingMember(member_id),))
        self._carry_out(self.shard.handle_leave(self._now(), leave, request))
        assert len(request.answers) == 1

    @precondition(lambda self: self._group() is not None)
    @rule(who=WHO, offset=st.integers(0, 100))
    def commit(self, who: int, offset: int):
        member_id, _ = self._somebody(who)
        committer = Committer(GROUP, self._generation(), member_id)
        commit = CommitOffsets(committer, (TopicOffsetsToCommit("t", TOPICS["t"], (OffsetToCommit(0, offset),)),))
        request = self._request(member_id)
        self._carry_out(self.shard.handle_commit(self._now(), commit, request))
        assert len(request.answers) == 1

    @precondition(lambda self: self._group() is not None)
    @rule(ms=st.sampled_from([1_000, 1_000, 1_000, 1_000, 5_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int):
        self.timer.advance(ms)

    @precondition(lambda self: self._generation() > self.generations_before_restart)
    @rule()
    def restart(self):
        """The broker stops and loads the group again from what it wrote."""
        before = self._last_snapshot()
        self._carry_out(self.shard.handle_unloaded())
        self.timers.close()
        assert all(len(request.answers) == 1 for request in self.requests)
        self.generations_before_restart = self._generation() + 3
        self.shard = GroupShard(self.config, DeletedTopics(TOPICS))
        for key, value in self.log:
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record)
        group = self._group()
        assert (group.snapshot() if group and group.is_recorded else None) == before
        self._carry_out(self.shard.handle_loaded(self._now()))

    # What always holds

    @invariant()
    def every_request_has_one_answer_or_is_parked_with_one_member(self):
        group = self._group()
        parked = Counter(
            id(waiter)
            for member in (group.members if group else ())
            for waiter in (member.join_waiter, member.sync_waiter)
            if waiter is not None
        )
        for request in self.requests:
            assert len(request.answers) + parked.pop(id(request), 0) == 1
        assert not parked
        self.requests = [request for request in self.requests if not request.answers]

    @invariant()
    def the_counts_of_the_roster_are_what_counting_says(self):
        group = self._group()
        if group is None:
            return
        members = list(group.members)
        assert group.members.joined_count == sum(member.join_waiter is not None for member in members)
        assert len({member.instance_id for member in members if member.is_static}) == sum(
            member.is_static for member in members
        )
        for member in members:
            if member.instance_id is not None:
                assert group.members.static_member_id(member.instance_id) == member.member_id
        common = (
            set.intersection(*({each.name for each in member.protocols} for member in members)) if members else set()
        )
        for name in ("range", "sticky"):
            assert group.members.supports_any([MemberProtocol(name, b"")]) == (name in common or not members)

    @invariant()
    def the_state_fits_the_members(self):
        group = self._group()
        if group is None:
            return
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert group.leader_id is not None
            assert group.leader_id in group.members
            assert group.protocol_name in {each.name for member in group.members for each in member.protocols}
            assert all(member.join_waiter is None for member in group.members)
        if group.state is GroupState.STABLE:
            assert all(member.sync_waiter is None for member in group.members)
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert group.state is GroupState.STABLE or not group.pending_sync
        assert group.members.joined_count <= self.config.max_size
        assert set(group.pending_sync) <= {member.member_id for member in group.members}

    def teardown(self):
        """Given time, everybody hears something."""
        self.timer.advance(NEW_MEMBER_MS + SESSION_MS + 4 * REBALANCE_MS)
        assert all(len(request.answers) == 1 for request in self.requests)

    # Carrying out

    def _join(
        self,
        member_id: str,
        new_id: str,
        static: str | None,
        protocols: tuple[MemberProtocol, ...],
        *,
        must_rejoin_with_id: bool,
    ) -> Request:
        join = Join(
            group_id=GROUP,
            member_id=member_id,
            new_member_id=new_id,
            instance_id=static,
            client_id="c",
            client_host="/h",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=protocols,
            must_rejoin_with_id=must_rejoin_with_id,
        )
        request = self._request(member_id or new_id)
        self._carry_out(self.shard.handle_join(self._now(), join, request))
        return request

    def _sync(self, member_id: str, generation_id: int) -> None:
        group = self._group()
        everybody = [member.member_id for member in group.members] if group else []
        assignments = tuple((other, f"{other}@{generation_id}".encode()) for other in everybody)
        sync = Sync(GROUP, generation_id, member_id, assignments=assignments)
        self._carry_out(self.shard.handle_sync(self._now(), sync, self._request(member_id, generation_id)))

    def _somebody(self, who: int) -> tuple[str, str | None]:
        """A member or pending id, with its instance id; or somebody who is not known any more, if ever."""
        group = self._group()
        known: list[tuple[str, str | None]] = [("m0", None)]
        if group is not None:
            known += [(member_id, None) for member_id in group.members.pending]
            known += [(member.member_id, member.instance_id) for member in group.members]
        return known[-1 - who % len(known)]

    def _size(self) -> int:
        group = self._group()
        return len(group.members) if group else 0

    def _generation(self) -> int:
        group = self._group()
        return group.generation_id if group else 1

    def _check_join(self, request: Request) -> None:
        for answer in request.answers:
            assert isinstance(answer, JoinAnswer)
            if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                assert answer.member_id == request.member_id

    def _request(self, member_id: str, generation_id: int = -1) -> Request:
        request = Request(member_id, generation_id)
        self.requests.append(request)
        return request

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            if isinstance(record, GroupRecord) and record.snapshot is not None:
                before = self._last_snapshot()
                assert before is None or record.snapshot.generation_id >= before.generation_id
            self.log.append(self.shard.encode(record))
            self.shard.replay(record)
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)
            if isinstance(answer, JoinAnswer) and answer.error is ErrorCode.NONE:
                self._check_leader(answer)
            if isinstance(answer, SyncAnswer) and answer.error is ErrorCode.NONE:
                # Whatever a member works on was assigned in the generation it asked for.
                assert isinstance(waiter, Request)
                assert answer.assignment.decode().endswith(f"@{waiter.generation_id}")

    def _check_leader(self, answer: JoinAnswer) -> None:
        """In one generation one member leads, and only it gets to know the members (static ones change their ids)."""
        if answer.members:
            assert answer.member_id == answer.leader_id
            assert answer.member_id in {member.member_id for member in answer.members}
        group = self._group()
        if group is not None and group.generation_id == answer.generation_id and not answer.skip_assignment:
            assert (answer.member_id == group.leader_id) == bool(answer.members)

    def _last_snapshot(self):
        for key, value in reversed(self.log):
            record = self.shard.decode(key, value)
            if isinstance(record, GroupRecord):
                return record.snapshot
        return None

    def _group(self) -> ClassicGroup | None:
        group = next(iter(self.shard.groups()), None)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def _on_timer(self, key: object) -> None:
        self._carry_out(self.shard.handle_timer(self._now(), key))

    def _now(self) -> int:
        return self.timer.clock.now_ms()


TestGroupMachine = GroupMachine.TestCase
pytest.mark.slow(TestGroupMachine)
TestGroupMachine.settings = settings(max_examples=150, stateful_step_count=80, deadline=None)
