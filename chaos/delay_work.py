"""Producers of a delay topic: plain, idempotent and transactional, with cancellations."""

import time
from random import Random

from confluent_kafka import KafkaException, Message, Producer

from workload.worker import Worker

TARGET, DELAYED = "orders", "orders.later"
DELAY_MS = (0, 3_000)
CANCELLED = 0.1
CANCEL_AHEAD_MS = 2_000
"""What is cancelled is due so much later than others, and must not come if that was acknowledged a second before."""
PAUSE_S = 0.05
TOGETHER = 5
KINDS = ("plain", "idempotent", "transactional")


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class DelayProducer(Worker):
    """A value is `NAME-NUMBER@DUE`, and its key too: each is alone with it."""

    def __init__(self, kind: str, bootstrap: str, partitions: int, seed: int) -> None:
        super().__init__(kind)
        self.acknowledged: dict[str, int] = {}
        """When each was due that is safe and was not cancelled."""
        self.committed_ms: dict[str, int] = {}
        """When it was known that the transaction is committed of what is acknowledged, if it was in one."""
        self.never: set[str] = set()
        """What was aborted, or cancelled in time."""
        self.is_sending = True
        self._kind = kind
        self._partitions = partitions
        self._rng = Random(seed)
        self._number = 0
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "linger.ms": 5,
        }
        if kind == "plain":
            self._settings["message.send.max.retries"] = 0  # or it may write a record twice
        elif kind == "idempotent":
            self._settings["enable.idempotence"] = True
        else:
            self._settings |= {"transactional.id": "chaos", "transaction.timeout.ms": 20_000}

    def run(self) -> None:
        """Until it is stopped; after a fatal error with another producer."""
        while not self.is_stopping:
            producer = Producer(self._settings)
            try:
                if self._kind == "transactional":
                    producer.init_transactions(30)
                while not self.is_stopping:
                    if self.is_sending:
                        self._send_some(producer)
                    time.sleep(PAUSE_S)
            except KafkaException:
                time.sleep(PAUSE_S)

    def _send_some(self, producer: Producer) -> None:
        some = {}
        for _ in range(TOGETHER):
            due = now_ms() + self._rng.randrange(*DELAY_MS)
            is_cancelled = self._rng.random() < CANCELLED
            due += DELAY_MS[1] + CANCEL_AHEAD_MS if is_cancelled else 0
            some[f"{self.name}-{self._number}@{due}"] = (due, is_cancelled)
            self._number += 1
        is_transaction = self._kind == "transactional"
        if is_transaction:
            producer.begin_transaction()
        written = self._write(producer, {value: [("ottla-deliver-at", str(due))] for value, (due, _) in some.items()})
        cancelled = {value for value in written if some[value][1]}
        if is_transaction and self._rng.random() < 0.2:
            self.never |= set(some)
            producer.abort_transaction(30)
            return
        if is_transaction:
            producer.commit_transaction(30)
            self.committed_ms |= dict.fromkeys(written, now_ms())
            producer.begin_transaction()
        gone = self._write(producer, {value: [("ottla-cancel", "")] for value in cancelled})
        if is_transaction:
            producer.commit_transaction(30)
        at = now_ms()
        self.never |= {value for value in gone if some[value][0] > at + 1_000}
        for value in written - cancelled:
            self.acknowledged[value] = some[value][0]

    def _write(self, producer: Producer, headers: dict[str, list[tuple[str, str]]]) -> set[str]:
        """Those that were acknowledged."""
        done: set[str] = set()

        def on_delivery(error: object, message: Message) -> None:
            if error is None:
                done.add((message.key() or b"").decode())

        for value, each in headers.items():
            partition = sum(value.encode()) % self._partitions
            producer.produce(
                DELAYED, value, key=value, partition=partition, headers=list(each), on_delivery=on_delivery
            )
        producer.flush(60)
        return done
