"""Conversations with a group coordinator about a consumer group (KIP-848), as text.

To what `tests.scenarios.groups.conversation` knows, these are added. A member remembers what it was told: a plain
`beat` says its epoch and what it owns, which is what it was last assigned.

    > topics orders=6 flights=3              there are these topics with so many partitions, and no others
    > beat a topics=orders                   the first one joins: all that a first request has to say
    > beat a                                 `epoch=2`, `owns=orders:0,1` or `owns=-` say something else than the truth;
                                             `instance=i`, `regex=o.*`, `assignor=range`, `rebalance=30s`
    > keep a                                 a heartbeat that says nothing but the epoch
    > leave-group a                          for good; `away a instance=i` for a while
    > describe                               what administrators see
    > sync a-1 generation=2                  SyncGroup, with the assignment in words
    > consumer-config max_size=2             settings, by their names in ConsumerGroupConfig and GroupTimes
"""

import struct
from typing import Any
from uuid import UUID

from msgspec import structs

from ottla.groups.answers import ConsumerDescribeAnswer, ConsumerHeartbeatAnswer, SyncAnswer
from ottla.groups.consumer.embedded_protocol import read_subscription
from ottla.groups.consumer_config import ConsumerGroupConfig, GroupTimes
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.members import MemberProtocol
from ottla.groups.records import GroupRecord, KeyedRecord, Record
from ottla.groups.requests import ConsumerHeartbeat, Join, Sync
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.coordinator_records import consumer_group as formats
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from tests.scenarios.groups.conversation import GROUP, Conversation, _ms, _options

STATES = {0: "stable", 1: "unrevoked", 2: "unreleased"}


