"""Records that wait to be sent, and batches whose fate is open.

```
 append ->  partition t-0:  [open batch] -> waiting: closed batches, oldest first -> in flight, oldest first
                                               ^                                        |
                                               +---- to be sent again, by sequence -----+-> settled
```

Time is an argument, batches and decisions are results. This module does no I/O and never waits; `Sender` does both.

Order of one partition, with idempotence: a batch gets its sequence number when it is first sent. A batch that is
resent returns to its place by number, waits until all batches in flight with it are answered, and is then sent alone.
So a broker sees the numbers in order, or refuses an early one (OUT_OF_ORDER_SEQUENCE_NUMBER) without harm. At most
four batches overtake an unanswered one, because a broker recognises duplicates among the last five: a new leader may
have appended what the old one did not answer.

A new epoch renumbers the waiting batches. A broker would not recognise a batch that it may have appended under an old
number. So before a new epoch those batches are resent unchanged, and no others are sent (`settles`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from ottla.client.producing.delivery import Delivery
from ottla.client.producing.producer_batch import ProducerBatch, Record
from ottla.client.producing.producer_options import IN_FLIGHT_MAX_IDEMPOTENT
from ottla.model.topic_partition import TopicPartition
from ottla.records.batch import NO_SEQUENCE, next_sequence

OnGiveUp = Callable[[TopicPartition, int, Exception], None]
"""Called with where records should have gone, how many they were, and why they were given up."""

_HALF = 1 << 30


class BatchLimits(Struct, frozen=True):
    """When a batch is full, and how long it may wait for more."""

    batch_bytes: int
    linger_ms: int


class PartitionQueue:
    """The batches of one partition."""

    __slots__ = ("in_flight", "next_sequence", "numbered", "open", "topic_partition", "waiting")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.open: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.next_sequence = 0
        self.numbered = 0
        """How many batches have got a number."""

    @property
    def is_at_limit(self) -> bool:
        """Whether a batch with the next number would be one too many behind the oldest that is not answered."""
        in_flight = self.in_flight
        return bool(in_flight) and self.numbered - in_flight[0].place >= IN_FLIGHT_MAX_IDEMPOTENT

    def batches(self) -> Iterator[ProducerBatch]:
        """All of them, oldest first."""
        yield from self.in_flight
        yield from self.waiting
        if self.open is not None:
            yield self.open

    def close_open(self) -> None:
        """No more records for the open batch."""
        if self.open is not None:
            self.waiting.append(self.open)
            self.open = None

    def number(self, batch: ProducerBatch) -> None:
        """Give the batch the next sequence number."""
        batch.sequence = self.next_sequence
        self.next_sequence = next_sequence(self.next_sequence, batch.record_count)
        batch.place = self.numbered
        self.numbered += 1

    def put_back(self, batch: ProducerBatch) -> None:
        """Into its place among what waits: before the batches with higher numbers and those without one."""
        index = 0
        for index, other in enumerate(self.waiting):  # noqa: B007
            if other.sequence == NO_SEQUENCE or _precedes(batch.sequence, other.sequence):
                break
        else:
            index = len(self.waiting)
        self.waiting.insert(index, batch)

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether nothing before this batch is still open, so that its number was the one to expect."""
        return not any(
            other is not batch and other.sequence != NO_SEQUENCE and _precedes(other.sequence, batch.sequence)
            for other in self.batches()
        )


