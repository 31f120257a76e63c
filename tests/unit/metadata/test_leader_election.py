"""Elections of leaders, decided on images a single broker cannot reach by itself."""

from uuid import UUID

import pytest

from ottla.metadata.controller.leader_election import ElectionType, decide_leader_election
from ottla.metadata.records import PartitionState, TopicRecord
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from tests.unit.metadata.images import image_of

LED_BY_THE_FIRST = PartitionState(1, 0, (1, 2), (1, 2), 0)
LED_BY_THE_SECOND = PartitionState(2, 1, (1, 2), (2,), 1)
WITHOUT_A_LEADER = PartitionState(-1, 2, (1, 2), (), 2)
IMAGE = image_of(TopicRecord("a", UUID(int=1), (LED_BY_THE_FIRST, LED_BY_THE_SECOND, WITHOUT_A_LEADER)))

NOT_NEEDED, NOT_PREFERRED, NOBODY = (
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
)


@pytest.mark.parametrize(
    ("election", "expected"),
    [
        (ElectionType.PREFERRED, [NOT_NEEDED, NOT_PREFERRED, NOT_PREFERRED]),
        (ElectionType.UNCLEAN, [NOT_NEEDED, NOT_NEEDED, NOBODY]),
    ],
)
def test_each_partition_is_told_why_it_keeps_its_leader(election, expected):
    wanted = [TopicPartition("a", index) for index in range(3)]
    decision = decide_leader_election(IMAGE, election, wanted)
    assert [(partition, error.code) for partition, error in decision.result] == list(zip(wanted, expected, strict=True))
    assert decision.records == ()


@pytest.mark.parametrize(("election", "indexes"), [(ElectionType.PREFERRED, [1, 2]), (ElectionType.UNCLEAN, [2])])
def test_of_all_partitions_only_those_that_need_a_leader_are_told(election, indexes):
    decision = decide_leader_election(IMAGE, election, None)
    assert [partition.partition for partition, _ in decision.result] == indexes
