"""Partitions that are to be on other brokers."""

from uuid import UUID

from ottla.metadata.controller.internal_topic_growth import missing_replicas
from ottla.metadata.controller.reassignment import Reassignment, decide_reassignments, ongoing_reassignments
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.delta import apply_records
from ottla.metadata.records import BrokerChangedRecord, ConfigRecord, PartitionState, TopicRecord
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from tests.unit.metadata.images import image_of, topic_record

A = UUID(int=1)
WHOLE = PartitionState(1, 5, (1, 2, 3), (1, 2, 3), 9)
MOVING = PartitionState(1, 5, (4, 2, 3, 1), (1, 2, 3), 10, adding=(4,), removing=(1,))
LIMITS = TopicLimits()


def decided(image, *requests, limits=LIMITS, **fields):
    decision = decide_reassignments(image, [Reassignment("a", *each) for each in requests], limits, {}, **fields)
    after, _ = apply_records(image, decision.records)
    outcomes = [None if each is None else each.code for each in decision.result]
    return outcomes, [partition.state for partition in after.topic("a").partitions], decision


def image_with(*states, **fields):
    return image_of(TopicRecord("a", A, states), brokers=(1, 2, 3, 4, 5), **fields)


def test_new_replicas_are_added_before_old_ones_go():
    outcomes, states, decision = decided(image_with(WHOLE), (0, (4, 2, 3)))
    assert (outcomes, states) == ([None], [MOVING])
    assert [line.text for line in decision.lines] == [
        "a-0: replicas 4,2,3,1 instead of 1,2,3, adding 4 instead of none, removing 1 instead of none: it was asked for"
    ]


def test_what_needs_no_new_copy_is_done_at_once():
    outcomes, states, _ = decided(image_with(WHOLE, WHOLE, WHOLE), (0, (3, 1, 2)), (1, (1, 2)), (2, (1, 2, 3)))
    assert outcomes == [None, None, None]
    assert states == [
        WHOLE._replace(replicas=(3, 1, 2), partition_epoch=10),
        PartitionState(1, 6, (1, 2), (1, 2), 10),
        WHOLE,
    ]


def test_a_leader_that_goes_at_once_is_followed_by_one_that_stays():
    _, states, _ = decided(image_with(WHOLE), (0, (2, 3)))
    assert states == [PartitionState(2, 6, (2, 3), (2, 3), 10)]


def test_a_move_under_way_is_replaced_by_another():
    _, states, _ = decided(image_with(MOVING), (0, (5, 2, 3)))
    assert states == [PartitionState(1, 6, (5, 2, 3, 1), (1, 2, 3), 11, adding=(5,), removing=(1,))]


def test_who_is_still_to_be_added_stays_so_when_the_move_changes():
    _, states, _ = decided(image_with(MOVING), (0, (2, 4, 3)))
    assert states == [PartitionState(1, 5, (2, 4, 3, 1), (1, 2, 3), 11, adding=(4,), removing=(1,))]


def test_a_move_that_took_the_place_of_another_is_cancelled_to_the_replicas_before_both():
    for target in ((5, 2, 3), (2, 4, 3)):
        outcomes, (state,), _ = decided(image_with(MOVING), (0, target), (0, None))
        assert (outcomes, sorted(state.replicas), state.isr) == ([None, None], [1, 2, 3], (1, 2, 3))


def test_who_was_added_and_is_in_sync_goes_only_when_the_new_ones_are():
    in_sync = PartitionState(1, 5, (4, 5, 3, 1, 2), (1, 3, 4), 10, adding=(4, 5), removing=(1, 2))
    _, (state,), _ = decided(image_with(in_sync), (0, (5, 3, 2)))
    assert state == PartitionState(1, 5, (5, 3, 2, 1, 4), (1, 3, 4), 11, adding=(5, 4), removing=(1, 4))
    _, (back,), _ = decided(image_with(state), (0, None))
    assert (sorted(back.replicas), back.isr) == ([1, 2, 3], (1, 3))


def test_who_was_added_and_alone_may_lead_is_not_given_up():
    eligible = PartitionState(-1, 5, (4, 5, 3, 1, 2), (), 10, adding=(4, 5), removing=(1, 2), elr=(4,))
    _, (state,), _ = decided(image_with(eligible), (0, (5, 3, 2)))
    assert (state.leader, state.isr, state.adding, state.removing) == (4, (4,), (5, 4), (1, 4))
    outcomes, _, _ = decided(image_with(state), (0, None))
    assert outcomes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


