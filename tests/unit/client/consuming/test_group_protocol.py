"""What members of a group write, members with other clients read, and the other way round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as OtherAssignment
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as OtherSubscription

from ottla.client.consuming.group_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition

names = st.text("abc.-_", min_size=1, max_size=5)
partitions = st.sets(st.builds(TopicPartition, names, st.integers(0, 30)), max_size=10)


@given(partitions)
def test_an_assignment_is_read_by_another_client(given_out):
    theirs = OtherAssignment.decode(encode_assignment(given_out))
    assert {(topic.topic, number) for topic in theirs.assigned_partitions for number in topic.partitions} == given_out


@given(partitions)
def test_the_assignment_of_another_client_is_read(given_out):
    by_topic: dict[str, list[int]] = {}
    for topic, number in given_out:
        by_topic.setdefault(topic, []).append(number)
    data = OtherAssignment(0, list(by_topic.items()), b"").encode()
    assert set(decode_assignment(data)) == given_out


@given(st.sets(names, max_size=5), partitions, st.integers(-1, 100), st.none() | names)
def test_a_subscription_comes_back_as_it_was(topics, owned, generation, rack):
    data = encode_subscription(Subscription(tuple(topics), tuple(owned), generation, rack))
    read = decode_subscription(data)
    assert (set(read.topics), set(read.owned), read.generation, read.rack) == (topics, owned, generation, rack)


def test_a_subscription_is_read_by_another_client():
    data = encode_subscription(Subscription(("b", "a"), (TopicPartition("a", 3),), 7, "r1"))
    theirs = OtherSubscription.decode(data)
    assert list(theirs.topics) == ["a", "b"]
    assert theirs.generation_id == 7
    assert theirs.rack_id == "r1"


def test_the_old_subscription_of_another_client_is_read():
    data = OtherSubscription(0, ["t"], b"").encode()
    assert decode_subscription(data) == Subscription(("t",))


def test_no_bytes_are_no_partitions():
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize("data", [b"\0", b"\0\0\xff", b"\0\0" + b"\x7f" * 20, b"\0\x09" + b"\0" * 20])
def test_bytes_that_are_no_assignment_are_refused(data):
    with pytest.raises(InvalidInputError):
        decode_assignment(data)
