"""The coordinator over a partition that keeps what it is given: the whole way from request to commit."""

import logging
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.deleted_topics import SWEEP_DELAY_MS_MIN
from ottla.groups.group_config import GROUP_ID_BYTES_MAX, PROTOCOLS_PER_MEMBER_MAX, GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.members import MemberProtocol
from ottla.groups.offset_sweep import SLICE_INTERVAL_MS, SLICE_ITEMS_MAX
from ottla.groups.requests import (
    CommitOffsets,
    Committer,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    OffsetToCommit,
    Sync,
    TopicOffsetsToCommit,
)
from ottla.metadata.controller.replica_assignment import new_partition
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import PartitionsAddedRecord, TopicRemovedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.turns import ITEMS_PER_TURN
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import environment, until
from tests.unit.gateways.turns_of_the_loop import TurnsOfTheLoop
from tests.unit.metadata.images import image_of, topic_record

PARTITION = TopicPartition("flights", 0)
OFFSETS = 3 * SLICE_ITEMS_MAX + 7


class Harness:
    """A coordinator of an offsets topic with one partition."""

    def __init__(self, **config: Any) -> None:
        self.config = GroupConfig(**{"offsets_topic_partitions": 1, "initial_rebalance_delay_ms": 0, **config})
        self.environment, self.turn = environment()
        self.image = image_of(topic_record("flights", 1))
        self.groups = self._new_coordinator()
        self.partition = HeldPartition(self.environment, index=0)
        self.answers: list[Any] = []

    async def elect(self) -> None:
        self.groups.elected(self.partition)
        await until(lambda: not self.groups.is_loading)

    def restart(self) -> None:
        self.groups.close()
        self.groups = self._new_coordinator()

    def _new_coordinator(self) -> GroupCoordinator:
        groups = GroupCoordinator(self.config, self.environment)
        groups.metadata_changed(self.image)
        return groups

    @property
    def topic_id(self) -> UUID:
        """The id of the topic there is now."""
        return self.image.topics_by_name["flights"].topic_id

    def delete_topic(self) -> None:
        """The topic is gone."""
        self.image, _ = apply_records(self.image, [TopicRemovedRecord(self.topic_id)])
        self.groups.metadata_changed(self.image, ["flights"])

    def create_topic(self, number: int) -> None:
        """The topic is made again."""
        self.image, _ = apply_records(self.image, [topic_record("flights", number)])
        self.groups.metadata_changed(self.image)

    def join(self, **values: Any) -> None:
        request = Join(
            **{
                "group_id": "g",
                "member_id": "",
                "new_member_id": "m",
                "instance_id": None,
                "client_id": "client",
                "client_host": "/10.0.0.1",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 30_000,
                "protocol_type": "consumer",
                "protocols": (MemberProtocol("range", b""),),
                "must_rejoin_with_id": False,
                **values,
            }
        )
        self.groups.join(request, self.answers.append)

    def commit(self, offset: int, group_id: str = "g") -> None:
        topics = (TopicOffsetsToCommit("flights", self.topic_id, (OffsetToCommit(0, offset),)),)
        self.groups.commit_offsets(CommitOffsets(Committer(group_id), topics), self.answers.append)

    def fetch(self, group_id: str = "g") -> None:
        self.groups.fetch_offsets(FetchOffsets(group_id), self.answers.append)


def shard_of(harness: Harness) -> GroupShard:
    """The one shard."""
    (shard,) = harness.groups._runtime.active_shards()
    return shard


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.environment.tasks.close()


async def test_a_group_goes_from_join_to_work_and_survives_a_restart(harness: Harness):
    await harness.elect()
    harness.join()
    harness.environment.timer.advance(1)
    harness.turn.end()
    assert harness.answers.pop().generation_id == 1
    harness.groups.sync(Sync("g", 1, "m", assignments=(("m", b"work"),)), harness.answers.append)
    assert harness.answers == []
    harness.turn.end()
    assert harness.answers.pop().assignment == b"work"
    harness.restart()
    await harness.elect()
    harness.groups.heartbeat(Heartbeat("g", 1, "m"), harness.answers.append)
    assert harness.answers.pop().error is ErrorCode.NONE
    harness.groups.describe("g", harness.answers.append)
    description = harness.answers.pop()
    assert (description.state, description.members[0].assignment) == ("Stable", b"work")


