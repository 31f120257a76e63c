"""Writes a history down while it happens, from several threads, and tells when producers get on again."""

import time
from threading import Condition

from chaos.history import Commit, CommittedOffset, Delivery, History, Send, TopicCreation
from ottla.simulation.history import Outcome, Partition
from workload.payload import Payload


class Recorder:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self.history = History()
        self._changed = Condition()
        self._mark = 0.0
        self._first_after_mark: dict[str, float] = {}
        self._acknowledged: dict[str, int] = {}
        self._last_refusal: dict[str, str] = {}

    @staticmethod
    def now() -> float:
        """Seconds on the clock of the history."""
        return time.monotonic()

    def send(self, payload: Payload, partition: Partition) -> Send:
        """A record is about to be given to its producer."""
        send = Send(payload, partition, self.now())
        self.history.sends.append(send)
        return send

    def sent(self, send: Send, offset: int) -> None:
        """The broker acknowledged it."""
        send.offset, send.completed_at, send.outcome = offset, self.now(), Outcome.OK
        producer = send.payload.producer
        with self._changed:
            self._acknowledged[producer] = self._acknowledged.get(producer, 0) + 1
            if send.invoked_at > self._mark and producer not in self._first_after_mark:
                self._first_after_mark[producer] = send.completed_at
            self._changed.notify_all()

    def refused(self, send: Send, error: str) -> None:
        """Its producer gave it up; whether it is in the log is not known."""
        with self._changed:
            self._last_refusal[send.payload.producer] = error

    def acknowledged_count(self, producer: str) -> int:
        """How many records of a producer were acknowledged so far."""
        return self._acknowledged.get(producer, 0)

    def mark(self) -> float:
        """From now on look for the first records that are sent, and acknowledged; returns the time."""
        with self._changed:
            self._first_after_mark.clear()
            self._mark = self.now()
            return self._mark

    def wait_for_producers(self, producers: list[str], timeout_s: float) -> dict[str, float]:
        """When each producer first had a record acknowledged that it was given after the mark.

        Raises TimeoutError when one has not.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._first_after_mark.keys() >= set(producers), timeout_s):
                missing = sorted(set(producers) - self._first_after_mark.keys())
                told = [f"{name}: {self._last_refusal.get(name, 'no record was given up')}" for name in missing]
                raise TimeoutError(
                    f"nothing acknowledged to {', '.join(missing)} for {timeout_s} s ({'; '.join(told)})"
                )
            return dict(self._first_after_mark)

    def commit(self, group: str, partition: Partition, offset: int) -> Commit:
        """A group is about to commit."""
        commit = Commit(group, partition, offset, self.now())
        self.history.commits.append(commit)
        return commit

    def committed(self, commit: Commit) -> None:
        """The broker acknowledged the commit."""
        commit.outcome, commit.completed_at = Outcome.OK, self.now()

    def assigned(self, group: str, partition: Partition) -> Delivery:
        """A member of a group got a partition."""
        delivery = Delivery(group, partition, self.now())
        self.history.deliveries.append(delivery)
        return delivery

    def saw_committed(self, group: str, partition: Partition, offset: int | None, invoked_at: float) -> None:
        """A group was told its committed offset."""
        self.history.committed_offsets.append(CommittedOffset(group, partition, offset, invoked_at))

    def create_topic(self, topic: str, partition_count: int) -> TopicCreation:
        """A topic is about to be asked for."""
        creation = TopicCreation(topic, partition_count)
        self.history.topic_creations.append(creation)
        return creation
