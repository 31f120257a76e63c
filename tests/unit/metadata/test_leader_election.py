"""Elections of leaders that are asked for, and the balance of leaders."""

from uuid import UUID

import pytest

from ottla.metadata.controller.leader_election import (
    ELECTIONS_PER_BALANCE,
    ElectionType,
    decide_leader_balance,
    decide_leader_election,
    leaderless,
)
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import BrokerChangedRecord, ConfigRecord, PartitionState, TopicRecord
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from tests.unit.metadata.images import image_of

LED_BY_THE_FIRST = PartitionState(1, 0, (1, 2), (1, 2), 0)
LED_BY_THE_SECOND = PartitionState(2, 1, (1, 2), (2,), 1)
IN_SYNC_AGAIN = PartitionState(2, 1, (1, 2), (2, 1), 2)
WITHOUT_A_LEADER = PartitionState(-1, 2, (3, 2), (), 2, elr=(3,), last_known_leader=3)
OFFLINE = PartitionState(-1, 2, (3,), (), 2, elr=(3,), last_known_leader=3)
TOPIC = TopicRecord("a", UUID(int=1), (LED_BY_THE_FIRST, LED_BY_THE_SECOND, IN_SYNC_AGAIN, WITHOUT_A_LEADER, OFFLINE))
IMAGE = image_of(TOPIC, BrokerChangedRecord(3, 3, fenced=True, shutting_down=False), brokers=(1, 2, 3))

NOT_NEEDED, NOT_PREFERRED, NOBODY = (
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("election", "expected", "leaders"),
    [
        (ElectionType.PREFERRED, [NOT_NEEDED, NOT_PREFERRED, None, NOT_PREFERRED, NOT_PREFERRED], [1, 2, 1, -1, -1]),
        (ElectionType.UNCLEAN, [NOT_NEEDED, NOT_NEEDED, NOT_NEEDED, None, NOBODY], [1, 2, 2, 2, -1]),
    ],
)
def test_each_partition_is_elected_or_told_why_it_keeps_its_leader(election, expected, leaders):
    wanted = [TopicPartition("a", index) for index in range(5)]
    decision = decide_leader_election(IMAGE, election, wanted, {})
    codes = [(partition, getattr(error, "code", None)) for partition, error in decision.result]
    assert codes == list(zip(wanted, expected, strict=True))
    after, _ = apply_records(IMAGE, decision.records)
    assert [each.leader for each in after.topic("a").partitions] == leaders
    changed = sum(code is None for _, code in codes)
    assert len(decision.lines) == changed


@pytest.mark.parametrize(
    ("election", "indexes"), [(ElectionType.PREFERRED, [1, 2, 3, 4]), (ElectionType.UNCLEAN, [3, 4])]
)
def test_of_all_partitions_only_those_that_need_a_leader_are_told(election, indexes):
    decision = decide_leader_election(IMAGE, election, None, {})
    assert [partition.partition for partition, _ in decision.result] == indexes


def test_what_is_not_there_is_not_elected():
    wanted = [TopicPartition("a", 5), TopicPartition("b", 0)]
    decision = decide_leader_election(IMAGE, ElectionType.PREFERRED, wanted, {})
    assert [error.code for _, error in decision.result] == [UNKNOWN, UNKNOWN]
    assert decision.records == ()


def test_an_unclean_election_takes_the_replica_that_is_said_to_have_most_and_says_that_records_may_be_lost():
    state = PartitionState(-1, 2, (3, 1, 2), (), 2, elr=(3,), last_known_leader=3)
    fenced = BrokerChangedRecord(3, 3, fenced=True, shutting_down=False)
    image = image_of(TopicRecord("a", UUID(int=1), (state,)), fenced, brokers=(1, 2, 3))
    wanted = [TopicPartition("a", 0)]
    decision = decide_leader_election(image, ElectionType.UNCLEAN, wanted, {}, {wanted[0]: (2, 1, 3)})
    after, _ = apply_records(image, decision.records)
    assert after.partition("a", 0).state == PartitionState(2, 3, (3, 1, 2), (2,), 3)
    assert "records may be lost" in decision.lines[0].text


def test_leaderships_are_given_back_to_replicas_that_are_there_and_in_sync():
    decision = decide_leader_balance(IMAGE, {})
    after, _ = apply_records(IMAGE, decision.records)
    assert [each.leader for each in after.topic("a").partitions] == [1, 2, 1, -1, -1]
    assert decision.result is False


def test_one_round_of_balancing_moves_only_so_many():
    image = image_of(TopicRecord("a", UUID(int=1), (IN_SYNC_AGAIN,) * (ELECTIONS_PER_BALANCE + 1)), brokers=(1, 2))
    decision = decide_leader_balance(image, {})
    after, _ = apply_records(image, decision.records)
    assert sum(each.leader == 1 for each in after.topic("a").partitions) == ELECTIONS_PER_BALANCE
    assert decision.result is True
    again = decide_leader_balance(after, {})
    assert again.result is False


def test_only_topics_that_may_lose_records_are_to_be_led_by_anybody():
    assert leaderless(IMAGE, {}) == []
    assert leaderless(IMAGE, {"unclean.leader.election.enable": "true"}) == [TopicPartition("a", 3)]
    own, _ = apply_records(IMAGE, [ConfigRecord(2, "a", "unclean.leader.election.enable", "true")])
    assert leaderless(own, {}) == [TopicPartition("a", 3)]
