"""Conversations with a group coordinator, as text.

A file has commands, which start with `> `, each followed by what the coordinator does: answers, records and, when asked
for, the state of the group. Time stands still but for `> wait`. Clients are named by one word; the member ids they
get are that word and a number. Everything happens in one group, `flights`.

    > join a                                 a client without a member id; `as=a-1` joins with one, `instance=i` is
                                             static, `topics=x,y`, `protocols=range,sticky`, `session=10s`,
                                             `rebalance=60s`; `version=3` speaks as an old client
    > sync a-1 generation=1 a-1=x b-1=y      the leader brings assignments, the others none; `instance=i`
    > heartbeat a-1 generation=1
    > leave a-1 b-1 instance:i
    > commit a-1 generation=1 orders-0=42    `commit - orders-0=42` is not a member
    > commit - producer=7 orders-0=42        as part of the transaction of a producer
    > end 7 commit                           the marker of a producer's transaction; or `abort`
    > fetch orders-0                         or `fetch *`; `fetch stable orders-0` asks for stable offsets
    > delete | delete-offsets orders-0
    > delete-topics orders | create-topics orders       every topic is there until it is deleted
    > state                                  what the group is
    > wait 10s                               answers and records that the time brings are marked with when
    > clock -1h                              the wall clock jumps, `+2h` or back; no time passes
    > restart                                the shard is loaded again from what it wrote: `unload`, then `load`;
                                             between them topics may come and go
    > forget-topic-ids                       what was written so far is read as if it had no topic ids
    > config max_size=2                      settings, by their names in GroupConfig

Run `python -m tests.scenarios.groups.rewrite` to write down what the code does now, and review the difference.
"""

import re
from collections.abc import Callable, Hashable
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from ottla.coordination.outcome import Outcome, TransactionalRecord, TransactionEnd
from ottla.coordination.shard_timers import ShardTimers
from ottla.groups.answers import CommitAnswer, DeleteOffsetsAnswer, FetchAnswer, JoinAnswer, LeaveAnswer, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.members import MemberProtocol
from ottla.groups.records import GroupRecord, OffsetRecord, Record
from ottla.groups.requests import (
    CommitOffsets,
    Committer,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
    TopicOffsetsToCommit,
)
from ottla.model.error_code import ErrorCode
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.runtime.timer import ManualTimer

GROUP = "flights"
GONE = UUID(int=0)
"""The id of a topic that was deleted when its offsets were on their way."""
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def run(script: str, conversation: "Conversation | None" = None) -> str:
    """The script with its outputs replaced by what the coordinator does."""
    conversation = conversation or Conversation()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines.extend(conversation.say(line[2:]))
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


