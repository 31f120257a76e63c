"""Conversations with the coordinator of a streams group, as text.

A file has commands, which start with `> `, each followed by what the coordinator does: answers, records and, when asked
for, the state of the group. Time stands still but for `> wait`. Everything happens in one group, `app`. Members are
named by one word, which is their id; the process of `a1` is `a` unless they say otherwise.

    > topics orders=4 words=2              these topics there are, with so many partitions; `orders=0` is gone
    > topology 0:orders;>by-word 1:<by-word;+counts
                                           what the application is made of: each subtopology with its source topics,
                                           `>` repartition topics it writes, `<` those it reads (`<by-word/6` has a
                                           number of partitions of its own), `+` changelogs, `=orders,words` topics
                                           that must have as many partitions. `epoch=2` is that of the topology
    > join a1                              `process=p`, `endpoint=host:1`, `rebalance=60s`, `epoch=3` of the member
    > heartbeat a1 epoch=2                 `active=0_0,0_1 standby=0_2` is what it has: named one, told all; `shutdown`
    > leave a1
    > make-topics                          the topics that were asked for last are there
    > commit a1 epoch=2 orders-0=42 | fetch a1 epoch=2 orders-0 | delete
    > state | describe
    > wait 10s                             answers and records that the time brings are marked with when
    > clock -1h                            the wall clock jumps, `+2h` or back; no time passes
    > restart                              the shard is loaded again from what it wrote
    > config num_standby_replicas=1        settings, by their names in StreamsConfig; the delays are 0 at first
    > group-config streams.num.standby.replicas=1       what the group sets for itself
    > classic-group                        the group begins as a classic one without members, with an offset

Run `python -m tests.scenarios.streams_groups.rewrite` to write down what the code does now, and review the difference.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ottla.coordination.outcome import Outcome
from ottla.coordination.shard_timers import ShardTimers
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.records import GroupRecord, GroupSnapshot, KeyedRecord, OffsetRecord, Record
from ottla.groups.requests import CommitOffsets, Committer, FetchOffsets, OffsetToCommit, TopicOffsetsToCommit
from ottla.groups.streams.configured_topology import InternalTopic, Status
from ottla.groups.streams.exchange import StreamsDescribeAnswer, StreamsHeartbeat, StreamsHeartbeatAnswer
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from ottla.runtime.timer import ManualTimer
from tests.unit.metadata.images import image_of, topic_record

GROUP = "app"
CHANGELOG_CONFIG = {"cleanup.policy": "compact"}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CONFIG = StreamsConfig(initial_rebalance_delay_ms=0, assignment_interval_ms=0)


def run(script: str) -> str:
    """The script with its outputs replaced by what the coordinator does."""
    conversation = Conversation()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines.extend(conversation.say(line[2:]))
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


class OwnSettings:
    """What the group sets for itself, over what holds for all."""

    def __init__(self, own: Mapping[str, str], config: StreamsConfig) -> None:
        self.own = own
        self.config = config

    def integer(self, name: str) -> int:
        """The value that holds."""
        field = name.removeprefix("streams.").replace(".", "_")
        return int(self.own.get(name, getattr(self.config, field)))


class Conversation:
    """One shard with one group, its timers, the topics there are, and a log to load the shard from again."""

    def __init__(self) -> None:
        self.config = GroupConfig(streams=_CONFIG)
        self.timer = ManualTimer()
        self.topics: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self.image = MetadataImage("")
        self.asked_for: tuple[InternalTopic, ...] = ()
        self.topology: Topology | None = None
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers = ShardTimers(self.timer, self._on_timer)
        self.out: list[str] = []
        self.waiting_since = 0
        self.do_restart()

    def say(self, command: str) -> list[str]:
        """Carry out a command; what comes of it, a line each."""
        self.out = []
        verb, *words = command.split()
        self.waiting_since = self._now()
        getattr(self, "do_" + verb.replace("-", "_"))(*words)
        return self.out

    def do_topics(self, *words: str) -> None:
        """Topics are there, with so many partitions, or are not."""
        for name, count in _options(words).items():
            self.topics[name] = int(count)
            if count == "0":
                del self.topics[name]
        self._new_image()

    def do_make_topics(self) -> None:
        """What the coordinator asked for last is there."""
        self.topics.update({topic.name: topic.partition_count for topic in self.asked_for})
        self._new_image()

    def do_group_config(self, *words: str) -> None:
        """What the group sets for itself."""
        self.own = OwnSettings(_options(words), self.config.streams)
        streams = replace(self.config.streams, settings_of=lambda group_id: self.own)
        self.config = replace(self.config, streams=streams)
        self.do_restart()

    def do_topology(self, *words: str) -> None:
        """What members that join from here on bring."""
        options = {name: value for name, value in _options(words).items() if ":" not in name}
        subtopologies = tuple(_subtopology(word) for word in words if ":" in word)
        self.topology = Topology(int(options.get("epoch", "1")), subtopologies)

    def do_config(self, *words: str) -> None:
        """Start over with other settings."""
        values = {name: int(value) for name, value in _options(words).items()}
        self.config = GroupConfig(streams=replace(_CONFIG, **values))
        self.do_restart()

    def do_classic_group(self) -> None:
        """A classic group of the name was there before, and committed an offset."""
        snapshot = GroupSnapshot("consumer", 3, None, None, 0, ())
        self._carry_out(Outcome(records=[GroupRecord(GROUP, snapshot)]))
        self.do_restart()
        self.do_commit("-", "orders-0=7")

    def do_restart(self) -> None:
        """Load the shard anew."""
        self.timers.close()
        deleted = DeletedTopics(lambda name: None if (topic := self.image.topic(name)) is None else topic.topic_id)
        self.shard = GroupShard(self.config, deleted, lambda: self.image)
        for key, value in self.log:
            record = self.shard.decode(key, value)
            assert record is not None
            self.shard.replay(record)
        self._carry_out(self.shard.handle_loaded(self._now()))

    def do_join(self, member_id: str, *words: str) -> None:
        """StreamsGroupHeartbeat of one that joins, with epoch 0."""
        said = _options(words)
        endpoint = said.get("endpoint")
        self._heartbeat(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                endpoint_information_epoch=-1,
                rebalance_timeout_ms=_ms(said.get("rebalance", "60s")),
                topology=self.topology,
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
                process_id=said.get("process", member_id[:1]),
                user_endpoint=None
                if endpoint is None
                else Endpoint(endpoint.split(":")[0], int(endpoint.split(":")[1])),
                client_tags=(),
            )
        )

    def do_heartbeat(self, member_id: str, *words: str) -> None:
        """StreamsGroupHeartbeat of a member."""
        said = _options(words)
        tells = said.keys() & {"active", "standby"}
        self._heartbeat(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=int(said["epoch"]),
                endpoint_information_epoch=int(said.get("endpoints", "-1")),
                active_tasks=_tasks(said.get("active", "")) if tells else None,
                standby_tasks=_tasks(said.get("standby", "")) if tells else None,
                warmup_tasks=() if tells else None,
                shutdown_application="shutdown" in said,
            )
        )

    def do_leave(self, member_id: str, *words: str) -> None:
        """StreamsGroupHeartbeat of a member that goes."""
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=-1, shutdown_application="shutdown" in words
        )
        self._heartbeat(request)

    def do_commit(self, member_id: str, *words: str) -> None:
        """OffsetCommit."""
        said = _options(words)
        epoch = int(said.pop("epoch", "-1"))
        topics = []
        for name, offset in said.items():
            topic, _, index = name.rpartition("-")
            found = self.image.topic(topic)
            assert found is not None, f"there is no topic {topic}"
            topics.append(TopicOffsetsToCommit(topic, found.topic_id, (OffsetToCommit(int(index), int(offset)),)))
        committer = Committer(GROUP, epoch, "" if member_id == "-" else member_id)
        request = CommitOffsets(committer, tuple(topics))
        self._carry_out(self.shard.handle_commit(self._now(), request, self._waiter(member_id)))

    def do_fetch(self, member_id: str, *words: str) -> None:
        """OffsetFetch."""
        said = _options(words)
        epoch = int(said.pop("epoch", "-1"))
        partitions = tuple(TopicPartition(*_partition(name)) for name in said)
        request = FetchOffsets(GROUP, partitions, None if member_id == "-" else member_id, epoch)
        self._carry_out(self.shard.handle_fetch(self._now(), request, self._waiter(member_id)))

    def do_delete(self) -> None:
        """DeleteGroups."""
        self._carry_out(self.shard.handle_delete(self._now(), GROUP, self._waiter("delete")))

    def do_describe(self) -> None:
        """StreamsGroupDescribe."""
        self._carry_out(self.shard.handle_streams_describe(self._now(), GROUP, self._waiter("describe")))

    def do_state(self) -> None:
        """Print the group as a list of groups has it."""
        group = next(iter(self.shard.groups()), None)
        kind = "" if group is None else f"{group.group_type.value} group, {group.protocol_type}, {group.state_name}"
        self.out.append(f"  {kind or 'no group'}")

    def do_wait(self, duration: str) -> None:
        """Let time pass."""
        self.timer.advance(_ms(duration))

    def do_clock(self, by: str) -> None:
        """Have the wall clock jump."""
        clock = self.timer.clock
        clock.set_now(clock.now_ms() + (-1 if by[0] == "-" else 1) * _ms(by[1:]))

    def _heartbeat(self, request: StreamsGroupHeartbeatRequest) -> None:
        said = StreamsHeartbeat(request, "client", "/10.0.0.1")
        self._carry_out(self.shard.handle_streams_heartbeat(self._now(), said, self._waiter(request.member_id)))

    def _new_image(self) -> None:
        records = (topic_record(name, self._number(name), count) for name, count in sorted(self.topics.items()))
        image = image_of(*records)
        self.image = image

    def _number(self, name: str) -> int:
        """What the id of a topic is made of; another one once the topic was gone."""
        return self.numbers.setdefault(name, len(self.numbers) + 1)

    def _now(self) -> int:
        return self.timer.clock.now_ms()

    def _on_timer(self, key: Hashable) -> None:
        self._carry_out(self.shard.handle_timer(self._now(), key))

    def _waiter(self, who: str) -> Callable[[Any], None]:
        def waiter(answer: Any) -> None:
            if isinstance(answer, StreamsHeartbeatAnswer):
                self.asked_for = answer.topics_to_create
            self.out.extend(f"{self._when()}{who} <- {line}" for line in _answer_lines(answer))

        return waiter

    def _carry_out(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(self.shard.encode(record))
            self.shard.replay(record)
            self.out.append(f"{self._when()}log: {_record_text(record)}")
        self.timers.apply(outcome.timers)
        for waiter, answer in outcome.answers:
            waiter(answer)

    def _when(self) -> str:
        passed_ms = self._now() - self.waiting_since
        return f"  after {passed_ms / 1_000:g}s: " if passed_ms else "  "


# Text of what comes back


def _answer_lines(answer: Any) -> Iterable[str]:
    if answer.error is not ErrorCode.NONE:
        message = getattr(answer, "message", None)
        yield answer.error.name + (f": {message}" if message else "")
    elif isinstance(answer, StreamsHeartbeatAnswer):
        yield from _heartbeat_lines(answer)
    elif isinstance(answer, StreamsDescribeAnswer):
        yield from _describe_lines(answer)
    else:
        offsets: Mapping[Any, Any] = getattr(answer, "offsets", {})
        yield " ".join(("done", *(f"{each}={found.offset if found else None}" for each, found in offsets.items())))


def _heartbeat_lines(answer: StreamsHeartbeatAnswer) -> Iterable[str]:
    response = answer.response
    assert response is not None
    text = f"epoch {response.member_epoch}"
    if response.active_tasks is not None:
        text += f" active={_tasks_text(response.active_tasks)} standby={_tasks_text(response.standby_tasks or ())}"
    yield text
    for status in response.status or ():
        yield f"{Status(status.status_code).name}: {status.status_detail}"
    for topic in answer.topics_to_create:
        settings = "".join(f" {key}={value}" for key, value in topic.configs.items())
        yield f"asks for {topic.name}: {topic.partition_count} partitions{settings}"
    for each in response.partitions_by_user_endpoint or ():
        active = " ".join(f"{found.topic}-{index}" for found in each.active_partitions for index in found.partitions)
        copies = " ".join(f"{found.topic}-{index}" for found in each.standby_partitions for index in found.partitions)
        yield f"endpoints {response.endpoint_information_epoch}: {each.user_endpoint.host} [{active}] [{copies}]"


def _describe_lines(answer: StreamsDescribeAnswer) -> Iterable[str]:
    group = answer.group
    assert group is not None
    yield f"{group.group_state} epoch {group.group_epoch}, assignment {group.assignment_epoch}"
    topology = group.topology
    for each in () if topology is None else topology.subtopologies or ():
        internal = " ".join(
            f"{topic.name}/{topic.partitions}"
            for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
        )
        yield f"subtopology {each.subtopology_id}: {' '.join(each.source_topics)} [{internal}]"
    for member in group.members:
        has, target = member.assignment, member.target_assignment
        yield (
            f"{member.member_id} of {member.process_id} at {member.member_epoch}: "
            f"{_tasks_text(has.active_tasks)} {_tasks_text(has.standby_tasks)}, "
            f"is to have {_tasks_text(target.active_tasks)} {_tasks_text(target.standby_tasks)}"
        )


def _record_text(record: Record) -> str:
    if isinstance(record, OffsetRecord):
        return f"offset {record.partition} = {record.committed.offset if record.committed else 'gone'}"
    if isinstance(record, GroupRecord):
        return "classic group" + (" gone" if record.snapshot is None else "")
    assert isinstance(record, KeyedRecord)
    name = type(record.key).__name__.removeprefix("StreamsGroup").removesuffix("Key")
    member_id = getattr(record.key, "member_id", None)
    text = name if member_id is None else f"{name} {member_id}"
    return f"{text} {'gone' if record.value is None else _value_text(name, record.value)}"


def _value_text(name: str, value: Any) -> str:
    if name == "Metadata":
        return f"epoch={value.epoch} validated={value.validated_topology_epoch}"
    if name == "Topology":
        return f"epoch={value.epoch}"
    if name == "MemberMetadata":
        return f"process={value.process_id}"
    if name == "TargetAssignmentMetadata":
        return f"epoch={value.assignment_epoch}"
    text = f"{_tasks_text(value.active_tasks)} {_tasks_text(value.standby_tasks)}"
    if name == "CurrentMemberAssignment":
        state = ("", "Stable", "UnrevokedTasks", "UnreleasedTasks")[value.state]
        text = f"epoch={value.member_epoch} {state} {text}"
        revoking = (value.active_tasks_pending_revocation, value.standby_tasks_pending_revocation)
        if any(revoking):
            text += f" gives up {_tasks_text(revoking[0])} {_tasks_text(revoking[1])}"
    return text


def _tasks_text(ids: Iterable[Any]) -> str:
    return f"[{' '.join(f'{each.subtopology_id}_{partition}' for each in ids for partition in each.partitions)}]"


# What commands say


def _subtopology(text: str) -> Subtopology:
    subtopology_id, _, parts = text.partition(":")
    sources: list[str] = []
    sinks: list[str] = []
    repartition: list[TopicInfo] = []
    changelogs: list[TopicInfo] = []
    groups: list[list[str]] = []
    for part in filter(None, parts.split(";")):
        names = part.lstrip("<>+=").split(",")
        if part[0] == ">":
            sinks += names
        elif part[0] == "<":
            repartition += [TopicInfo(name.split("/")[0], int((*name.split("/"), "0")[1])) for name in names]
        elif part[0] == "+":
            changelogs += [TopicInfo(name, topic_configs=_key_values(CHANGELOG_CONFIG)) for name in names]
        elif part[0] == "=":
            groups.append(names)
        else:
            sources += names
    read = [topic.name for topic in repartition]
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=tuple(sources),
        state_changelog_topics=tuple(changelogs),
        repartition_sink_topics=tuple(sinks),
        repartition_source_topics=tuple(repartition),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=tuple(sources.index(name) for name in names if name in sources),
                repartition_source_topics=tuple(read.index(name) for name in names if name in read),
            )
            for names in groups
        ),
    )


def _key_values(pairs: Mapping[str, str]) -> tuple[KeyValue, ...]:
    return tuple(KeyValue(key, value) for key, value in pairs.items())


def _tasks(text: str) -> tuple[TaskIds, ...]:
    tasks = (each.rpartition("_") for each in text.split(",") if each)
    return tuple(TaskIds(subtopology_id, (int(partition),)) for subtopology_id, _, partition in tasks)


def _options(words: Iterable[str]) -> dict[str, str]:
    options = {}
    for word in words:
        name, _, value = word.partition("=")
        options[name] = value
    return options


def _partition(name: str) -> tuple[str, int]:
    topic, _, index = name.rpartition("-")
    return topic, int(index)


def _ms(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    assert match is not None, duration
    return int(match[1]) * _UNIT_MS[match[2]]