async def test_offsets_are_visible_when_they_are_committed_and_survive_a_restart(harness: Harness):
    await harness.elect()
    harness.partition.holds_back = True
    harness.commit(7)
    harness.fetch()
    harness.turn.end()
    assert harness.answers == []
    harness.partition.commit()
    committed, fetched = harness.answers
    assert committed.error is ErrorCode.NONE
    assert fetched.offsets[PARTITION].offset == 7
    harness.restart()
    await harness.elect()
    harness.fetch()
    assert harness.answers[2].offsets[PARTITION].offset == 7


async def test_a_commit_that_the_log_refuses_is_not_seen(harness: Harness):
    await harness.elect()
    harness.partition.holds_back = True
    harness.commit(7)
    harness.turn.end()
    await harness.partition.lose()
    assert [answer.error for answer in harness.answers] == [ErrorCode.NOT_COORDINATOR]
    await until(lambda: not harness.groups.is_loading)
    harness.fetch()
    assert harness.answers[1].offsets == {}


async def test_before_the_election_and_while_loading_clients_are_sent_away(harness: Harness):
    harness.commit(7)
    harness.groups.heartbeat(Heartbeat("g", 1, "m"), harness.answers.append)
    harness.groups.elected(harness.partition)
    harness.commit(7)
    harness.groups.heartbeat(Heartbeat("g", 1, "m"), harness.answers.append)
    with pytest.raises(ApiError, match="loaded"):
        await harness.groups.list_groups()
    assert [answer.error for answer in harness.answers] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NONE,
    ]


async def test_groups_belong_to_the_partition_of_their_name():
    harness = Harness(offsets_topic_partitions=50)
    harness.partition.index = harness.groups.partition_of("g")
    await harness.elect()
    harness.commit(7, "g")
    harness.commit(7, "another")
    harness.turn.end()
    assert sorted(answer.error for answer in harness.answers) == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
    await harness.environment.tasks.close()


async def test_groups_stay_in_their_partitions_when_the_topic_grows_but_not_when_it_is_made_again(harness: Harness):
    first = topic_record(CONSUMER_OFFSETS_TOPIC, 7, 10)
    grown = PartitionsAddedRecord(first.topic_id, (new_partition((1,)),))
    again = topic_record(CONSUMER_OFFSETS_TOPIC, 8, 11)
    seen = []
    for records in ([first], [grown], [TopicRemovedRecord(first.topic_id)], [again]):
        harness.image, _ = apply_records(harness.image, records)
        harness.groups.metadata_changed(harness.image)
        seen.append(harness.groups.partition_of("hello"))
    assert seen == [99162322 % 10] * 3 + [99162322 % 11]


async def test_deleting_a_topic_takes_the_offsets_in_it_along(harness: Harness):
    await harness.elect()
    harness.commit(7)
    harness.delete_topic()
    harness.create_topic(2)
    harness.fetch()
    harness.turn.end()
    assert harness.answers[1].offsets == {}
    harness.restart()
    await harness.elect()
    harness.fetch()
    assert harness.answers[2].offsets == {}


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_topic_deleted_while_its_groups_are_loaded_leaves_no_offsets(harness: Harness, is_made_again: bool):
    await harness.elect()
    harness.commit(7)
    harness.turn.end()
    harness.restart()
    harness.groups.elected(harness.partition)
    harness.delete_topic()
    if is_made_again:
        harness.create_topic(2)
    await until(lambda: not harness.groups.is_loading)
    harness.fetch()
    harness.turn.end()
    assert harness.answers[1].offsets == {}
    assert shard_of(harness).offset_count == 0


async def test_offsets_whose_tombstones_a_crash_prevented_are_removed_after_the_next_start(harness: Harness):
    await harness.elect()
    harness.commit(7)
    harness.turn.end()
    harness.image = image_of(topic_record("flights", 2))
    harness.restart()
    await harness.elect()
    harness.fetch()
    assert shard_of(harness).offset_count == 0
    harness.turn.end()
    assert harness.answers[1].offsets == {}
    assert len(harness.partition.batches) == 2