class RecordAccumulator:
    """Everything a producer has taken and not yet seen settled."""

    def __init__(self, limits: BatchLimits, *, idempotent: bool, on_give_up: OnGiveUp | None = None) -> None:
        self._limits = limits
        self._on_give_up = on_give_up
        self._idempotent = idempotent
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._flushing = False
        self.settles = False
        """Whether nothing is sent but batches that may have been appended already: a new epoch is to come."""
        self.pending_bytes = 0
        """About the memory that unsettled records take."""
        self.pending_batches = 0

    # --- in ---------------------------------------------------------------------------------------------------------

    def append(self, topic_partition: TopicPartition, record: Record, size_bytes: int, now_ms: int) -> Delivery:
        """Add a record of about `size_bytes`."""
        queue = self._queue(topic_partition)
        batch = queue.open
        if batch is not None and batch.size_bytes + size_bytes > self._limits.batch_bytes:
            queue.close_open()
            batch = None
        if batch is None:
            batch = queue.open = ProducerBatch(topic_partition, now_ms)
            self.pending_batches += 1
            self.pending_bytes += batch.size_bytes
        self.pending_bytes += size_bytes
        return batch.append(record, size_bytes)

    def append_encoded(self, batch: ProducerBatch) -> Delivery:
        """Add a batch that is encoded already, behind everything that is there."""
        queue = self._queue(batch.topic_partition)
        queue.close_open()
        queue.waiting.append(batch)
        self.pending_batches += 1
        self.pending_bytes += batch.size_bytes
        return Delivery(batch.outcome, 0)

    def flush(self) -> None:
        """Send everything that is there now without lingering."""
        for queue in self._queues.values():
            queue.close_open()

    # --- out --------------------------------------------------------------------------------------------------------

    def sendable(self, now_ms: int) -> list[TopicPartition]:
        """The partitions that have a batch to send now."""
        return [queue.topic_partition for queue in self._queues.values() if self._head(queue, now_ms) is not None]

    def next_due_ms(self, now_ms: int) -> int | None:
        """When a partition that has nothing to send now will have, as things are; None: not by time alone."""
        due = [
            at_ms for queue in self._queues.values() if (at_ms := self._due_ms(queue)) is not None and at_ms > now_ms
        ]
        return min(due, default=None)

    def take(self, topic_partitions: Iterable[TopicPartition], max_bytes: int, now_ms: int) -> list[ProducerBatch]:
        """For one request: at most one batch of each partition, together up to `max_bytes`, at least one if any.

        They are in flight from now on, and have sequence numbers if the producer is idempotent.
        """
        taken: list[ProducerBatch] = []
        total = 0
        for topic_partition in topic_partitions:
            queue = self._queues[topic_partition]
            batch = self._head(queue, now_ms)
            if batch is None or (taken and total + batch.size_bytes > max_bytes):
                continue
            if batch is queue.open:
                queue.open = None
            else:
                queue.waiting.remove(batch)
            if self._idempotent and batch.sequence == NO_SEQUENCE:
                queue.number(batch)
            batch.attempts += 1
            queue.in_flight.append(batch)
            # The next request begins with the partitions that this one had no room for.
            self._queues[topic_partition] = self._queues.pop(topic_partition)
            taken.append(batch)
            total += batch.size_bytes
        return taken

    # --- what became of it ------------------------------------------------------------------------------------------

    def succeed(self, batch: ProducerBatch, base_offset: int, timestamp_ms: int) -> None:
        """The batch was appended."""
        self._remove(batch)
        batch.outcome.succeed(base_offset, timestamp_ms)

    def fail(self, batch: ProducerBatch, error: Exception) -> None:
        """The batch is given up, in flight or waiting."""
        self._remove(batch)
        batch.outcome.fail(error)
        if self._on_give_up is not None:
            self._on_give_up(batch.topic_partition, batch.record_count, error)

    def retry(self, batch: ProducerBatch, retry_at_ms: int, *, is_uncertain: bool = False) -> None:
        """The batch in flight is to be sent again, not before a time; `is_uncertain` if it may have been appended."""
        queue = self._queues[batch.topic_partition]
        batch.is_uncertain |= is_uncertain
        queue.in_flight.remove(batch)
        batch.retry_at_ms = retry_at_ms
        queue.put_back(batch)

    def split(self, batch: ProducerBatch) -> None:
        """The batch in flight was too large: send it again in two."""
        halves = batch.split(max(self._limits.batch_bytes, batch.size_bytes) * 64)
        queue = self._queues[batch.topic_partition]
        self._remove(batch)
        for half in reversed(halves):
            self.pending_batches += 1
            self.pending_bytes += half.size_bytes
            if half.sequence == NO_SEQUENCE:
                queue.waiting.appendleft(half)
            else:
                queue.put_back(half)

    def is_first(self, batch: ProducerBatch) -> bool:
        """Whether nothing before this batch of its partition is still open."""
        return self._queues[batch.topic_partition].is_first(batch)

    def older_than(self, created_before_ms: int) -> list[ProducerBatch]:
        """What has waited too long and is not in flight: its fate, if it was sent before, stays unknown."""
        return [
            batch
            for queue in self._queues.values()
            for batch in (*queue.waiting, *([queue.open] if queue.open is not None else []))
            if batch.created_ms < created_before_ms
        ]

    @property
    def any_in_flight(self) -> bool:
        """Whether any batch was sent and not answered."""
        return any(queue.in_flight for queue in self._queues.values())

    @property
    def has_uncertain(self) -> bool:
        """Whether any batch that waits may have been appended already."""
        return any(batch.is_uncertain for queue in self._queues.values() for batch in queue.waiting)

    @property
    def last_sequences(self) -> dict[TopicPartition, int]:
        """For each partition with a numbered batch the number of the last record in such a batch."""
        return {
            queue.topic_partition: next_sequence(queue.next_sequence, -1)
            for queue in self._queues.values()
            if queue.numbered
        }

    def unsettled(self) -> list[ProducerBatch]:
        """Every batch that is here."""
        return [batch for queue in self._queues.values() for batch in queue.batches()]

    def renumber(self) -> None:
        """The producer has a new epoch: numbers start again at 0, what was numbered first. Nothing may be in flight."""
        assert not self.any_in_flight
        for queue in self._queues.values():
            queue.next_sequence = queue.numbered = 0
            for batch in queue.waiting:
                if batch.sequence != NO_SEQUENCE:
                    queue.number(batch)

    def _queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def _head(self, queue: PartitionQueue, now_ms: int) -> ProducerBatch | None:
        due_ms = self._due_ms(queue)
        if due_ms is None or due_ms > now_ms:
            return None
        if self.settles:
            return _first_uncertain(queue)
        return queue.waiting[0] if queue.waiting else queue.open

    def _due_ms(self, queue: PartitionQueue) -> int | None:
        if any(batch.attempts > 1 for batch in queue.in_flight):
            return None
        if self.settles:
            uncertain = _first_uncertain(queue)
            return None if uncertain is None or queue.in_flight else uncertain.retry_at_ms
        if self._idempotent and queue.is_at_limit:
            return None
        if queue.waiting:
            head = queue.waiting[0]
            if head.attempts == 0:
                return 0
            return None if queue.in_flight else head.retry_at_ms
        if queue.open is None:
            return None
        # Lingering pays while an answer is awaited anyway; the first batch of an idle partition goes at once.
        return queue.open.created_ms + self._limits.linger_ms if queue.in_flight else 0

    def _remove(self, batch: ProducerBatch) -> None:
        queue = self._queues[batch.topic_partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        elif batch is queue.open:
            queue.open = None
        else:
            queue.waiting.remove(batch)
        self.pending_batches -= 1
        self.pending_bytes -= batch.size_bytes


def _first_uncertain(queue: PartitionQueue) -> ProducerBatch | None:
    return next((batch for batch in queue.waiting if batch.is_uncertain), None)


def _precedes(sequence: int, other: int) -> bool:
    """Whether a number comes before another, as they start again at 0 after 2**31 - 1."""
    return 0 < (other - sequence) % (1 << 31) < _HALF
