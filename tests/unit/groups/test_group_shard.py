"""What the conversations in tests/scenarios/groups do not show: limits, and states that are set up by hand."""

from typing import Any

import pytest
from msgspec.structs import replace

from ottla.coordination.outcome import Outcome
from ottla.groups import group_config
from ottla.groups.answers import CommitAnswer, JoinAnswer, SyncAnswer
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.deleted_topics import DeletedTopics
from ottla.groups.group_config import GroupConfig
from ottla.groups.group_shard import GroupShard
from ottla.groups.group_state import GroupState
from ottla.groups.members import MemberProtocol
from ottla.groups.offset_sweep import SLICE_INTERVAL_MS, SLICE_ITEMS_MAX
from ottla.groups.records import CommittedOffset, GroupRecord, GroupSnapshot, MemberSnapshot, OffsetRecord
from ottla.groups.requests import CommitOffsets, Committer, Join, OffsetToCommit, Sync, TopicOffsetsToCommit
from ottla.groups.step import JoinTimer, LoadedGroupsTimer, OffsetExpiryTimer, SessionTimer
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from tests.unit.groups.topics import Topics

TOPICS = Topics("orders")
PARTITION = TopicPartition("orders", 0)


def orders(*offsets: OffsetToCommit) -> tuple[TopicOffsetsToCommit, ...]:
    """Offsets of the one topic."""
    return (TopicOffsetsToCommit("orders", TOPICS["orders"], offsets),)


class Harness:
    """A shard whose outcomes are applied; timers are set by hand."""

    def __init__(self, **settings: Any) -> None:
        self.shard = GroupShard(GroupConfig(initial_rebalance_delay_ms=0, **settings), DeletedTopics(TOPICS))
        self.outcomes: list[Outcome] = []
        self.apply(self.shard.handle_loaded(0))

    def apply(self, outcome: Outcome) -> list[Any]:
        self.outcomes.append(outcome)
        for record in outcome.records:
            self.shard.replay(record)
        return [answer for _, answer in outcome.answers]

    def join(self, member_id: str = "", new_id: str = "m", group_id: str = "g", **values: Any) -> list[Any]:
        request = Join(
            **{
                "group_id": group_id,
                "member_id": member_id,
                "new_member_id": new_id,
                "instance_id": None,
                "client_id": "client",
                "client_host": "/10.0.0.1",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 30_000,
                "protocol_type": "consumer",
                "protocols": (MemberProtocol("range", b"\0\0\0\0\0\0"),),
                **values,
            }
        )
        return self.apply(self.shard.handle_join(0, request, lambda answer: None))

    def stable(self, member_id: str = "m", **values: Any) -> None:
        """A group of one member at generation 1."""
        self.join(new_id=member_id, must_rejoin_with_id=False, **values)
        self.apply(self.shard.handle_timer(0, JoinTimer("g")))
        self.apply(self.shard.handle_sync(0, Sync("g", 1, member_id, values.get("instance_id")), lambda answer: None))
        assert self.group.state is GroupState.STABLE

    @property
    def group(self):
        return next(iter(self.shard.groups()))


def test_an_old_client_becomes_a_member_without_being_asked_to_join_twice():
    harness = Harness()
    assert harness.join(must_rejoin_with_id=False) == []
    assert harness.apply(harness.shard.handle_timer(0, JoinTimer("g")))[0].member_id == "m"


def test_ids_that_were_given_out_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_config, "PENDING_MEMBERS_MAX", 2)
    harness = Harness()
    answers = [harness.join(new_id=f"m{number}")[0].error for number in range(3)]
    required = ErrorCode.MEMBER_ID_REQUIRED
    assert answers == [required, required, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_what_the_members_of_a_group_offer_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_config, "GROUP_METADATA_BYTES_MAX", 25)
    harness = Harness()
    offer = (MemberProtocol("range", bytes(10)),)
    for member_id in ("a", "b"):
        harness.join(new_id=member_id, must_rejoin_with_id=False, protocols=offer)
    answers = harness.join(new_id="c", must_rejoin_with_id=False, protocols=offer)
    assert answers == [JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    assert harness.group.members.metadata_bytes == 20
    harness.apply(harness.shard.handle_timer(0, SessionTimer("g", "a")))
    assert harness.join(new_id="c", must_rejoin_with_id=False, protocols=offer) == []


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_config, "GROUPS_PER_SHARD_MAX", 1)
    harness = Harness()
    harness.join(group_id="first")
    assert harness.join(group_id="second") == [JoinAnswer(ErrorCode.POLICY_VIOLATION)]
    commit = CommitOffsets(Committer("third"), orders(OffsetToCommit(0, 1)))
    answers = harness.apply(harness.shard.handle_commit(0, commit, lambda answer: None))
    assert answers == [CommitAnswer(ErrorCode.POLICY_VIOLATION)]
    assert harness.shard.group_count == 1


