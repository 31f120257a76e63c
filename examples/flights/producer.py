"""Brings everything into the broker with confluent-kafka, as any Kafka client would."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from examples.flights.failure import DemoError
from examples.flights.planted import Feed
from examples.flights.reference import Record
from examples.flights.topics import EVENTS

CLOSING_EVENT = {
    "event": "scheduled",
    "flight": "UA1",
    "carrier": "UA",
    "origin": "EWR",
    "dest": "IAH",
    "scheduled_at": "2014-02-01T12:00:00Z",
}
"""A flight of the next year: a window closes when later events show that its time is over, and the year has a last."""
CHUNK = 5_000
_FLUSH_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a malformed event landed: what its dead letter has to say about it."""

    partition: int
    offset: int
    timestamp_ms: int


@dataclass
class EventProducer:
    """One producer for the whole demo: idempotent, so that no event is doubled by a retry."""

    bootstrap: str
    acknowledged: int = 0
    """Events so far."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """Of the malformed events, by their place in the feed."""

    def __post_init__(self) -> None:
        self._error: Any = None
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "linger.ms": 20,
                "batch.size": 512 * 1024,
                "queue.buffering.max.messages": 500_000,
                # The broker is killed on the way, and is back after seconds.
                "reconnect.backoff.max.ms": 500,
                "error_cb": self._on_error,
                # What matters comes through the callbacks.
                "log_level": 2,
            }
        )

    def reference(self, topic: str, records: Iterable[Record]) -> int:
        """All records of a reference topic, acknowledged when this returns; how many."""
        sent = 0
        for key, value in records:
            self._producer.produce(topic, key=key, value=value, on_delivery=self._taken)
            sent += 1
        self.flush()
        return sent

    def send(self, feed: Feed, start: int, end: int, progress: Callable[[int], None]) -> None:
        """Some of the events, on their way when this returns: what is not acknowledged yet, `waiting` counts."""
        produce, poll, delivered, malformed = self._producer.produce, self.poll, self._delivered, feed.malformed
        for low in range(start, end, CHUNK):
            high = min(low + CHUNK, end)
            for index in range(low, high):
                landed = self._landing(index) if index in malformed else delivered
                key, value, known_at_ms = feed.keys[index], feed.values[index], feed.known_at_ms[index]
                try:
                    produce(EVENTS, value, key, timestamp=known_at_ms, on_delivery=landed)
                except BufferError:
                    # The queue is full: wait until the broker has taken some.
                    self._wait_for_room()
                    produce(EVENTS, value, key, timestamp=known_at_ms, on_delivery=landed)
            poll(0)
            progress(high - low)

    def closing_event(self) -> None:
        """The one that shows that the year is over."""
        key, value = CLOSING_EVENT["flight"].encode(), json.dumps(CLOSING_EVENT, separators=(",", ":")).encode()
        self._producer.produce(EVENTS, key=key, value=value, on_delivery=self._delivered)
        self.flush()

    @property
    def waiting(self) -> int:
        """Records that are not acknowledged yet."""
        return len(self._producer)

    def poll(self, seconds: float) -> None:
        """Let acknowledgements come in."""
        self._producer.poll(seconds)

    def flush(self) -> None:
        """Wait until all is acknowledged. Raises DemoError."""
        unsent = self._producer.flush(_FLUSH_TIMEOUT_S)
        if self._error is not None:
            raise DemoError(f"the broker did not take a record: {self._error}")
        if unsent:
            raise DemoError(f"{unsent} records were not acknowledged within {_FLUSH_TIMEOUT_S} s")

    def _wait_for_room(self) -> None:
        while len(self._producer) > CHUNK * 20 and self._error is None:
            self._producer.poll(0.05)

    def _landing(self, index: int) -> Callable[[Any, Any], None]:
        def landed(error: Any, message: Any) -> None:
            self._delivered(error, message)
            if error is None:
                self.origins[index] = Origin(message.partition(), message.offset(), message.timestamp()[1])

        return landed

    def _delivered(self, error: Any, _message: Any) -> None:
        self._error = self._error or error
        self.acknowledged += error is None

    def _taken(self, error: Any, _message: Any) -> None:
        self._error = self._error or error

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._error = self._error or error