class Conversation:
    """One shard with one group, its timers, and a log to load it from again."""

    def __init__(self) -> None:
        self.config = GroupConfig(initial_rebalance_delay_ms=0)
        self.timer = ManualTimer()
        self.topic_ids: dict[str, UUID | None] = {}
        self.topics_made = 0
        self.deleted_topics = DeletedTopics(self._topic_id)
        self.shard = self._new_shard()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.transactions: dict[int, int | bool] = {}
        """Of records in the log that are part of a transaction its producer, and of markers whether they commit."""
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.out: list[str] = []
        self.given: dict[str, int] = {}
        self.waiting_since = 0

    def say(self, command: str) -> list[str]:
        """Carry out a command; what comes of it, a line each."""
        self.out = []
        verb, *words = command.split()
        self.waiting_since = self.timer.clock.now_ms()
        getattr(self, "do_" + verb.replace("-", "_"))(*words)
        return self.out

    def do_config(self, *settings: str) -> None:
        """Start over with other settings."""
        values: dict[str, Any] = {name: int(value) for name, value in (setting.split("=") for setting in settings)}
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **values})
        self.do_restart()

    def do_restart(self) -> None:
        """Load the shard anew."""
        self.do_unload()
        self.do_load()

    def do_unload(self) -> None:
        """The shard has to load again."""
        self._carry_out(self.shard.handle_unloaded())
        self.timers.close()
        self.is_loading = True

    def do_load(self) -> None:
        """Load the shard from its log."""
        self.is_loading = False
        self.shard = self.empty_shard()
        for place, (key, value) in enumerate(self.log):
            of_transaction = self.transactions.get(place)
            if isinstance(of_transaction, bool):
                self.shard.replay_transaction_end(int(key), committed=of_transaction)
                continue
            record = self.shard.decode(key, value)
            assert record is not None
            if of_transaction is None:
                self.shard.replay(record)
            else:
                self.shard.replay_transactional(record, of_transaction)
        self._carry_out(self.shard.handle_loaded(self._now()))

    def do_join(self, client: str, *options: str) -> None:
        """JoinGroup."""
        said = _options(options)
        version = int(said.get("version", "9"))
        names = said.get("protocols", "range").split(",")
        subscription = ConsumerProtocolSubscription(topics=tuple(said.get("topics", "orders").split(",")))
        metadata = b"\0\1" + subscription.encode(1)
        self.given[client] = self.given.get(client, 0) + 1
        request = Join(
            group_id=GROUP,
            member_id=said.get("as", ""),
            new_member_id=f"{client}-{self.given[client]}",
            instance_id=said.get("instance"),
            client_id=client,
            client_host="/10.0.0.1",
            session_timeout_ms=_ms(said.get("session", "10s")),
            rebalance_timeout_ms=_ms(said.get("rebalance", "60s")),
            protocol_type=said.get("type", "consumer"),
            protocols=tuple(MemberProtocol(name, metadata) for name in names),
            must_rejoin_with_id=version >= 4,
            may_skip_assignment=version >= 9,
        )
        if "as" in said:
            self.given[client] -= 1
        self._carry_out(self.shard.handle_join(self._now(), request, self._waiter(said.get("as", client))))

    def do_sync(self, member_id: str, *options: str) -> None:
        """SyncGroup."""
        said = _options(options)
        request = Sync(
            group_id=GROUP,
            generation_id=int(said.pop("generation")),
            member_id=member_id,
            instance_id=said.pop("instance", None),
            protocol_name=said.pop("protocol", None),
            assignments=tuple((other, work.encode()) for other, work in said.items()),
        )
        self._carry_out(self.shard.handle_sync(self._now(), request, self._waiter(member_id)))

    def do_heartbeat(self, member_id: str, *options: str) -> None:
        """Heartbeat."""
        said = _options(options)
        request = Heartbeat(GROUP, int(said["generation"]), member_id, said.get("instance"))
        self._carry_out(self.shard.handle_heartbeat(self._now(), request, self._waiter(member_id)))

    def do_leave(self, *members: str) -> None:
        """LeaveGroup."""
        leaving = []
        for member in members:
            _, is_instance, instance_id = member.partition("instance:")
            leaving.append(LeavingMember("", instance_id) if is_instance else LeavingMember(member))
        request = Leave(GROUP, tuple(leaving))
        self._carry_out(self.shard.handle_leave(self._now(), request, self._waiter("leave")))

    def do_commit(self, member_id: str, *options: str) -> None:
        """OffsetCommit."""
        said = _options(options)
        generation_id = int(said.pop("generation", "-1"))
        instance_id = said.pop("instance", None)
        metadata = said.pop("metadata", "")
        producer = said.pop("producer", None)
        by_topic: dict[str, list[OffsetToCommit]] = {}
        for name, offset in said.items():
            partition = _partition(name)
            by_topic.setdefault(partition.topic, []).append(
                OffsetToCommit(partition.partition, int(offset), metadata=metadata)
            )
        topics = tuple(
            TopicOffsetsToCommit(topic, self._topic_id(topic) or GONE, tuple(offsets))
            for topic, offsets in by_topic.items()
        )
        known_id = "" if member_id == "-" else member_id
        committer = Committer(GROUP, generation_id, known_id, instance_id)
        request = CommitOffsets(committer, topics)
        if producer is not None:
            committer = replace(committer, is_transactional=True, knows_group_id_not_found=False)
            request = CommitOffsets(committer, topics, ProducerIdentity(int(producer), 0))
        self._carry_out(self.shard.handle_commit(self._now(), request, self._waiter(member_id)))

    def do_fetch(self, *names: str) -> None:
        """OffsetFetch."""
        is_stable = names[0] == "stable"
        names = names[1:] if is_stable else names
        partitions = None if names == ("*",) else tuple(_partition(name) for name in names)
        request = FetchOffsets(GROUP, partitions, require_stable=is_stable)
        self._carry_out(self.shard.handle_fetch(self._now(), request, self._waiter("fetch")))

    def do_end(self, producer_id: str, how: str) -> None:
        """The marker of a transaction."""
        marker = TransactionMarker(int(producer_id), 1, 0, how == "commit", 2)
        self._carry_out(self.shard.handle_transaction_end(self._now(), marker, self._waiter("end")))

    def do_delete(self) -> None:
        """DeleteGroups."""
        self._carry_out(self.shard.handle_delete(self._now(), GROUP, self._waiter("delete")))

    def do_delete_offsets(self, *names: str) -> None:
        """OffsetDelete."""
        request = DeleteOffsets(GROUP, tuple(_partition(name) for name in names))
        self._carry_out(self.shard.handle_delete_offsets(self._now(), request, self._waiter("delete-offsets")))

    def do_delete_topics(self, *topics: str) -> None:
        """Topics disappear."""
        for topic in topics:
            self.topic_ids[topic] = None
        self.deleted_topics.add(topics)
        if not self.is_loading:
            self._carry_out(self.shard.handle_topics_deleted(self._now(), topics))

    def do_create_topics(self, *topics: str) -> None:
        """Topics are made (again)."""
        for topic in topics:
            del self.topic_ids[topic]

    def do_forget_topic_ids(self) -> None:
        """Offsets as brokers wrote them that did not know topic ids."""
        for index, (key, value) in enumerate(self.log):
            record = self.shard.decode(key, value)
            if isinstance(record, OffsetRecord) and record.committed is not None:
                self.log[index] = self.shard.encode(replace(record, committed=replace(record.committed, topic_id=None)))

    def do_state(self) -> None:
        """Print the group."""
        group = next(iter(self.shard.groups()), None)
        if group is None:
            self.out.append("  no group")
            return
        assert isinstance(group, ClassicGroup)
        members = " ".join(
            f"{member.member_id}{'*' if member.member_id == group.leader_id else ''}" for member in group.members
        )
        self.out.append(f"  {group.state.value} generation={group.generation_id} members=[{members}]")
        if group.members.pending:
            self.out.append(f"  pending=[{' '.join(group.members.pending)}]")

    def do_wait(self, duration: str) -> None:
        """Let time pass."""
        self.timer.advance(_ms(duration))

    def do_clock(self, by: str) -> None:
        """Have the wall clock jump."""
        clock = self.timer.clock
        clock.set_now(clock.now_ms() + (-1 if by[0] == "-" else 1) * _ms(by[1:]))

    def empty_shard(self) -> GroupShard:
        """A shard that has loaded nothing yet."""
        return GroupShard(self.config, self.deleted_topics)

    def record_text(self, record: Record) -> str:
        """A record in a line."""
        return _record_text(record)

    def answer_text(self, answer: Any) -> str:
        """An answer in a line."""
        return _answer_text(answer)

    def _new_shard(self) -> GroupShard:
        shard = self.empty_shard()
        self.is_loading = False
        shard.handle_loaded(0)
        return shard

    def _topic_id(self, topic: str) -> UUID | None:
        if topic not in self.topic_ids:
            self.topics_made += 1
            self.topic_ids[topic] = UUID(int=self.topics_made)
        return self.topic_ids[topic]

    def _now(self) -> int:
        return self.timer.clock.now_ms()

    def _on_timer(self, key: Hashable) -> None:
        self._carry_out(self.shard.handle_timer(self._now(), key))

    def _waiter(self, who: str) -> Callable[[Any], None]:
        return lambda answer: self.out.append(f"{self._when()}{who} <- {self.answer_text(answer)}")

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            if isinstance(record, TransactionEnd):
                marker = record.marker
                self.transactions[len(self.log)] = marker.committed
                self.log.append((str(marker.producer_id).encode(), None))
                self.shard.replay_transaction_end(marker.producer_id, committed=marker.committed)
                self.out.append(f"  log: end of {marker.producer_id}")
                continue
            if isinstance(record, TransactionalRecord):
                producer_id = record.producer.producer_id
                self.transactions[len(self.log)] = producer_id
                self.log.append(self.shard.encode(record.record))
                self.shard.replay_transactional(record.record, producer_id)
                self.out.append(f"  log: of {producer_id}: {_record_text(record.record)}")
                continue
            self.log.append(self.shard.encode(record))
            self.shard.replay(record)
            self.out.append(f"{self._when()}log: {self.record_text(record)}")
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)

    def _when(self) -> str:
        passed_ms = self._now() - self.waiting_since
        return f"  after {passed_ms / 1_000:g}s: " if passed_ms else "  "


