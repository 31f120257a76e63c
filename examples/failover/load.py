"""The load: one idempotent producer that waits for all replicas, and a group of two consumers."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer

from examples.flights.failure import DemoError

RATE = 2_000
"""Records a second: enough to see a gap of milliseconds, little enough for any machine."""

SETTLE_S = 60


class Load:
    """Runs in threads of its own from `start` to `finish`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._is_read = threading.Event()
        self.sent: list[float] = []
        """When each record was given to the producer."""
        self.acknowledged: dict[int, float] = {}
        """When it was acknowledged, by its number."""
        self.read: Counter[int] = Counter()
        """How often each was read by the group."""
        self.read_at: list[float] = []
        self.failed: list[str] = []
        self._threads = [threading.Thread(target=run) for run in (self._produce, self._consume, self._consume)]
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Wait until everything is acknowledged and read. Raises DemoError."""
        self._stop.set()
        self._threads[0].join()
        end = time.monotonic() + SETTLE_S
        while len(self.read) < len(self.acknowledged) and time.monotonic() < end:
            time.sleep(0.05)
        self.close()
        if self.failed:
            raise DemoError(f"{len(self.failed)} records were refused, the first: {self.failed[0]}")

    def close(self) -> None:
        """End the threads."""
        self._stop.set()
        self._is_read.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": SETTLE_S * 1000,
                "log_level": 2,
            }
        )
        begun = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begun) * RATE)
            while len(self.sent) < due:
                number = len(self.sent)
                self.sent.append(time.monotonic())
                producer.produce(self._topic, b"%d" % number, on_delivery=self._told(number))
            producer.poll(0.001)
        producer.flush(SETTLE_S)

    def _told(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self.acknowledged[number] = time.monotonic()
            else:
                self.failed.append(str(error))

        return on_delivery

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "failover",
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
                "log_level": 2,
            }
        )
        consumer.subscribe([self._topic])
        while not self._is_read.is_set():
            messages = [each for each in consumer.consume(500, 0.05) if each.error() is None]
            if messages:
                with self._lock:
                    self.read.update(int(each.value() or b"") for each in messages)
                    self.read_at += [time.monotonic()] * len(messages)
        consumer.close()