def test_a_cancelled_move_leaves_the_replicas_that_were_there():
    outcomes, states, _ = decided(image_with(MOVING), (0, None))
    assert outcomes == [None]
    assert states == [PartitionState(1, 6, (2, 3, 1), (1, 2, 3), 11)]


def test_a_move_is_not_cancelled_when_only_added_replicas_are_in_sync():
    only_new = MOVING._replace(leader=4, isr=(4,))
    outcomes, states, _ = decided(image_with(only_new), (0, None))
    assert (outcomes, states) == ([ErrorCode.INVALID_REPLICA_ASSIGNMENT], [only_new])
    unclean = image_with(only_new)
    unclean, _ = apply_records(unclean, [ConfigRecord(2, "a", "unclean.leader.election.enable", "true")])
    outcomes, states, decision = decided(unclean, (0, None))
    assert (outcomes, states[0].leader, states[0].isr) == ([None], 2, (2,))
    assert "records may be lost" in decision.lines[0].text


def test_what_cannot_be_is_refused_by_partition():
    outcomes, states, _ = decided(
        image_with(WHOLE),
        (0, (9,)),
        (0, ()),
        (0, (1, 1)),
        (0, None),
        (1, (1,)),
        (0, (1, 2, 4)),
        may_change_factor=False,
    )
    assert outcomes == [
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ]
    assert states[0].adding == (4,)
    outcomes, _, _ = decided(image_with(MOVING), (0, (1, 2)), may_change_factor=False)
    assert outcomes == [ErrorCode.INVALID_REPLICATION_FACTOR]
    outcomes, _, _ = decided(image_with(WHOLE), (0, (1, 2, 4)), limits=TopicLimits(partitions_per_broker_max=0))
    assert outcomes == [ErrorCode.POLICY_VIOLATION]


def test_those_under_way_are_listed():
    image = image_with(WHOLE, MOVING)
    (found,) = ongoing_reassignments(image)
    assert (found.partition, found.replicas) == (TopicPartition("a", 1), (4, 2, 3, 1))
    assert (found.adding, found.removing) == ((4,), (1,))
    wanted = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 7), TopicPartition("b", 0)]
    assert ongoing_reassignments(image, wanted) == [found]


FACTORS = {"__consumer_offsets": 3, "__transaction_state": 2}


def test_internal_topics_are_raised_as_brokers_join_and_spread():
    image = image_of(topic_record("__consumer_offsets", 1, 6), topic_record("a", 2), brokers=(1, 2, 3))
    requests = missing_replicas(image, FACTORS)
    assert [request.topic for request in requests] == ["__consumer_offsets"] * 6
    assert all(set(request.replicas or ()) == {1, 2, 3} for request in requests)
    assert sorted((request.replicas or ())[0] for request in requests) == [1, 1, 2, 2, 3, 3]
    decision = decide_reassignments(image, requests, LIMITS, {})
    after, _ = apply_records(image, decision.records)
    assert missing_replicas(after, FACTORS) == []


def test_internal_topics_get_no_more_replicas_than_there_are_brokers_and_never_fewer():
    fenced = BrokerChangedRecord(3, 3, fenced=True, shutting_down=False)
    image = image_of(
        topic_record("__consumer_offsets", 1, 2),
        topic_record("__transaction_state", 2, 1, (1, 2, 3)),
        fenced,
        brokers=(1, 2, 3),
    )
    requests = missing_replicas(image, FACTORS)
    assert [(request.topic, set(request.replicas or ())) for request in requests] == [
        ("__consumer_offsets", {1, 2})
    ] * 2
    alone = image_of(topic_record("__consumer_offsets", 1), brokers=(1,))
    assert missing_replicas(alone, FACTORS) == []


def test_new_replicas_of_internal_topics_go_to_other_racks_first():
    racks = {1: "x", 2: "x", 3: "y"}
    image = image_of(topic_record("__transaction_state", 1), brokers=(1, 2, 3), racks=racks)
    (request,) = missing_replicas(image, FACTORS)
    assert set(request.replicas or ()) == {1, 3}