async def test_many_offsets_of_a_deleted_topic_go_in_slices_and_are_seen_by_nobody_meanwhile(
    harness: Harness, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    await harness.elect()
    for number in range(OFFSETS):
        harness.commit(number, f"g{number}")
    harness.turn.end()
    harness.answers.clear()
    before = len(harness.partition.batches)
    harness.delete_topic()
    harness.create_topic(2)
    harness.turn.end()
    assert 0 < sum(end - first for first, end, _ in harness.partition.batches[before:]) <= SLICE_ITEMS_MAX
    harness.fetch(f"g{OFFSETS - 1}")
    harness.commit(8, f"g{OFFSETS - 2}")
    harness.turn.end()
    assert harness.answers[0].offsets == {}
    while shard_of(harness).offset_count > 1:
        left = shard_of(harness).offset_count
        harness.environment.timer.advance(SLICE_INTERVAL_MS)
        harness.turn.end()
        assert left - SLICE_ITEMS_MAX <= shard_of(harness).offset_count < left
    assert f"removed {OFFSETS - 1} committed offsets of the deleted topic flights" in caplog.text
    harness.answers.clear()
    harness.restart()
    await harness.elect()
    harness.fetch(f"g{OFFSETS - 2}")
    assert harness.answers[0].offsets[PARTITION].offset == 8
    assert shard_of(harness).offset_count == 1


async def test_tombstones_the_log_refused_are_written_when_it_was_read_again(harness: Harness):
    await harness.elect()
    harness.commit(7)
    harness.turn.end()
    harness.partition.holds_back = True
    harness.delete_topic()
    harness.create_topic(2)
    harness.turn.end()
    await harness.partition.lose()
    for delay_ms in (SWEEP_DELAY_MS_MIN, 2 * SWEEP_DELAY_MS_MIN):
        await until(lambda: not harness.groups.is_loading)
        harness.fetch()
        assert (harness.answers.pop().offsets, shard_of(harness).offset_count) == ({}, 1)
        harness.environment.timer.advance(delay_ms - 1)
        assert shard_of(harness).offset_count == 1
        harness.environment.timer.advance(1)
        assert shard_of(harness).offset_count == 0
        harness.turn.end()
        if delay_ms == SWEEP_DELAY_MS_MIN:
            await harness.partition.lose()
    harness.partition.commit()
    assert len(harness.partition.batches) == 2
    harness.restart()
    await harness.elect()
    assert shard_of(harness).offset_count == 0


async def test_a_commit_that_was_read_before_its_topic_went_is_not_the_next_topics(harness: Harness):
    await harness.elect()
    old_id = harness.topic_id
    harness.delete_topic()
    harness.create_topic(2)
    commit = CommitOffsets(Committer("g"), (TopicOffsetsToCommit("flights", old_id, (OffsetToCommit(0, 7),)),))
    harness.groups.commit_offsets(commit, harness.answers.append)
    harness.fetch()
    harness.turn.end()
    committed, fetched = harness.answers
    assert committed.refused == {PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert fetched.offsets == {}


async def test_groups_are_listed_by_state_and_type(harness: Harness):
    await harness.elect()
    harness.commit(1, "simple")
    harness.join(group_id="busy")
    assert {group.group_id for group in await harness.groups.list_groups()} == {"simple", "busy"}
    assert [group.group_id for group in await harness.groups.list_groups(["empty"])] == ["simple"]
    assert [group.group_id for group in await harness.groups.list_groups([" PreparingRebalance "])] == ["busy"]
    assert await harness.groups.list_groups(["nonsense"]) == []
    assert len(await harness.groups.list_groups([], ["Classic"])) == 2
    assert await harness.groups.list_groups([], ["consumer"]) == []
    (busy,) = await harness.groups.list_groups(["PreparingRebalance"])
    assert (busy.protocol_type, busy.state, busy.group_type) == ("consumer", "PreparingRebalance", "classic")


async def test_a_group_is_deleted_when_nobody_is_in_it(harness: Harness):
    await harness.elect()
    harness.commit(1)
    harness.groups.delete("g", harness.answers.append)
    harness.groups.delete("g", harness.answers.append)
    harness.groups.describe("g", harness.answers.append)
    harness.turn.end()
    errors = [answer.error for answer in harness.answers]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("group_id", ["", "x" * (GROUP_ID_BYTES_MAX + 1)])
async def test_members_need_a_group_id_of_a_reasonable_length(harness: Harness, group_id: str):
    await harness.elect()
    groups, answer = harness.groups, harness.answers.append
    harness.join(group_id=group_id)
    groups.sync(Sync(group_id, 1, "m"), answer)
    groups.heartbeat(Heartbeat(group_id, 1, "m"), answer)
    groups.leave(Leave(group_id, ()), answer)
    assert {each.error for each in harness.answers} == {ErrorCode.INVALID_GROUP_ID}


async def test_offsets_may_belong_to_the_empty_group_id_but_not_to_an_endless_one(harness: Harness):
    await harness.elect()
    harness.commit(5, "")
    harness.fetch("")
    harness.groups.delete_offsets(DeleteOffsets("", (PARTITION,)), harness.answers.append)
    harness.commit(5, "x" * (GROUP_ID_BYTES_MAX + 1))
    harness.turn.end()
    refused, *served = harness.answers
    assert refused.error is ErrorCode.INVALID_GROUP_ID
    assert [answer.error for answer in served] == [ErrorCode.NONE] * 3


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance_id": "x" * 1_025}, ErrorCode.INVALID_REQUEST),
        ({"protocol_type": "x" * 1_025}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (MemberProtocol("x" * 1_025, b""),)}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (MemberProtocol("x", bytes(4 * 1024 * 1024 + 1)),)}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (MemberProtocol("x", b""),) * (PROTOCOLS_PER_MEMBER_MAX + 1)}, ErrorCode.INVALID_REQUEST),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_a_join_that_asks_for_too_much_or_offers_nothing_is_refused(
    harness: Harness, values: dict[str, Any], error: ErrorCode
):
    await harness.elect()
    harness.join(**values)
    assert [answer.error for answer in harness.answers] == [error]


