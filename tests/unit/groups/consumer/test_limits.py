"""What a stranger cannot make a consumer group hold."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from ottla.coordination.outcome import Outcome
from ottla.groups.answers import ConsumerHeartbeatAnswer
from ottla.groups.consumer import consumer_groups, group_update, regexes
from ottla.groups.consumer.assignor import SLICE_PARTITIONS
from ottla.groups.consumer.consumer_group import ConsumerGroup
from ottla.groups.consumer_config import ConsumerGroupConfig, GroupTimes
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group import GroupType
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.members import MemberProtocol
from ottla.groups.requests import ConsumerHeartbeat, Join
from ottla.groups.step import AssignmentTimer
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


class Harness:
    """A shard whose outcomes are applied."""

    def __init__(self, topics: Mapping[str, int], record_bytes_max: int = 1_000_000, **settings: Any) -> None:
        images = {
            name: TopicImage(
                name,
                UUID(int=number),
                tuple(PartitionImage(index, 1, 0, (1,), (1,), 0) for index in range(count)),
            )
            for number, (name, count) in enumerate(topics.items(), start=1)
        }
        image = MetadataImage("", topics_by_name=images, topics_by_id={each.topic_id: each for each in images.values()})
        consumer = ConsumerGroupConfig(default_times=GroupTimes(assignment_interval_ms=0), **settings)
        config = GroupConfig(consumer=consumer, record_bytes_max=record_bytes_max)
        self.shard = GroupShard(config, DeletedTopics(lambda name: None), lambda: image)
        self.shard.handle_loaded(0)

    def join(self, member_id: str, *names: str, regex: str | None = None) -> ConsumerHeartbeatAnswer:
        return self.beat(
            ConsumerHeartbeat(
                "g", member_id, 0, rebalance_timeout_ms=1_000, topic_names=names, topic_regex=regex, owned=()
            )
        )

    def beat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        answers: list[ConsumerHeartbeatAnswer] = []
        self.apply(self.shard.handle_consumer_heartbeat(0, request, answers.append))
        [answer] = answers
        return answer

    def apply(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.shard.replay(record)
        for waiter, answer in outcome.answers:
            waiter(answer)

    @property
    def group(self) -> ConsumerGroup:
        [group] = self.shard.groups()
        assert isinstance(group, ConsumerGroup)
        return group


def test_a_group_is_full_and_its_members_are_not_turned_away():
    harness = Harness({"t": 4}, max_size=2)
    assert [harness.join(each, "t").error for each in "ab"] == [ErrorCode.NONE] * 2
    assert harness.join("c", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.join("a", "t").error is ErrorCode.NONE


def test_subscriptions_are_counted_once_for_all_who_have_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumer_groups, "GROUP_METADATA_BYTES_MAX", 100)
    harness = Harness({})
    assert harness.join("a", "t").error is ErrorCode.NONE
    assert harness.join("b", "t").error is ErrorCode.NONE
    refused = harness.join("c", "u")
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "100 bytes" in (refused.message or "")
    assert list(harness.group.members) == ["a", "b"]


def test_expressions_of_a_group_are_counted_and_what_they_match_fits_a_record(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(regexes, "REGEXES_PER_GROUP_MAX", 2)
    monkeypatch.setattr(regexes, "MATCHED_BYTES_MAX", 20)
    harness = Harness({"orders-1": 1, "orders-2": 1, "orders-3": 1})
    refused = harness.join("a", regex="orders.*")
    assert refused.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "matches 3 topics" in (refused.message or "")
    assert [harness.join(each, regex=f"orders-{each}").error for each in "12"] == [ErrorCode.NONE] * 2
    assert harness.join("3", regex="orders-1").error is ErrorCode.NONE
    assert harness.join("4", regex="orders-3").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert harness.join("5", regex="o" * 5_000).error is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_what_would_not_fit_the_record_of_a_member_is_not_assigned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_update, "ASSIGNMENT_PARTITIONS_MAX", 5)
    harness = Harness({"t": 6})
    refused = harness.join("a", "t")
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "6 partitions" in (refused.message or "")
    assert list(harness.shard.groups()) == []


@pytest.mark.parametrize(("record_bytes_max", "kind"), [(150, GroupType.CONSUMER), (1_000, GroupType.CLASSIC)])
def test_a_group_whose_record_would_be_too_large_does_not_become_a_classic_one(record_bytes_max: int, kind: GroupType):
    harness = Harness({"t": 2}, record_bytes_max)
    harness.join("a", "t")
    subscription = b"\0\1" + ConsumerProtocolSubscription(topics=("t",)).encode(1)
    request = Join(
        group_id="g",
        member_id="b",
        new_member_id="",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(MemberProtocol("range", subscription),),
    )
    harness.apply(harness.shard.handle_join(0, request, lambda answer: None))
    assert list(harness.group.members) == ["a", "b"]
    harness.beat(ConsumerHeartbeat("g", "a", -1))
    [group] = harness.shard.groups()
    assert group.group_type is kind


def test_a_member_that_waits_for_the_first_assignment_is_in_an_epoch_of_its_own():
    topics = {f"t{number}": SLICE_PARTITIONS for number in range(group_update.SLICES_AT_ONCE + 2)}
    harness = Harness(topics)
    request = ConsumerHeartbeat(
        "g", "a", 0, rebalance_timeout_ms=1_000, topic_names=tuple(topics), server_assignor="range", owned=()
    )
    answer = harness.beat(request)
    assert (answer.error, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 1, {})
    assert (harness.group.epoch, harness.group.target_epoch, harness.group.state_name) == (2, 1, "Assigning")
    for _ in topics:
        harness.apply(harness.shard.handle_timer(0, AssignmentTimer("g")))
    answer = harness.beat(ConsumerHeartbeat("g", "a", 1))
    assert answer.member_epoch == 2
    assert [len(indexes) for indexes in (answer.assignment or {}).values()] == [SLICE_PARTITIONS] * len(topics)
