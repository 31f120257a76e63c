"""Dead letters as Kafka's share groups write them (KIP-1191): the record, and headers that say where it was and why."""

from collections.abc import Sequence
from typing import Final

TOPIC: Final = "__dlq.errors.topic"
PARTITION: Final = "__dlq.errors.partition"
OFFSET: Final = "__dlq.errors.offset"
GROUP: Final = "__dlq.errors.group"
DELIVERY_COUNT: Final = "__dlq.errors.delivery.count"
MESSAGE: Final = "__dlq.errors.message"

CUT: Final = "__ottla.errors.cut"
"""Says why a letter has headers only; nobody sends such a letter back. Not of the KIP."""

REJECTED: Final = "Offset rejected by client."
TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."
"""The two reasons of a share group, in Kafka's words."""

EXPIRED: Final = "Time to live is over."
"""Not of the KIP: records that were not delivered within `ottla.ttl.ms`."""

PREFIX: Final = "dlq."
"""How the names of dead letter topics begin that Ottla makes."""

Headers = Sequence[tuple[str, bytes | None]]


def letter_headers(
    topic: str, partition: int, offset: int, group: str, deliveries: int, message: str
) -> list[tuple[str, bytes | None]]:
    """The headers of a letter; all values are text."""
    values = {
        TOPIC: topic,
        PARTITION: str(partition),
        OFFSET: str(offset),
        GROUP: group,
        DELIVERY_COUNT: str(deliveries),
        MESSAGE: message,
    }
    return [(name, value.encode()) for name, value in values.items()]


def letters_topic_of(topic: str) -> str:
    """Where the records of a delay topic go that can never be delivered."""
    return PREFIX + topic
