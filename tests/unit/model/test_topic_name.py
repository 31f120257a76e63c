import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import (
    TOPIC_NAME_LENGTH_MAX,
    collision_key,
    is_internal_topic,
    validate_topic_name,
)


@pytest.mark.parametrize("name", ["a", "orders.v1", "A-_.z", "...", "0", "x" * TOPIC_NAME_LENGTH_MAX])
def test_legal_names_pass(name):
    validate_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "café", "a\n", "a\0", "x" * (TOPIC_NAME_LENGTH_MAX + 1), "\u0661"]
)
def test_illegal_names_are_refused_as_kafka_refuses_them(name):
    with pytest.raises(ApiError) as refused:
        validate_topic_name(name)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.value.message


@given(st.text(max_size=20))
def test_a_name_that_passes_is_safe_as_a_directory(name):
    try:
        validate_topic_name(name)
    except ApiError:
        return
    assert name.isascii()
    assert "/" not in name
    assert name not in (".", "..")


def test_names_that_metrics_cannot_tell_apart_collide():
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")


def test_only_the_topics_of_coordinators_are_internal():
    assert is_internal_topic("__consumer_offsets")
    assert not is_internal_topic("__mine")
