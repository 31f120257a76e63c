"""Decides whether a letter can be sent back, and where."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.model.topic_name import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, KEPT_TOPICS
from ottla.pipelines.dead_letters.headers import Header, Letter, sent_back

MAX_REPLAYS: Final = 3
"""How often a record is sent back at most, so that one that is always refused does not loop."""

TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999, in ms since 1970. Brokers would refuse a whole batch with a later timestamp."""

_INTERNAL: Final = INTERNAL_TOPICS | KEPT_TOPICS | {CLUSTER_METADATA_TOPIC}

Why = Literal["no origin", "no such topic", "its own topic", "sent back too often", "internal topic", "cut"]


class Destination(Struct, frozen=True, gc=False):
    """A record to send. If `partition` is None, the key selects the partition."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[Header]


class Refusal(Struct, frozen=True):
    """Why a letter is not sent."""

    why: Why
    message: str


class Rules(Struct, frozen=True):
    """The rules of a redrive."""

    letters_topic: str
    into: str | None = None
    """The topic for all letters, instead of that of their origin."""
    max_replays: int = MAX_REPLAYS


def decide(
    record: ConsumerRecord, letter: Letter, rules: Rules, partitions: Mapping[str, int]
) -> Destination | Refusal:
    """The record to send for a letter, with its original bytes, headers and timestamp, and the count of replays.

    It goes to the partition it came from, where the records of its key are, unless the topic is another one or has it
    no more; then by its key. `partitions` says how many the topics have that exist.
    """
    if letter.cut is not None:
        return Refusal("cut", f"it is without key and value, as {letter.cut}: the record is at {letter.origin}")
    topic = rules.into or letter.topic
    if topic is None:
        return Refusal("no origin", "its headers name no topic that it came from: say where it is to go with --into")
    if topic == rules.letters_topic:
        return Refusal("its own topic", f"it came from {topic} itself: say where it is to go with --into")
    if topic in _INTERNAL:
        return Refusal("internal topic", f"it says that it came from {topic}, where no records of others belong")
    if letter.replays >= rules.max_replays:
        times = "once" if letter.replays == 1 else f"{letter.replays} times"
        return Refusal(
            "sent back too often",
            f"it was sent back {times} and refused again; --max-replays is {rules.max_replays}",
        )
    count = partitions.get(topic)
    if count is None:
        return Refusal(
            "no such topic", f"topic {topic} does not exist, or is not yours to see: say another one with --into"
        )
    number = letter.partition if rules.into is None else None
    if number is not None and not 0 <= number < count:
        number = None
    known = letter.timestamp_ms is not None and 0 <= letter.timestamp_ms <= TIMESTAMP_MS_MAX
    return Destination(
        topic,
        number,
        record.key,
        record.value,
        letter.timestamp_ms if known and letter.timestamp_ms is not None else record.timestamp_ms,
        sent_back(record.headers, letter.replays + 1),
    )