def test_naming_groups_that_nobody_joins_costs_nothing_for_long():
    harness = Harness()
    harness.join(protocols=())
    assert harness.shard.group_count == 0
    harness.join()
    assert harness.shard.group_count == 1
    harness.apply(harness.shard.handle_timer(10_000, SessionTimer("g", "m")))
    assert harness.shard.group_count == 0


def test_a_group_too_large_to_be_stored_is_told_so_and_starts_over():
    harness = Harness(record_bytes_max=300)
    harness.join(must_rejoin_with_id=False)
    harness.apply(harness.shard.handle_timer(0, JoinTimer("g")))
    sync = Sync("g", 1, "m", assignments=(("m", b"x" * 300),))
    outcome = harness.shard.handle_sync(0, sync, lambda answer: None)
    assert harness.apply(outcome) == [SyncAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert outcome.records == []
    assert harness.group.state is GroupState.PREPARING_REBALANCE


def test_who_has_to_join_again_before_the_leader_assigned_has_nothing():
    harness = Harness()
    harness.stable()
    sync = Sync("g", 1, "m", None, assignments=(("m", b"work"),))
    harness.join("m", protocols=(MemberProtocol("range", b"\0\0\0\0\0\1"),))
    harness.apply(harness.shard.handle_sync(0, replace(sync, generation_id=2), lambda answer: None))
    assert [member.assignment for member in harness.group.members] == [b"work"]
    harness.join("m", protocols=(MemberProtocol("range", b"\0\0\0\0\0\2"),))
    assert harness.group.state is GroupState.COMPLETING_REBALANCE
    assert [member.assignment for member in harness.group.members] == [b"work"], "as in Kafka"
    harness.join(new_id="other", must_rejoin_with_id=False)
    assert harness.group.state is GroupState.PREPARING_REBALANCE
    assert [member.assignment for member in harness.group.members] == [b"", b""]


def test_a_rebalance_that_nobody_comes_to_is_not_tried_without_pause():
    harness = Harness()
    harness.stable(instance_id="i", rebalance_timeout_ms=0)
    harness.join(new_id="other", instance_id="j", rebalance_timeout_ms=0)
    harness.apply(harness.shard.handle_timer(0, SessionTimer("g", "other")))
    outcome = harness.shard.handle_timer(0, JoinTimer("g"))
    assert outcome.timers[JoinTimer("g")] == 1_000


def test_a_pending_id_cannot_be_used_by_a_static_member():
    harness = Harness()
    harness.join()
    answers = harness.join(member_id="m", instance_id="i")
    assert answers == [JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member_id="m")]


def test_the_client_and_host_of_a_static_member_that_moved_are_the_new_ones():
    harness = Harness()
    harness.stable(instance_id="i")
    harness.join(new_id="n", instance_id="i", client_id="other", client_host="/10.0.0.2")
    (member,) = harness.group.members
    assert (member.member_id, member.client_id, member.client_host) == ("n", "other", "/10.0.0.2")


@pytest.mark.parametrize(
    ("commit", "error"),
    [
        (CommitOffsets(Committer("g", 3, knows_group_id_not_found=True), ()), ErrorCode.GROUP_ID_NOT_FOUND),
        (CommitOffsets(Committer("g", 3, knows_group_id_not_found=False), ()), ErrorCode.ILLEGAL_GENERATION),
        (CommitOffsets(Committer("g", -1), ()), ErrorCode.NONE),
    ],
)
def test_commits_to_a_group_that_does_not_exist(commit: CommitOffsets, error: ErrorCode):
    harness = Harness()
    assert harness.apply(harness.shard.handle_commit(0, commit, lambda answer: None)) == [CommitAnswer(error)]


