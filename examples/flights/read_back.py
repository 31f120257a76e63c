"""Reads topics with another client, confluent-kafka, that shares no code with the broker or with Spark's side."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from examples.flights.failure import DemoError
from examples.flights.topics import DEAD_LETTERS, DELAYS

_TIMEOUT_S = 120
_GATHER_S = 0.1
"""So long messages are waited for to be taken together; the end of a partition comes as one of them."""
_HEADER = "__ottla.errors."


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused event: what it was, why it was refused, and where it had come from."""

    key: bytes | None
    value: bytes | None
    step: str
    reason: str
    """Up to its first colon: behind it stands what the reason is told with."""
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @classmethod
    def of(cls, message: Any) -> "DeadLetter":
        """From the record and its headers."""
        said = {name.removeprefix(_HEADER): value.decode() for name, value in message.headers()}
        return cls(
            key=message.key(),
            value=message.value(),
            step=said["step"],
            reason=said["message"].partition(":")[0],
            topic=said["topic"],
            partition=int(said["partition"]),
            offset=int(said["offset"]),
            timestamp_ms=int(said["timestamp"]),
        )

    def to_json(self) -> dict[str, Any]:
        """As one line of the file; what is not UTF-8 is shown as U+FFFD."""
        return {
            "step": self.step,
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
    return [DeadLetter.of(message) for message in records(bootstrap, DEAD_LETTERS)]


def read_delays(bootstrap: str) -> pd.DataFrame:
    """The topic of results as a table, a row for each record."""
    rows = pd.DataFrame([json.loads(message.value()) for message in records(bootstrap, DELAYS)])
    rows["hour"] = pd.to_datetime(rows["window_start"], utc=True)
    return rows.drop(columns=["window_start", "window_end"])


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Where each partition ends."""
    consumer = _consumer(bootstrap)
    try:
        return {place: end for place, (_, end) in _edges(consumer, topic).items()}
    finally:
        consumer.close()


def records(bootstrap: str, topic: str) -> Iterator[Any]:
    """All committed records of a topic, partition by partition, in the order of their offsets. Raises DemoError."""
    consumer = _consumer(bootstrap)
    try:
        for partition, (low, high) in _edges(consumer, topic).items():
            if low < high:
                consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
                yield from _until_end(consumer, topic)
    finally:
        consumer.close()


def _until_end(consumer: Consumer, topic: str) -> Iterator[Any]:
    heard = time.monotonic()
    while True:
        messages = consumer.consume(10_000, timeout=_GATHER_S)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _TIMEOUT_S:
            raise DemoError(f"nothing comes from {topic} for {_TIMEOUT_S} s")
        for message in messages:
            if message.error() is None:
                yield message
            elif message.error().name() == "_PARTITION_EOF":
                return
            else:
                raise DemoError(f"reading {topic}: {message.error().str()}")


def _edges(consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
    partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
    return {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)
        for partition in sorted(partitions)
    }


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "flights-check",
            "enable.auto.commit": False,
            # What is behind the last record of a transaction is no record: the end is to be told.
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
