import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.subscription import subscribed_topics
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


@pytest.mark.parametrize("version", range(4))
def test_the_topics_are_read_from_every_version(version: int):
    message = ConsumerProtocolSubscription(topics=("flights", "airports"), user_data=b"\x01\x02")
    assert subscribed_topics(version.to_bytes(2, "big") + message.encode(version)) == {"flights", "airports"}


def test_a_version_still_to_come_is_read_by_its_beginning():
    message = ConsumerProtocolSubscription(topics=("flights",))
    assert subscribed_topics(b"\x00\x63" + message.encode(3) + b"more") == {"flights"}


def test_no_topics_is_an_empty_set_and_not_unknown():
    assert subscribed_topics(b"\x00\x00" + ConsumerProtocolSubscription().encode(0)) == frozenset()


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\1", b"\0\1\xff\xff\xff\xff", b"\0\1\x7f\xff\xff\xff", b"\0\1\0\0\0\1\0\5ab", b"\0\1\0\0\0\1\0\1\xff"],
)
def test_what_is_no_subscription_tells_nothing(data: bytes):
    assert subscribed_topics(data) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_read_without_harm(data: bytes):
    topics = subscribed_topics(data)
    assert topics is None or all(isinstance(topic, str) for topic in topics)
