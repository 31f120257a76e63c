"""Reads topics with a third client, confluent-kafka, that shares no code with the broker or with Spark's side."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from examples.flights.topics import DEAD_LETTERS, DELAYS

_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused event: what it was, why it was refused, and where it had come from."""

    key: bytes | None
    value: bytes | None
    reason: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @classmethod
    def of(cls, message: Any) -> "DeadLetter":
        """From the record and its headers."""
        said = {name: value.decode() for name, value in message.headers()}
        return cls(
            key=message.key(),
            value=message.value(),
            reason=said["error.reason"],
            topic=said["error.topic"],
            partition=int(said["error.partition"]),
            offset=int(said["error.offset"]),
            timestamp_ms=int(said["error.timestamp"]),
        )

    def to_json(self) -> dict[str, Any]:
        """As one line of the file; what is not UTF-8 is shown as U+FFFD."""
        return {
            "reason": self.reason,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": None if self.key is None else self.key.decode(errors="replace"),
            "value": None if self.value is None else self.value.decode(errors="replace"),
        }


def read_dead_letters(bootstrap: str) -> list[DeadLetter]:
    """All dead letters."""
    return [DeadLetter.of(message) for message in _read(bootstrap, DEAD_LETTERS)]


def read_delays(bootstrap: str) -> pd.DataFrame:
    """The topic of results as a table: of each key the last value, as a compacted topic is meant."""
    latest = {message.key(): message.value() for message in _read(bootstrap, DELAYS)}
    rows = pd.DataFrame([json.loads(value) for value in latest.values()])
    rows["hour"] = pd.to_datetime(rows["hour"], utc=True)
    return rows


def _read(bootstrap: str, topic: str) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "flights-check", "enable.auto.commit": False, "log_level": 2}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        left = {
            partition: end
            for partition in partitions
            for _, end in [consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)]
            if end
        }
        messages: list[Any] = []
        while left:
            got = consumer.consume(10_000, timeout=1)
            for message in got:
                if message.error() is not None:
                    raise RuntimeError(f"reading {topic}: {message.error()}")
                if message.offset() + 1 >= left.get(message.partition(), 0):
                    left.pop(message.partition(), None)
            messages += got
        return messages
    finally:
        consumer.close()
