"""ISRs that leaders propose to the controller."""

import logging
from uuid import UUID

import pytest

from ottla.metadata.controller.isr_alteration import decide_isr_alteration
from ottla.metadata.controller.partition_changes import LINES_MAX
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import BrokerChangedRecord, ConfigRecord, PartitionState, TopicRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from tests.unit.metadata.images import image_of

A = UUID(int=1)
LED = PartitionState(1, 5, (1, 2, 3), (1, 2), 9)
MOVING = PartitionState(1, 5, (2, 3, 1), (1, 2), 9, removing=(1,))
FENCED = BrokerChangedRecord(4, 4, fenced=True, shutting_down=False)
IMAGE = image_of(TopicRecord("a", A, (LED, LED, MOVING)), FENCED, brokers=(1, 2, 3, 4))


def propose(index, *members, topic_id=A, epoch=5, change=9):
    return PartitionProposal(topic_id, index, epoch, change, tuple((each, each) for each in members))


def test_each_partition_is_decided_by_itself():
    proposals = [
        propose(0, 1, 2, 3),
        propose(1, 1, 3, change=8),
        propose(9, 1),
        propose(0, 1, topic_id=UUID(int=7)),
        propose(1, 1, 4),
    ]
    decision = decide_isr_alteration(IMAGE, 1, 1, proposals, {})
    changed, *refused = decision.result
    assert changed == PartitionState(1, 5, (1, 2, 3), (1, 2, 3), 10)
    assert [each.code for each in refused] == [
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ]
    after, _ = apply_records(IMAGE, decision.records)
    assert after.partition("a", 0).state == changed
    assert after.partition("a", 1).state == LED
    assert "a-0: ISR 1,2,3 instead of 1,2: proposed by its leader, broker 1" in [line.text for line in decision.lines]


def test_a_proposal_sees_the_one_before_it():
    decision = decide_isr_alteration(IMAGE, 1, 1, [propose(0, 1, 2, 3), propose(0, 1), propose(0, 1, change=10)], {})
    first, second, third = decision.result
    assert (first.partition_epoch, second.code, third.partition_epoch) == (10, ErrorCode.INVALID_UPDATE_VERSION, 11)
    after, _ = apply_records(IMAGE, decision.records)
    assert after.partition("a", 0).state == third


def test_who_leaves_an_isr_below_the_topics_minimum_stays_eligible():
    image, _ = apply_records(IMAGE, [ConfigRecord(2, "a", "min.insync.replicas", "2")])
    (after,) = decide_isr_alteration(image, 1, 1, [propose(0, 1)], {}).result
    assert after.elr == (2,)
    (by_brokers,) = decide_isr_alteration(IMAGE, 1, 1, [propose(0, 1)], {"min.insync.replicas": "2"}).result
    assert by_brokers.elr == (2,)
    (default,) = decide_isr_alteration(IMAGE, 1, 1, [propose(0, 1)], {}).result
    assert default.elr == ()


def test_a_proposal_that_ends_a_reassignment_without_its_leader_is_made_and_answered_so():
    decision = decide_isr_alteration(IMAGE, 1, 1, [propose(2, 1, 2, 3)], {})
    (outcome,) = decision.result
    assert outcome.code is ErrorCode.NEW_LEADER_ELECTED
    after, _ = apply_records(IMAGE, decision.records)
    assert after.partition("a", 2).state == PartitionState(2, 6, (2, 3), (2, 3), 10)


@pytest.mark.parametrize("count", [1, LINES_MAX + 1])
def test_a_replica_that_joins_and_leads_in_one_step_loses_nothing(count):
    moving = PartitionState(1, 5, (3, 2, 1), (1, 2), 9, adding=(3,), removing=(1,))
    image = image_of(TopicRecord("a", A, (moving,) * count), brokers=(1, 2, 3))
    decision = decide_isr_alteration(image, 1, 1, [propose(index, 1, 2, 3) for index in range(count)], {})
    after, _ = apply_records(image, decision.records)
    assert after.partition("a", 0).state == PartitionState(3, 6, (3, 2), (2, 3), 10)
    assert {line.level for line in decision.lines} == {logging.INFO}
    assert not any("lose" in line.text or "lost" in line.text or "miss" in line.text for line in decision.lines)


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 2), (9, 1)])
def test_only_a_registered_broker_proposes(broker_id, broker_epoch):
    with pytest.raises(ApiError) as refused:
        decide_isr_alteration(IMAGE, broker_id, broker_epoch, [propose(0, 1)], {})
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