def test_metadata_that_no_record_can_hold_is_too_large_whatever_the_setting_says():
    harness = Harness(offset_metadata_max_bytes=1_000_000)
    offsets = (
        OffsetToCommit(0, 1, metadata="é" * 20_000),
        OffsetToCommit(1, 1, metadata="é" * 10_000),
    )
    commit = CommitOffsets(Committer("g"), orders(*offsets))
    (answer,) = harness.apply(harness.shard.handle_commit(0, commit, lambda answer: None))
    assert answer.refused == {PARTITION: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_an_offset_with_a_retention_of_its_own_goes_when_that_is_over():
    harness = Harness(offsets_retention_ms=1_000_000)
    commit = CommitOffsets(Committer("g", retention_ms=5_000), orders(OffsetToCommit(0, 1)))
    harness.apply(harness.shard.handle_commit(1_000, commit, lambda answer: None))
    harness.apply(harness.shard.handle_timer(5_999, OffsetExpiryTimer()))
    assert harness.shard.offset_count == 1
    harness.apply(harness.shard.handle_timer(6_000, OffsetExpiryTimer()))
    assert harness.shard.offset_count == 0
    assert harness.shard.group_count == 0


def test_offsets_of_many_groups_expire_in_slices():
    harness = Harness()
    for number in range(SLICE_ITEMS_MAX):
        committer = Committer(f"g{number}", retention_ms=1)
        commit = CommitOffsets(committer, orders(OffsetToCommit(0, 1), OffsetToCommit(1, 1), OffsetToCommit(2, 1)))
        harness.apply(harness.shard.handle_commit(0, commit, lambda answer: None))
    slices = 0
    delay_ms: int | None = SLICE_INTERVAL_MS
    while delay_ms == SLICE_INTERVAL_MS:
        left = harness.shard.offset_count
        harness.apply(harness.shard.handle_timer(10, OffsetExpiryTimer()))
        assert left - SLICE_ITEMS_MAX <= harness.shard.offset_count
        delay_ms = harness.outcomes[-1].timers[OffsetExpiryTimer()]
        slices += 1
    assert (harness.shard.offset_count, harness.shard.group_count, slices) == (0, 0, 4)
    assert delay_ms == GroupConfig().offsets_retention_check_interval_ms


def test_an_empty_group_that_somebody_is_about_to_join_is_not_expired():
    harness = Harness()
    harness.join()
    harness.apply(harness.shard.handle_timer(10**12, OffsetExpiryTimer()))
    assert harness.shard.group_count == 1


def test_offsets_of_a_group_that_does_not_tell_its_topics_are_kept_while_it_has_members():
    harness = Harness()
    harness.stable(protocol_type="connect", protocols=(MemberProtocol("range", b"?"),))
    commit = CommitOffsets(Committer("g", 1, "m"), orders(OffsetToCommit(0, 1)))
    harness.apply(harness.shard.handle_commit(0, commit, lambda answer: None))
    harness.apply(harness.shard.handle_timer(10**12, OffsetExpiryTimer()))
    assert harness.shard.offset_count == 1


def loading(*records: Any) -> GroupShard:
    shard = GroupShard(GroupConfig(), DeletedTopics(TOPICS))
    for record in records:
        shard.replay(record)
    return shard


def member(member_id: str) -> MemberSnapshot:
    return MemberSnapshot(member_id, None, "client", "/h", 30_000, 9_000, b"", b"work")


def test_the_last_record_of_a_group_counts_when_it_is_loaded():
    first = GroupSnapshot("consumer", 1, "range", "a", 0, (member("a"),))
    second = GroupSnapshot("consumer", 2, "range", "b", 0, (member("b"),))
    shard = loading(GroupRecord("g", first), GroupRecord("g", second))
    (group,) = shard.groups()
    assert isinstance(group, ClassicGroup)
    assert (group.generation_id, group.leader_id, group.state) == (2, "b", GroupState.STABLE)
    assert [each.member_id for each in group.members] == ["b"]


def test_the_sessions_of_many_loaded_members_begin_in_slices():
    count = 2 * SLICE_ITEMS_MAX
    groups = [GroupSnapshot("consumer", 1, "range", "a", 0, (member("a"),)) for _ in range(count)]
    shard = loading(*(GroupRecord(f"g{number}", group) for number, group in enumerate(groups)))
    outcome = shard.handle_loaded(100)
    begun: set[str] = set()
    for _ in range(4):
        sessions = [key.group_id for key in outcome.timers if isinstance(key, SessionTimer)]
        assert len(sessions) == SLICE_ITEMS_MAX // 2
        begun.update(sessions)
        assert outcome.timers[LoadedGroupsTimer()] == SLICE_INTERVAL_MS
        outcome = shard.handle_timer(100, LoadedGroupsTimer())
    assert len(begun) == count
    assert outcome.timers == {}


def test_every_loaded_member_has_a_whole_session():
    shard = loading(GroupRecord("g", GroupSnapshot("consumer", 1, "range", "a", 0, (member("a"), member("b")))))
    timers = shard.handle_loaded(500).timers
    assert timers[SessionTimer("g", "a")] == timers[SessionTimer("g", "b")] == 9_000


def test_a_deleted_group_and_a_deleted_offset_stay_deleted_when_loaded():
    committed = CommittedOffset(1, -1, "", 0)
    shard = loading(
        GroupRecord("g", GroupSnapshot("consumer", 1, None, None, 0, ())),
        OffsetRecord("g", PARTITION, committed),
        OffsetRecord("g", PARTITION, None),
        GroupRecord("g", None),
        GroupRecord("never there", None),
    )
    assert shard.group_count == 0
    assert shard.offset_count == 0


def test_a_group_of_offsets_alone_is_loaded_as_a_group_without_a_protocol():
    shard = loading(OffsetRecord("g", PARTITION, CommittedOffset(1, -1, "", 77)))
    (group,) = shard.groups()
    assert isinstance(group, ClassicGroup)
    assert group.state is GroupState.EMPTY
    assert group.protocol_type is None
