from uuid import UUID

from ottla.metadata.controller.topic_deletion import decide_topic_deletion
from ottla.metadata.controller.topic_limits import TopicLimits
from ottla.metadata.image.delta import apply_records
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from tests.unit.metadata.images import image_of, topic_record

IMAGE = image_of(topic_record("a", 1), topic_record("b", 2), topic_record("__consumer_offsets", 3))


def codes(*topics, limits=None):
    decision = decide_topic_deletion(IMAGE, topics, limits or TopicLimits())
    return [each.code if isinstance(each, ApiError) else each.name for each in decision.result]


def test_topics_go_by_name_and_by_id():
    decision = decide_topic_deletion(IMAGE, ["a", UUID(int=2)], TopicLimits())
    after, _ = apply_records(IMAGE, decision.records)
    assert list(after.topics_by_name) == ["__consumer_offsets"]


def test_what_is_not_there_is_told_apart_by_name_and_id():
    assert codes("x", UUID(int=9), "a") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, "a"]


def test_a_topic_named_twice_stays():
    assert codes("a", "b", UUID(int=1)) == [ErrorCode.INVALID_REQUEST, "b", ErrorCode.INVALID_REQUEST]


def test_nothing_goes_when_deletion_is_switched_off():
    assert codes("a", limits=TopicLimits(delete_topic_enable=False)) == [ErrorCode.TOPIC_DELETION_DISABLED]


def test_a_coordinators_topic_can_be_deleted_as_in_kafka():
    assert codes("__consumer_offsets") == ["__consumer_offsets"]
