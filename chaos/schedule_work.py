"""Schedules in a delay topic, begun and stopped all the time; each delivers at every full minute."""

import time

from confluent_kafka import KafkaException, Message, Producer

from chaos.delay_work import now_ms
from workload.worker import Worker

TICKS, TICKS_LATER = "ticks", "ticks.later"
MINUTE_MS = 60_000
AT_WORK = 12
"""So many schedules at a time."""
EVERY_S = 2.0
OUTAGE_MS = 30_000
"""Times may be left out only around a fault that took at least so long."""

Tick = tuple[str, int]
"""The key of a schedule, and the time that was delivered."""


class Scheduler(Worker):
    """Begins a schedule from time to time, with a key of its own, and stops the oldest."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        super().__init__("schedules")
        self.begun: dict[str, tuple[int, int]] = {}
        """When it was begun to be written, and when that was acknowledged."""
        self.stopped: dict[str, tuple[int, int]] = {}
        """The same of its cancellation."""
        self.doubtful: set[str] = set()
        """What may be there or not."""
        self.is_sending = True
        self._bootstrap = bootstrap
        self._partitions = partitions

    def run(self) -> None:
        """Until it is stopped."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, "enable.idempotence": True})
        number = 0
        while not self.is_stopping:
            if self.is_sending:
                self._write(producer, f"tick-{number}", [("ottla-cron", "* * * * *")], self.begun)
                number += 1
                at_work = [each for each in self.begun if each not in self.stopped and each not in self.doubtful]
                if len(at_work) > AT_WORK:
                    self._write(producer, at_work[0], [("ottla-cancel", "")], self.stopped)
            time.sleep(EVERY_S)

    def _write(
        self, producer: Producer, key: str, headers: list[tuple[str, str]], done: dict[str, tuple[int, int]]
    ) -> None:
        """Blocks until it is known; what is not becomes doubtful."""
        asked_ms, is_there = now_ms(), []

        def on_delivery(error: object, message: Message) -> None:
            del message
            if error is None:
                is_there.append(now_ms())

        partition = sum(key.encode()) % self._partitions
        try:
            producer.produce(
                TICKS_LATER, key, key=key, partition=partition, headers=list(headers), on_delivery=on_delivery
            )
            producer.flush(120)
        except KafkaException:
            pass
        if is_there:
            done[key] = asked_ms, is_there[0]
        else:
            self.doubtful.add(key)


def wrong_ticks(
    ticks: list[Tick],
    begun: dict[str, tuple[int, int]],
    stopped: dict[str, tuple[int, int]],
    outages: list[tuple[int, int]],
    until_ms: int,
) -> list[str]:
    """What must not be: times delivered twice, never, before a schedule began, or after it was stopped."""
    wrong = []
    times: dict[str, list[int]] = {}
    for key, at in ticks:
        times.setdefault(key, []).append(at)
    for key, found in times.items():
        if len(set(found)) < len(found):
            wrong.append(f"schedule {key}: a time came more than once: {sorted(found)}")
        if any(at % MINUTE_MS for at in found):
            wrong.append(f"schedule {key}: a time that it has not: {found}")
        if key in begun and min(found) < begun[key][0]:
            wrong.append(f"schedule {key}: {min(found)} is before it began")
        if key in stopped and max(found) > stopped[key][1] + 1_000:
            wrong.append(f"schedule {key}: {max(found)} came, and it was stopped at {stopped[key][1]}")
    long_ones = [each for each in outages if each[1] - each[0] >= OUTAGE_MS]
    for key, (_, begun_ms) in begun.items():
        end = stopped[key][0] if key in stopped else until_ms
        # One that begins or ends about a full minute may have it or not.
        first = (begun_ms + OUTAGE_MS) // MINUTE_MS + 1
        for at in range(first * MINUTE_MS, end - OUTAGE_MS, MINUTE_MS):
            is_excused = any(start <= at + MINUTE_MS and at - MINUTE_MS <= over for start, over in long_ones)
            if at not in times.get(key, ()) and not is_excused:
                wrong.append(f"schedule {key}: {at} never came")
    return wrong
