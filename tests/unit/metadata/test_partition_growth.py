import pytest

from ottla.metadata.controller.partition_growth import NewPartitions, decide_partition_growth
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.delta import apply_records
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.rng import SeededRng
from tests.unit.metadata.images import image_of, topic_record

IMAGE = image_of(topic_record("a", 1, 2, (1, 2)), topic_record("b", 2, 1), brokers=(1, 2, 3))


def decide(*requests, limits=None):
    return decide_partition_growth(IMAGE, requests, limits or TopicLimits(), SeededRng(0))


def code(*requests, limits=None):
    outcome = decide(*requests, limits=limits).result[requests[-1].topic]
    assert isinstance(outcome, ApiError)
    return outcome.code


def test_new_partitions_follow_the_old_with_the_topics_replication_factor():
    decision = decide(NewPartitions("a", 5))
    assert decision.result == {"a": 5}
    after, _ = apply_records(IMAGE, decision.records)
    topic = after.topic("a")
    assert topic is not None
    assert [partition.index for partition in topic.partitions] == [0, 1, 2, 3, 4]
    assert topic.partitions[:2] == IMAGE.topics_by_name["a"].partitions
    assert all(len(partition.replicas) == 2 for partition in topic.partitions)


def test_brokers_can_be_named():
    decision = decide(NewPartitions("a", 3, [[3, 1]]))
    assert decision.records[0].partitions[0].replicas == (3, 1)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (NewPartitions("x", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("a", 2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", 1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", -1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", 4, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_is_refused_with_kafkas_code(request_, expected):
    assert code(request_) == expected


def test_a_topic_named_twice_does_not_grow():
    decision = decide(NewPartitions("a", 5), NewPartitions("a", 6), NewPartitions("b", 2))
    assert isinstance(decision.result["a"], ApiError)
    assert decision.result["a"].code == ErrorCode.INVALID_REQUEST
    assert decision.result["b"] == 2


def test_the_limits_hold_for_growth_too():
    limits = TopicLimits(partitions_per_request_max=3)
    assert code(NewPartitions("a", 5), NewPartitions("b", 2), limits=limits) == ErrorCode.POLICY_VIOLATION
    assert code(NewPartitions("b", 5), limits=limits) == ErrorCode.POLICY_VIOLATION
    assert code(NewPartitions("b", 50), limits=TopicLimits(partitions_per_broker_max=10)) == ErrorCode.POLICY_VIOLATION