async def test_whoever_waits_is_told_when_the_broker_stops(harness: Harness):
    await harness.elect()
    harness.join()
    harness.groups.close()
    assert [answer.error for answer in harness.answers] == [ErrorCode.NOT_COORDINATOR]


async def test_others_get_on_while_many_groups_are_listed(harness: Harness):
    await harness.elect()
    for number in range(5 * ITEMS_PER_TURN):
        harness.commit(1, f"g{number}")
    async with TurnsOfTheLoop() as turns:
        listed = await harness.groups.list_groups()
    assert len(listed) == 5 * ITEMS_PER_TURN
    assert turns.count >= 4


async def test_a_group_lives_on_while_the_offsets_topic_is_short_of_replicas(harness: Harness):
    await harness.elect()
    shard = shard_of(harness)
    harness.join()
    harness.environment.timer.advance(1)
    harness.groups.sync(Sync("g", 1, "m", assignments=(("m", b"work"),)), harness.answers.append)
    harness.turn.end()
    partition = harness.partition
    partition.min_insync_replicas, partition.replica_count, partition.isr_size = 2, 3, 1
    harness.answers.clear()
    for _ in range(3):
        harness.environment.timer.advance(9_000)
        harness.groups.heartbeat(Heartbeat("g", 1, "m"), harness.answers.append)
        harness.commit(7, "other")
        harness.groups.sync(Sync("g", 1, "m"), harness.answers.append)
        harness.groups.leave(Leave("g", ()), harness.answers.append)
        harness.join(member_id="m")
        harness.turn.end()
        refused = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 4
        assert [answer.error for answer in harness.answers] == [ErrorCode.NONE, *refused]
        harness.answers.clear()
    # Nobody is put out who cannot be told so for good.
    harness.environment.timer.advance(60_000)
    partition.isr_size = 2
    harness.groups.heartbeat(Heartbeat("g", 1, "m"), harness.answers.append)
    harness.commit(8, "other")
    harness.turn.end()
    assert [answer.error for answer in harness.answers] == [ErrorCode.NONE] * 2
    assert shard_of(harness) is shard