def _answer_text(answer: Any) -> str:
    error = answer.error
    text = type(answer).__name__.removesuffix("Answer").lower() or "done"
    if error is not ErrorCode.NONE:
        text += f" {error.name}"
        return text + f" {answer.member_id}" if error is ErrorCode.MEMBER_ID_REQUIRED else text
    if isinstance(answer, JoinAnswer):
        text += (
            f" {answer.member_id} generation={answer.generation_id} {answer.protocol_name} leader={answer.leader_id}"
        )
        if answer.members:
            text += f" members=[{' '.join(member.member_id for member in answer.members)}]"
        text += " skip-assignment" if answer.skip_assignment else ""
    elif isinstance(answer, SyncAnswer):
        text += f" {answer.assignment.decode() or 'nothing'}"
    elif isinstance(answer, LeaveAnswer):
        text += "".join(f" {each.member_id or each.instance_id}:{each.error.name}" for each in answer.members)
    elif isinstance(answer, CommitAnswer):
        text += "".join(f" {partition}:{code.name}" for partition, code in answer.refused.items())
    elif isinstance(answer, DeleteOffsetsAnswer):
        text += "".join(f" {partition}:{code.name}" for partition, code in answer.partitions.items())
    elif isinstance(answer, FetchAnswer):
        text += "".join(f" {partition}={each.offset if each else None}" for partition, each in answer.offsets.items())
        text += "" if answer.offsets else " nothing"
        text += "".join(f" {partition}:UNSTABLE" for partition in sorted(answer.unstable))
    return text


def _record_text(record: Record) -> str:
    if isinstance(record, OffsetRecord):
        return f"offset {record.partition} = {record.committed.offset if record.committed else 'gone'}"
    assert isinstance(record, GroupRecord)
    snapshot = record.snapshot
    if snapshot is None:
        return "group gone"
    members = " ".join(f"{member.member_id}={member.assignment.decode()}" for member in snapshot.members)
    return f"group generation={snapshot.generation_id} leader={snapshot.leader_id} [{members}]"


def _options(words: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for word in words:
        name, _, value = word.partition("=")
        options[name] = value
    return options


def _partition(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


def _ms(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    assert match is not None, duration
    return int(match[1]) * _UNIT_MS[match[2]]