class ConsumerConversation(Conversation):
    """A conversation with one consumer group."""

    def __init__(self) -> None:
        self.image = MetadataImage("")
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, tuple[tuple[UUID, tuple[int, ...]], ...]] = {}
        super().__init__()
        self.config = GroupConfig(
            initial_rebalance_delay_ms=0,
            consumer=ConsumerGroupConfig(default_times=GroupTimes(assignment_interval_ms=0)),
        )
        self.shard = self._new_shard()

    def empty_shard(self) -> GroupShard:
        return GroupShard(self.config, self.deleted_topics, lambda: self.image)

    def do_topics(self, *topics: str) -> None:
        """There are these topics; one that was there keeps its id."""
        by_name = {}
        for name, count in _options(topics).items():
            known = self.image.topic(name)
            if known is None or len(known.partitions) != int(count):
                topic_id = self._topic_id(name) if known is None else known.topic_id
                assert topic_id is not None
                partitions = tuple(PartitionImage(index, 1, 0, (1,), (1,), 0) for index in range(int(count)))
                known = TopicImage(name, topic_id, partitions)
            by_name[name] = known
        self.image = MetadataImage(
            "",
            end_offset=self.image.end_offset + 1,
            topics_by_name=by_name,
            topics_by_id={topic.topic_id: topic for topic in by_name.values()},
        )

    def do_consumer_config(self, *settings: str) -> None:
        """Start over with other settings."""
        said = {name: int(value) for name, value in _options(settings).items()}
        times = {name: said.pop(name) for name in GroupTimes.__struct_fields__ if name in said}
        booleans = {name: bool(said.pop(name)) for name in ("may_upgrade", "may_downgrade") if name in said}
        consumer = self.config.consumer
        consumer = structs.replace(
            consumer, default_times=structs.replace(consumer.default_times, **times), **said, **booleans
        )
        self.config = structs.replace(self.config, consumer=consumer)
        self.do_restart()

    def do_beat(self, client: str, *options: str) -> None:
        """ConsumerGroupHeartbeat with all that a client says when it has something to say."""
        said = _options(options)
        epoch = int(said.get("epoch", self.epochs.get(client, 0)))
        owned = self._owned(said["owns"]) if "owns" in said else () if epoch == 0 else self.owned.get(client, ())
        names: tuple[str, ...] | None = None
        if "topics" in said:
            names = tuple(said["topics"].split(",")) if said["topics"] else ()
        if epoch == 0 and names is None and "regex" not in said:
            names = ("orders",)
        self._heartbeat(
            ConsumerHeartbeat(
                group_id=GROUP,
                member_id=client,
                member_epoch=epoch,
                instance_id=said.get("instance"),
                rack_id=said.get("rack"),
                client_id=client,
                client_host="/10.0.0.1",
                rebalance_timeout_ms=_ms(said.get("rebalance", "60s")),
                topic_names=None if names is None else tuple(sorted(names)),
                topic_regex=said.get("regex"),
                server_assignor=said.get("assignor"),
                owned=owned,
            )
        )

    def do_keep(self, client: str, *options: str) -> None:
        """ConsumerGroupHeartbeat that says nothing new."""
        said = _options(options)
        epoch = int(said.get("epoch", self.epochs.get(client, 0)))
        self._heartbeat(
            ConsumerHeartbeat(
                GROUP, client, epoch, instance_id=said.get("instance"), client_id=client, client_host="/10.0.0.1"
            )
        )

    def do_leave_group(self, client: str, *options: str) -> None:
        """A member leaves."""
        self._heartbeat(ConsumerHeartbeat(GROUP, client, -1, instance_id=_options(options).get("instance")))
        self.epochs.pop(client, None)

    def do_away(self, client: str, *options: str) -> None:
        """A static member leaves for a while."""
        self._heartbeat(ConsumerHeartbeat(GROUP, client, -2, instance_id=_options(options).get("instance")))
        self.epochs.pop(client, None)

    def do_describe(self) -> None:
        """ConsumerGroupDescribe."""
        self._carry_out(self.shard.handle_consumer_describe(self._now(), GROUP, self._waiter("describe")))

    def do_describe_classic(self) -> None:
        """DescribeGroups."""
        self._carry_out(self.shard.handle_describe(self._now(), GROUP, self._waiter("describe")))

    def do_join(self, client: str, *options: str) -> None:
        """JoinGroup with what the member owns."""
        said = _options(options)
        owned = tuple(
            ConsumerProtocolSubscriptionTopicPartition(self._name(topic_id), indexes)
            for topic_id, indexes in (self._owned(said["owns"]) if said.get("owns") else ())
        )
        subscription = ConsumerProtocolSubscription(
            topics=tuple(said.get("topics", "orders").split(",")), owned_partitions=owned
        )
        metadata = struct.pack(">h", 1) + subscription.encode(1)
        if "as" not in said:
            self.given[client] = self.given.get(client, 0) + 1
        request = Join(
            group_id=GROUP,
            member_id=said.get("as", ""),
            new_member_id=f"{client}-{self.given.get(client, 0)}",
            instance_id=said.get("instance"),
            client_id=client,
            client_host="/10.0.0.1",
            session_timeout_ms=_ms(said.get("session", "10s")),
            rebalance_timeout_ms=_ms(said.get("rebalance", "60s")),
            protocol_type=said.get("type", "consumer"),
            protocols=tuple(MemberProtocol(name, metadata) for name in said.get("protocols", "range").split(",")),
        )
        self._carry_out(self.shard.handle_join(self._now(), request, self._waiter(said.get("as", client))))

    def do_sync(self, member_id: str, *options: str) -> None:
        """SyncGroup, whose assignments are partitions."""
        said = _options(options)
        generation_id = int(said.pop("generation"))
        instance_id = said.pop("instance", None)
        assignments = tuple((other, self._assignment(work)) for other, work in said.items())
        request = Sync(GROUP, generation_id, member_id, instance_id, assignments=assignments)
        self._carry_out(self.shard.handle_sync(self._now(), request, self._waiter(member_id)))

    def do_state(self) -> None:
        """Print the group in a list of groups."""
        group = next(iter(self.shard.groups()), None)
        self.out.append("  no group" if group is None else f"  {group.group_type.value} {group.state_name}")

    def _heartbeat(self, request: ConsumerHeartbeat) -> None:
        def told(answer: ConsumerHeartbeatAnswer) -> None:
            self.out.append(f"{self._when()}{request.member_id} <- {self.answer_text(answer)}")
            if answer.error is not ErrorCode.NONE or request.member_epoch < 0:
                return
            self.epochs[request.member_id] = answer.member_epoch
            if answer.assignment is not None:
                self.owned[request.member_id] = tuple((each, tuple(of)) for each, of in answer.assignment.items())

        self._carry_out(self.shard.handle_consumer_heartbeat(self._now(), request, told))

    def _name(self, topic_id: UUID) -> str:
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "?")

    def _owned(self, text: str) -> tuple[tuple[UUID, tuple[int, ...]], ...]:
        found = []
        for part in text.split("/") if text != "-" else ():
            name, _, indexes = part.partition(":")
            topic_id = self._topic_id(name)
            assert topic_id is not None
            found.append((topic_id, tuple(int(index) for index in indexes.split(","))))
        return tuple(found)

    def _assignment(self, text: str) -> bytes:
        assigned = tuple(
            ConsumerProtocolAssignmentTopicPartition(self._name(topic_id), indexes)
            for topic_id, indexes in self._owned(text)
        )
        return struct.pack(">h", 1) + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(1)

    # As text

    def partitions_text(self, partitions: Any) -> str:
        """Partitions by topic: `orders:0,1/flights:2`."""
        parts = [f"{self._name(topic_id)}:{','.join(map(str, sorted(of)))}" for topic_id, of in partitions if of]
        return "/".join(sorted(parts)) or "-"

    def answer_text(self, answer: Any) -> str:
        if isinstance(answer, ConsumerHeartbeatAnswer):
            if answer.error is not ErrorCode.NONE:
                return answer.error.name
            told = "" if answer.assignment is None else " " + self.partitions_text(answer.assignment.items())
            return f"epoch={answer.member_epoch}{told}"
        if isinstance(answer, ConsumerDescribeAnswer) and answer.error is ErrorCode.NONE:
            text = f"{answer.state} epoch={answer.group_epoch} target={answer.assignment_epoch} {answer.assignor_name}"
            for member in answer.members:
                kind = " classic" if member.is_classic else ""
                text += (
                    f"\n    {member.member_id}{kind} epoch={member.member_epoch}"
                    f" has {self.partitions_text(member.assignment.items())}"
                    f" is to have {self.partitions_text(member.target.items())}"
                )
            return text
        if isinstance(answer, SyncAnswer) and answer.error is ErrorCode.NONE:
            return f"sync {self._assignment_text(answer.assignment)}"
        return super().answer_text(answer)

    def _assignment_text(self, data: bytes) -> str:
        if not data:
            return "nothing"
        assignment = ConsumerProtocolAssignment.decode(struct.unpack_from(">h", data)[0], data, 2)
        parts = [f"{each.topic}:{','.join(map(str, each.partitions))}" for each in assignment.assigned_partitions]
        return "/".join(parts) or "-"

    def record_text(self, record: Record) -> str:
        if isinstance(record, GroupRecord) and record.snapshot is not None:
            members = " ".join(
                f"{member.member_id}={self._assignment_text(member.assignment)}" for member in record.snapshot.members
            )
            return f"classic group generation={record.snapshot.generation_id} [{members}]"
        if not isinstance(record, KeyedRecord):
            return super().record_text(record)
        return f"{_key_text(record)} {self._value_text(record.value)}"

    def _value_text(self, value: Any) -> str:
        match value:
            case None:
                return "gone"
            case formats.ConsumerGroupMetadataValue():
                return f"epoch={value.epoch}"
            case formats.ConsumerGroupTargetAssignmentMetadataValue():
                return f"epoch={value.assignment_epoch}"
            case formats.ConsumerGroupMemberMetadataValue():
                return _member_text(value)
            case formats.ConsumerGroupTargetAssignmentMemberValue():
                return self.partitions_text((each.topic_id, each.partitions) for each in value.topic_partitions)
            case formats.ConsumerGroupCurrentMemberAssignmentValue():
                has, gives = (
                    self.partitions_text((each.topic_id, each.partitions) for each in topics)
                    for topics in (value.assigned_partitions, value.partitions_pending_revocation)
                )
                text = f"epoch={value.member_epoch} before={value.previous_member_epoch} {STATES[value.state]} {has}"
                return text + (f" gives up {gives}" if gives != "-" else "")
            case formats.ConsumerGroupRegularExpressionValue():
                return ",".join(value.topics) or "-"
        raise AssertionError(value)


