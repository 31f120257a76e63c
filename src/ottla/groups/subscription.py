"""The topics a consumer subscribes to, read from what it sends when it joins.

A subscription is Kafka's ConsumerProtocolSubscription: int16 version, then in every version an array of strings, then
fields this reader does not need. For `flights` alone, version 1:

    00 01 | 00 00 00 01 | 00 07 66 6c 69 67 68 74 73 | ...
"""

import struct

_HEADER = struct.Struct(">hi")
_INT16 = struct.Struct(">h")


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics, or None when the bytes are not a subscription: clients may put anything there."""
    try:
        _, count = _HEADER.unpack_from(subscription)
        position = _HEADER.size
        if not 0 <= count <= len(subscription):
            return None
        topics = set()
        for _ in range(count):
            (size,) = _INT16.unpack_from(subscription, position)
            position += _INT16.size
            if size < 0 or position + size > len(subscription):
                return None
            topics.add(subscription[position : position + size].decode())
            position += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
