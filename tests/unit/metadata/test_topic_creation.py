import pytest

from ottla.metadata.controller.topic_creation import CreatedTopic, NewTopic, decide_topic_creation
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.delta import apply_records
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.rng import SeededRng
from tests.unit.metadata.images import image_of, topic_record


def decide(image, *topics, limits=None, seed=0):
    return decide_topic_creation(image, topics, limits or TopicLimits(), SeededRng(seed))


def refusal(image, *topics, limits=None):
    decision = decide(image, *topics, limits=limits)
    assert decision.records == ()
    outcome = decision.result[topics[-1].name]
    assert isinstance(outcome, ApiError)
    assert outcome.message
    return outcome


def test_a_topic_gets_what_it_asks_for():
    image = image_of(brokers=(1, 2, 3))
    decision = decide(image, NewTopic("a", 4, 2, configs={"retention.ms": " 5 "}))
    created = decision.result["a"]
    assert isinstance(created, CreatedTopic)
    assert (created.num_partitions, created.replication_factor, created.configs) == (4, 2, {"retention.ms": "5"})
    after, _ = apply_records(image, decision.records)
    topic = after.topic("a")
    assert topic is not None
    assert topic.topic_id == created.topic_id
    assert all(len(set(partition.replicas)) == 2 for partition in topic.partitions)
    assert all(partition.leader == partition.replicas[0] for partition in topic.partitions)
    assert all(partition.isr == partition.replicas for partition in topic.partitions)


def test_minus_one_asks_for_the_brokers_defaults():
    limits = TopicLimits(num_partitions=6, default_replication_factor=2)
    created = decide(image_of(brokers=(1, 2)), NewTopic("a"), limits=limits).result["a"]
    assert isinstance(created, CreatedTopic)
    assert (created.num_partitions, created.replication_factor) == (6, 2)


@pytest.mark.parametrize(("brokers", "default", "replicas"), [((1,), 1, 1), ((1, 2, 3, 4), 1, 3), ((1, 2, 3, 4), 4, 4)])
def test_what_ottla_keeps_for_itself_has_several_replicas_where_there_are_brokers(brokers, default, replicas):
    limits = TopicLimits(default_replication_factor=default)
    created = decide(image_of(brokers=brokers), NewTopic("__ottla_spark_sinks", 1), limits=limits)
    assert created.result["__ottla_spark_sinks"].replication_factor == replicas
    as_asked = decide(image_of(brokers=brokers), NewTopic("__ottla_spark_sinks", 1, 1), limits=limits)
    assert as_asked.result["__ottla_spark_sinks"].replication_factor == 1


def test_each_topic_is_decided_by_itself():
    decision = decide(image_of(), NewTopic("good"), NewTopic("bad name"), NewTopic("good2"))
    assert [isinstance(outcome, ApiError) for outcome in decision.result.values()] == [False, True, False]
    assert len(decision.records) == 2


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (NewTopic("with_dot"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a", 0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", -2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a", configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
        (
            NewTopic("a", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (NewTopic("a", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1]), (2, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_is_refused_with_kafkas_code(topic, code):
    image = image_of(topic_record("there", 1), topic_record("with.dot", 2))
    assert refusal(image, topic).code == code


def test_assignments_of_different_sizes_are_refused():
    topic = NewTopic("a", assignments=[(0, [1]), (1, [1, 2])])
    assert refusal(image_of(brokers=(1, 2)), topic).code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_assignment_is_followed_in_any_order():
    decision = decide(image_of(brokers=(1, 2)), NewTopic("a", assignments=[(1, [2, 1]), (0, [1, 2])]))
    assert [state.replicas for state in decision.records[0].partitions] == [(1, 2), (2, 1)]


def test_the_message_names_the_setting():
    assert "no.such" in refusal(image_of(), NewTopic("a", configs={"no.such": "1"})).message


def test_a_name_given_twice_is_refused_both_times():
    decision = decide(image_of(), NewTopic("a"), NewTopic("b"), NewTopic("a", 3))
    assert isinstance(decision.result["a"], ApiError)
    assert decision.result["a"].code == ErrorCode.INVALID_REQUEST
    assert [record.name for record in decision.records] == ["b"]


def test_names_of_one_request_must_not_collide_either():
    decision = decide(image_of(), NewTopic("a.b"), NewTopic("a_b"))
    assert isinstance(decision.result["a_b"], ApiError)
    assert decision.result["a_b"].code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_setting_that_asks_for_what_happens_anyway_is_kept():
    created = decide(image_of(), NewTopic("a", configs={"remote.storage.enable": "false"})).result["a"]
    assert isinstance(created, CreatedTopic)
    assert created.configs == {"remote.storage.enable": "false"}


def test_a_request_for_too_many_partitions_is_refused_whole():
    limits = TopicLimits(partitions_per_request_max=10)
    decision = decide(image_of(), NewTopic("a", 6), NewTopic("b", 5), limits=limits)
    assert decision.records == ()
    assert {outcome.code for outcome in decision.result.values()} == {ErrorCode.POLICY_VIOLATION}
    assert "partitions.per.request.max" in decision.result["a"].message
    assert decide(image_of(), NewTopic("a", 5), NewTopic("b", 5), limits=limits).records


def test_a_broker_that_is_full_takes_no_more():
    limits = TopicLimits(partitions_per_broker_max=4)
    image = image_of(topic_record("there", 1, 2))
    decision = decide(image, NewTopic("a", 1), NewTopic("b", 2), NewTopic("c", 1), limits=limits)
    codes = {name: getattr(outcome, "code", None) for name, outcome in decision.result.items()}
    assert codes == {"a": None, "b": ErrorCode.POLICY_VIOLATION, "c": None}


def test_without_brokers_no_topic_can_be():
    assert refusal(image_of(brokers=()), NewTopic("a")).code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_topic_ids_differ():
    decision = decide(image_of(), *(NewTopic(f"t{number}") for number in range(50)))
    assert len({record.topic_id for record in decision.records}) == 50
