"""What clients put into a group and what is read back from the offsets topic, whoever wrote it.

which, 1 byte: 0 a record (size of its key, 1 byte | key | value), 1 a subscription, 2 an assignment | rest
"""

from ottla.client.consuming.group_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.groups.record_format import decode, encode
from ottla.groups.subscription import subscribed_topics
from ottla.native.errors import MessageError


def check(data: bytes) -> None:
    """See the top of the file."""
    if len(data) < 2:
        return
    match data[0] % 3:
        case 0:
            key, value = data[2 : 2 + data[1]], data[2 + data[1] :]
            record(key, value)
            record(key, None)
        case 1:
            subscription(data[1:])
        case _:
            assignment(data[1:])


def record(key: bytes, value: bytes | None) -> None:
    """A record that is known is written as one that reads the same."""
    try:
        found = decode(key, value)
    except MessageError:
        return
    if found is not None:
        assert decode(*encode(found)) == found


def subscription(data: bytes) -> None:
    """The coordinator, which reads only the topics, sees those that a member sees."""
    topics = subscribed_topics(data)
    try:
        found = decode_subscription(data)
    except MessageError:
        return
    assert topics == frozenset(found.topics)
    again = decode_subscription(encode_subscription(found))
    assert set(again.topics) == set(found.topics)
    assert set(again.owned) == set(found.owned)


def assignment(data: bytes) -> None:
    """An assignment that is read is written as one that reads the same."""
    try:
        found = decode_assignment(data)
    except MessageError:
        return
    assert sorted(decode_assignment(encode_assignment(found))) == sorted(found)
