"""Random schedules of the threads of an application that come, go, are slow and lose answers.

A task is never active at two members; and when they are left alone, every task is active somewhere.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_timers import ShardTimers
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.streams.exchange import StreamsHeartbeat, StreamsHeartbeatAnswer
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.groups.streams.streams_group import StreamsGroup, StreamsGroupState
from ottla.groups.streams.tasks import Task, by_subtopology
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from ottla.runtime.timer import ManualTimer
from tests.unit.metadata.images import image_of, topic_record

GROUP = "app"
SESSION_MS, REBALANCE_MS = 45_000, 20_000
TOPOLOGY = Topology(
    1,
    (
        Subtopology("0", source_topics=("orders",), repartition_sink_topics=("by-word",)),
        Subtopology(
            "1", repartition_source_topics=(TopicInfo("by-word", 2),), state_changelog_topics=(TopicInfo("s"),)
        ),
    ),
)
WHO = st.integers(0, 7)
ROLES = ("active_tasks", "standby_tasks")


class Thread:
    """A member as its client sees it: `has` is what it works on, `target` what it was told to work on."""

    def __init__(self, member_id: str, process_id: str) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.epoch = 0
        self.has: dict[str, set[Task]] = {role: set() for role in ROLES}
        self.target: dict[str, set[Task]] = {role: set() for role in ROLES}
        self.must_tell = True

    @property
    def is_settled(self) -> bool:
        return self.has == self.target and not self.must_tell

    def request(self) -> StreamsGroupHeartbeatRequest:
        if self.epoch == 0:
            return StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                rebalance_timeout_ms=REBALANCE_MS,
                topology=TOPOLOGY,
                process_id=self.process_id,
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
            )
        tasks: dict[str, Any] = {}
        if self.must_tell:
            tasks = {role: tuple(TaskIds(*each) for each in by_subtopology(self.has[role]).items()) for role in ROLES}
            tasks["warmup_tasks"] = ()
        return StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, **tasks)

    def take(self, answer: StreamsHeartbeatAnswer) -> None:
        if answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.forget()
            return
        assert answer.error is ErrorCode.NONE, answer.message
        response = answer.response
        assert response is not None
        self.epoch = response.member_epoch
        self.must_tell = False
        if response.active_tasks is not None:
            for role in ROLES:
                told = getattr(response, role)
                self.target[role] = {Task(each.subtopology_id, p) for each in told for p in each.partitions}
                self.has[role] |= self.target[role]
            self.must_tell = True

    def give_up(self) -> None:
        for role in ROLES:
            if self.has[role] != self.target[role]:
                self.has[role] = set(self.target[role])
                self.must_tell = True

    def forget(self) -> None:
        self.epoch = 0
        self.has = {role: set() for role in ROLES}
        self.target = {role: set() for role in ROLES}
        self.must_tell = True


class StreamsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        streams = StreamsConfig(num_standby_replicas=1, assignment_interval_ms=500, initial_rebalance_delay_ms=1_000)
        self.config = GroupConfig(streams=streams)
        self.timer = ManualTimer()
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.partitions = 3
        self.image = self._image()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.threads: dict[str, Thread] = {}
        self.given = 0
        self.answer: StreamsHeartbeatAnswer | None = None
        self.shard = self._new_shard()

    @rule(process=st.integers(0, 2))
    def a_thread_starts(self, process: int):
        if len(self.threads) < 6:
            self.given += 1
            thread = Thread(f"m{self.given}", f"p{process}")
            self.threads[thread.member_id] = thread

    @precondition(lambda self: self.threads)
    @rule(who=WHO, is_lost=st.sampled_from([False, False, False, True]))
    def a_heartbeat(self, who: int, is_lost: bool):
        thread = self._thread(who)
        answer = self._heartbeat(thread)
        if not is_lost:
            thread.take(answer)
        else:
            thread.must_tell = True

    @precondition(lambda self: self.threads)
    @rule(who=WHO)
    def tasks_are_given_up(self, who: int):
        self._thread(who).give_up()

    @precondition(lambda self: self.threads)
    @rule(who=WHO)
    def a_thread_begins_anew(self, who: int):
        self._thread(who).forget()

    @precondition(lambda self: self.threads)
    @rule(who=WHO, says_so=st.booleans())
    def a_thread_ends(self, who: int, says_so: bool):
        thread = self._thread(who)
        del self.threads[thread.member_id]
        if says_so:
            self._ask(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=thread.member_id, member_epoch=-1))

    @rule(seconds=st.sampled_from([1, 1, 5, 21]))
    def time_passes(self, seconds: int):
        """Those who were silent for too long, or slow, notice by their own clocks, as clients do."""
        self.timer.advance(seconds * 1_000)
        members = self._members()
        for thread in self.threads.values():
            if thread.member_id not in members:
                thread.forget()

    @precondition(lambda self: self.partitions < 6)
    @rule()
    def a_partition_more(self):
        self.partitions += 1
        self.image = self._image()

    @rule()
    def a_restart(self):
        self.timers.close()
        self.shard = self._new_shard()

    @precondition(lambda self: self.threads)
    @rule()
    def everybody_is_left_alone(self):
        for _ in range(2 * SESSION_MS // 1_000):
            for thread in self.threads.values():
                thread.take(self._heartbeat(thread))
                thread.give_up()
            self.timer.advance(1_000)
            self.nothing_is_active_twice()
            group = self._group()
            only_these = group is not None and group.members.keys() == self.threads.keys()
            if (
                only_these
                and group.state is StreamsGroupState.STABLE
                and all(t.is_settled for t in self.threads.values())
            ):
                break
        else:
            raise AssertionError("they never came to rest")
        everything = {Task("0", index) for index in range(self.partitions)} | {Task("1", 0), Task("1", 1)}
        active = [task for thread in self.threads.values() for task in thread.has["active_tasks"]]
        assert Counter(active) == Counter(everything)
        counts = [len(thread.has["active_tasks"]) for thread in self.threads.values()]
        assert max(counts) - min(counts) <= 1
        processes = {thread.process_id for thread in self.threads.values()}
        copies = [task for thread in self.threads.values() for task in thread.has["standby_tasks"]]
        assert Counter(copies) == Counter({Task("1", 0): 1, Task("1", 1): 1} if len(processes) > 1 else {})

    @invariant()
    def nothing_is_active_twice(self):
        active = Counter(task for thread in self.threads.values() for task in thread.has["active_tasks"])
        assert all(count == 1 for count in active.values()), active

    @invariant()
    def no_process_has_a_task_twice(self):
        assigned: Counter[tuple[Task, str]] = Counter()
        for member in self._members().values():
            for part in (member.assigned, member.revoking):
                assigned.update((task, member.process_id) for task in (*part.epochs, *part.standby))
        assert all(count == 1 for count in assigned.values()), assigned

    def _heartbeat(self, thread: Thread) -> StreamsHeartbeatAnswer:
        return self._ask(thread.request())

    def _ask(self, request: StreamsGroupHeartbeatRequest) -> StreamsHeartbeatAnswer:
        self.answer = None
        said = StreamsHeartbeat(request, "client", "/10.0.0.1")
        self._carry_out(self.shard.handle_streams_heartbeat(self._now(), said, self._on_answer))
        assert self.answer is not None
        return self.answer

    def _on_answer(self, answer: StreamsHeartbeatAnswer) -> None:
        assert self.answer is None, "answered twice"
        self.answer = answer

    def _thread(self, who: int) -> Thread:
        return list(self.threads.values())[who % len(self.threads)]

    def _group(self) -> StreamsGroup | None:
        group = next(iter(self.shard.groups()), None)
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def _members(self):
        group = self._group()
        return {} if group is None else group.members

    def _image(self) -> MetadataImage:
        return image_of(
            topic_record("orders", 1, self.partitions), topic_record("by-word", 2, 2), topic_record("s", 3, 2)
        )

    def _new_shard(self) -> GroupShard:
        self.shard = GroupShard(self.config, DeletedTopics(lambda name: None), lambda: self.image)
        for key, value in self.log:
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record)
        self._carry_out(self.shard.handle_loaded(self._now()))
        return self.shard

    def _now(self) -> int:
        return self.timer.clock.now_ms()

    def _on_timer(self, key: Hashable) -> None:
        self._carry_out(self.shard.handle_timer(self._now(), key))

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(self.shard.encode(record))
            self.shard.replay(record)
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)


TestStreamsGroup = StreamsMachine.TestCase
TestStreamsGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
