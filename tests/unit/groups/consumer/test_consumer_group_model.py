"""Random schedules of members that come, go, lose answers and are late, against rules that always hold."""

from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_timers import ShardTimers
from ottla.groups.answers import ConsumerHeartbeatAnswer
from ottla.groups.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from ottla.groups.consumer_config import ConsumerGroupConfig, GroupTimes
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.requests import ConsumerHeartbeat
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.runtime.timer import ManualTimer

GROUP = "g"
TOPICS = ("t", "u", "v")
WHO = st.integers(0, 4)
SESSION_MS, REBALANCE_MS = 45_000, 60_000
REJOIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}


class Client:
    """A consumer: what it believes, and what it works on."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.topics: tuple[str, ...] = ("t",)
        self.assignor: str | None = None
        self.forget()

    def forget(self) -> None:
        self.epoch = 0
        self.works_on: set[tuple[UUID, int]] = set()
        self.has_said_all = False

    def request(self) -> ConsumerHeartbeat:
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(self.works_on):
            by_topic.setdefault(topic_id, []).append(index)
        return ConsumerHeartbeat(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_names=self.topics,
            server_assignor=self.assignor,
            owned=tuple((topic_id, tuple(indexes)) for topic_id, indexes in by_topic.items()),
        )

    def hear(self, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.error in REJOIN:
            self.forget()
            return
        assert answer.error is ErrorCode.NONE, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.works_on = {(topic_id, index) for topic_id, of in answer.assignment.items() for index in of}


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.timer = ManualTimer()
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.clients = [Client(f"m{number}") for number in range(5)]
        self.log: list[tuple[bytes, bytes | None]] = []
        self.image = MetadataImage("")
        self.counts: dict[str, int] = {}

    @initialize(interval_ms=st.sampled_from([0, 1_000]))
    def start(self, interval_ms: int) -> None:
        consumer = ConsumerGroupConfig(default_times=GroupTimes(assignment_interval_ms=interval_ms))
        self.config = GroupConfig(consumer=consumer)
        self.change_topic("t", 3)
        self._load()

    # What happens

    @rule(who=WHO, topics=st.sampled_from([("t",), ("t", "u"), ("u",), ("t", "u", "v"), ()]))
    def subscribe(self, who: int, topics: tuple[str, ...]) -> None:
        self.clients[who].topics = topics

    @rule(who=WHO, assignor=st.sampled_from(["range", "uniform"]))
    def choose_assignor(self, who: int, assignor: str) -> None:
        self.clients[who].assignor = assignor

    @rule(who=WHO, is_lost=st.sampled_from([False, False, False, True]))
    def beat(self, who: int, is_lost: bool) -> None:
        client = self.clients[who]
        answer = self._ask(client.request())
        if not is_lost:
            client.hear(answer)

    @rule(who=WHO)
    def repeat_an_old_heartbeat(self, who: int) -> None:
        """The network kept it: nobody hears the answer."""
        client = self.clients[who]
        if client.epoch > 1:
            self._ask(ConsumerHeartbeat(GROUP, client.member_id, client.epoch - 1))

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        client = self.clients[who]
        if client.epoch > 0:
            self._ask(ConsumerHeartbeat(GROUP, client.member_id, -1))
            client.forget()

    @rule(name=st.sampled_from(TOPICS), count=st.integers(0, 6))
    def change_topic(self, name: str, count: int) -> None:
        if count and count <= self.counts.get(name, 0):
            return
        if count:
            self.counts[name] = count
        else:
            self.counts.pop(name, None)
        topics = {}
        for each, of in self.counts.items():
            known = self.image.topic(each)
            if known is None or len(known.partitions) != of:
                topic_id = UUID(int=self.image.end_offset + 1) if known is None else known.topic_id
                partitions = tuple(PartitionImage(index, 1, 0, (1,), (1,), 0) for index in range(of))
                known = TopicImage(each, topic_id, partitions)
            topics[each] = known
        self.image = MetadataImage(
            "",
            end_offset=self.image.end_offset + 1,
            topics_by_name=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()},
        )

    @rule(duration_ms=st.sampled_from([500, 5_000, 20_000]))
    def wait(self, duration_ms: int) -> None:
        self.timer.advance(duration_ms)
        self._fence_who_is_gone()

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        """A compacted log has the newest record of each key, in the order in which these were written."""
        before = self.group
        if is_compacted:
            newest = {key: place for place, (key, _) in enumerate(self.log)}
            self.log = [self.log[place] for place in sorted(newest.values())]
        self.timers.close()
        self._load()
        after = self.group
        assert (before is None) == (after is None)
        if before is None or after is None:
            return
        for name in ("epoch", "target_epoch", "target", "metadata_hash", "matched"):
            assert getattr(before, name) == getattr(after, name), name
        assert {each: member.current for each, member in before.members.items()} == {
            each: member.current for each, member in after.members.items()
        }
        assert before.members == after.members

    @precondition(lambda self: self.group is not None)
    @rule()
    def calm_down(self) -> None:
        """Nothing happens any more, and every answer arrives: everybody gets its share."""
        before = set(self.group.members)
        for _ in range(12):
            for client in self.clients:
                if client.epoch > 0:
                    client.hear(self._ask(client.request()))
            self.timer.advance(1_100)
        here = [client for client in self.clients if client.epoch > 0]
        if not here or not before == self.group.members.keys() == {client.member_id for client in here}:
            # Somebody joined and does not know it: what it has is missed when its session is over.
            return
        assert self.group.state is ConsumerGroupState.STABLE
        wanted = {topic for client in here for topic in client.topics if topic in self.counts}
        there = {
            (self.image.topics_by_name[name].topic_id, index) for name in wanted for index in range(self.counts[name])
        }
        assert set().union(*(client.works_on for client in here)) == there

    # What always holds

    @invariant()
    def nobody_works_on_what_another_does(self) -> None:
        group = self.group
        if group is None:
            return
        seen: set[tuple[UUID, int]] = set()
        for client in self.clients:
            if client.member_id in group.members and client.epoch > 0:
                assert not seen & client.works_on
                seen |= client.works_on

    @invariant()
    def what_a_member_has_is_noted_as_its_own(self) -> None:
        group = self.group
        for member in () if group is None else group.members.values():
            for of in (member.current.assigned, member.current.pending_revocation):
                for topic_id, indexes in of.items():
                    assert all(group.owner(topic_id, index) == member.member_id for index in indexes)

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group
        if group is not None:
            assert group.target_epoch <= group.epoch
            assert all(member.current.epoch <= group.epoch for member in group.members.values())
            assert group.target.keys() <= group.members.keys()

    # How

    @property
    def group(self) -> ConsumerGroup | None:
        group = next(iter(self.shard.groups()), None) if hasattr(self, "shard") else None
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def _load(self) -> None:
        self.shard = GroupShard(self.config, DeletedTopics(lambda name: None), lambda: self.image)
        for key, value in self.log:
            self._replay(key, value)
        self._carry_out(self.shard.handle_loaded(self.timer.clock.now_ms()))

    def _replay(self, key: bytes, value: bytes | None) -> None:
        record = self.shard.decode(key, value)
        assert record is not None
        self.shard.replay(record)

    def _ask(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        answers: list[Any] = []
        self._carry_out(self.shard.handle_consumer_heartbeat(self.timer.clock.now_ms(), request, answers.append))
        (answer,) = answers
        return answer

    def _on_timer(self, key: Any) -> None:
        self._carry_out(self.shard.handle_timer(self.timer.clock.now_ms(), key))

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            key, value = self.shard.encode(record)
            self.log.append((key, value))
            self._replay(key, value)
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)

    def _fence_who_is_gone(self) -> None:
        """Whom the coordinator missed stops working by itself: its session is over for it too."""
        group = self.group
        for client in self.clients:
            if group is None or client.member_id not in group.members:
                client.forget()


TestConsumerGroupModel = ConsumerGroupMachine.TestCase
TestConsumerGroupModel.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
