"""Brings everything into the broker with confluent-kafka, as any Kafka client would."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from examples.flights.events import Events
from examples.flights.failure import DemoError
from examples.flights.malformed import Malformed
from examples.flights.reference import Record
from examples.flights.topics import EVENTS

CLOCK_EVENT_AT = "2014-02-01T00:00:00Z"
CHUNK = 10_000
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
    origins: dict[int, Origin] = field(default_factory=dict)
    """Of the malformed events, by their place in the list that was planted."""

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
                "error_cb": self._on_error,
                # What matters comes through the callbacks.
                "log_level": 2,
            }
        )

    def reference(self, topic: str, records: Iterable[Record]) -> None:
        """All records of a reference topic, acknowledged when this returns."""
        for key, value in records:
            self._producer.produce(topic, key=key, value=value, on_delivery=self._delivered)
        self.flush()

    def events(self, events: Events, malformed: Sequence[Malformed], progress: Callable[[int], None]) -> None:
        """All events in the order in which they became known, the malformed ones in their places among them."""
        start = 0
        for place, planted in enumerate(malformed):
            self._send(events, start, planted.after + 1, progress)
            self._plant(place, planted)
            start = planted.after + 1
        self._send(events, start, len(events), progress)
        self.flush()

    def clock_event(self) -> None:
        """An event that says only how late it is: nothing that was scheduled before will come any more.

        A window closes when later events show that its time is over, and after the year's last event there are none.
        """
        value = json.dumps({"event": "clock", "scheduled_at": CLOCK_EVENT_AT}).encode()
        self._producer.produce(EVENTS, key=b"clock", value=value, on_delivery=self._delivered)
        self.flush()

    def flush(self) -> None:
        """Wait until all is acknowledged. Raises DemoError."""
        unsent = self._producer.flush(_FLUSH_TIMEOUT_S)
        if self._error is not None:
            raise DemoError(f"the broker did not take a record: {self._error}")
        if unsent:
            raise DemoError(f"{unsent} records were not acknowledged within {_FLUSH_TIMEOUT_S} s")

    def _send(self, events: Events, start: int, end: int, progress: Callable[[int], None]) -> None:
        produce, poll, delivered = self._producer.produce, self._producer.poll, self._delivered
        for low in range(start, end, CHUNK):
            high = min(low + CHUNK, end)
            for index in range(low, high):
                key, value, known_at_ms = events.keys[index], events.values[index], events.known_at_ms[index]
                try:
                    produce(EVENTS, value, key, timestamp=known_at_ms, on_delivery=delivered)
                except BufferError:
                    # The queue is full: wait until the broker has taken some.
                    self._wait_for_room()
                    produce(EVENTS, value, key, timestamp=known_at_ms, on_delivery=delivered)
            poll(0)
            progress(high - low)

    def _wait_for_room(self) -> None:
        while len(self._producer) > CHUNK * 10 and self._error is None:
            self._producer.poll(0.05)

    def _plant(self, place: int, planted: Malformed) -> None:
        def landed(error: Any, message: Any) -> None:
            self._delivered(error, message)
            if error is None:
                self.origins[place] = Origin(message.partition(), message.offset(), message.timestamp()[1])

        self._producer.produce(EVENTS, planted.value, planted.key, timestamp=planted.known_at_ms, on_delivery=landed)

    def _delivered(self, error: Any, _message: Any) -> None:
        self._error = self._error or error

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._error = self._error or error