def _key_text(record: KeyedRecord) -> str:
    key = record.key
    match key:
        case formats.ConsumerGroupMetadataKey():
            return "group"
        case formats.ConsumerGroupPartitionMetadataKey():
            return "partition metadata"
        case formats.ConsumerGroupMemberMetadataKey():
            return f"member {key.member_id}"
        case formats.ConsumerGroupTargetAssignmentMetadataKey():
            return "target"
        case formats.ConsumerGroupTargetAssignmentMemberKey():
            return f"target {key.member_id}"
        case formats.ConsumerGroupCurrentMemberAssignmentKey():
            return f"current {key.member_id}"
        case formats.ConsumerGroupRegularExpressionKey():
            return f"regex {key.regular_expression}"
    raise AssertionError(key)


def _member_text(value: formats.ConsumerGroupMemberMetadataValue) -> str:
    parts = [f"topics={','.join(value.subscribed_topic_names) or '-'}"]
    if value.instance_id is not None:
        parts.append(f"instance={value.instance_id}")
    if value.subscribed_topic_regex:
        parts.append(f"regex={value.subscribed_topic_regex}")
    if value.server_assignor is not None:
        parts.append(f"assignor={value.server_assignor}")
    if value.classic_member_metadata is not None:
        protocols = value.classic_member_metadata.supported_protocols
        assert read_subscription(protocols[0].metadata).topics
        parts.append(f"classic={','.join(each.name for each in protocols)}")
    return " ".join(parts)
