"""What one transaction delivers of a delay topic: batches for the partitions of the target, and letters."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.client.producing.partitioner import partition_for_key
from ottla.model.delivery_group import delivery_group
from ottla.model.topic_partition import TopicPartition
from ottla.native import TopicRules, build_batch
from ottla.native.errors import KernelError
from ottla.queues.dead_letter import CUT, MESSAGE, OFFSET, letter_headers, letters_topic_of
from ottla.queues.delay import (
    CANCEL,
    SCHEDULED,
    BadDelayError,
    delivered_headers,
    due_ms,
    is_cancel,
    next_of_schedule,
)

if TYPE_CHECKING:
    from ottla.client.producing.delivery import Delivery
    from ottla.client.producing.producer import Producer
    from ottla.server.waiting_records import WaitingRecord

BATCH_BYTES: Final = 256 << 10
SCHEDULES_PER_BATCH: Final = 8

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class Target(NamedTuple):
    """Where records go: the topic, how many partitions it has, and what it asks of batches."""

    topic: str
    partition_count: int
    rules: TopicRules
    retention_ms: int = -1
    """How long it keeps records from their timestamp on; -1: for ever."""

    def would_drop(self, timestamp_ms: int, now_ms: int) -> bool:
        """Whether it removes a record with that timestamp as soon as it has it."""
        return 0 <= self.retention_ms <= now_ms - timestamp_ms


class DelayOutbox:
    """Takes records, then has them sent."""

    def __init__(self, place: TopicPartition, own: Target, target: Target, default_delay_ms: int, now_ms: int) -> None:
        """`place` is the partition that the records wait in, of the topic `own`."""
        self._place = place
        self._own = own
        self._partition_count = own.partition_count
        self._target = target
        self._default_delay_ms = default_delay_ms
        self._now_ms = now_ms
        self._batches: dict[int, list[list[WaitingRecord]]] = {}
        self._sizes: dict[int, int] = {}
        self._schedules: list[Record] = []
        self._new_schedules: list[Record] = []
        self.letters: list[Record] = []
        self._reasons: list[list[tuple[str, bytes | None]]] = []
        self.appended: tuple[Delivery, int] | None = None
        """The last batch that was appended to the delay topic itself, and how many records it has."""

    def sort(self, records: "Iterable[WaitingRecord]") -> None:
        """Take records in the order in which they are due. Each partition gets them in this order."""
        for waiting in records:
            try:
                is_cancel(waiting.key, waiting.headers)
                due_ms(waiting.timestamp_ms, waiting.headers, self._default_delay_ms)
                following = next_of_schedule(
                    waiting.key, waiting.headers, max(self._now_ms, waiting.due_ms), waiting.place
                )
            except BadDelayError as error:
                self._refuse(waiting, str(error))
                continue
            if following is not None:
                again = (self._now_ms, waiting.key, waiting.value, list(following[1]))
                complaint = _complaint(self._own.rules, [again], self._now_ms)
                if complaint is not None:
                    self._refuse(waiting, f"it cannot wait for its next time: {complaint}")
                    continue
            if following is not None and SCHEDULED not in dict(waiting.headers):
                # The schedule is new: it takes the place of what waits with its key, and is no delivery.
                self._new_schedules += [
                    (self._now_ms, waiting.key, None, [(CANCEL, b""), (SCHEDULED, str(waiting.place).encode())]),
                    (self._now_ms, waiting.key, waiting.value, list(following[1])),
                ]
                continue
            if following is not None:
                self._schedules.append((self._now_ms, waiting.key, waiting.value, list(following[1])))
            is_own_time = following is None and not self._target.would_drop(waiting.timestamp_ms, waiting.due_ms)
            self._take(waiting if is_own_time else waiting._replace(timestamp_ms=waiting.due_ms))
        for partition, batches in self._batches.items():
            self._batches[partition] = [accepted for batch in batches if (accepted := self._accepted(batch))]

    @property
    def schedule_cancels(self) -> list[Record]:
        """What cancels all that waits of a schedule, where a new one takes its place."""
        return self._new_schedules[::2]

    def _take(self, waiting: "WaitingRecord") -> None:
        partition = self._partition_for(waiting.key, waiting.offset)
        size = self._sizes.get(partition, BATCH_BYTES) + waiting.size
        batches = self._batches.setdefault(partition, [])
        if size > BATCH_BYTES:
            batches.append([])
            size = waiting.size
        batches[-1].append(waiting)
        self._sizes[partition] = size

    async def send(self, producer: "Producer") -> None:
        """Send all of it as part of the open transaction; the topic of letters is there. Raises ClientError."""
        for partition, batches in self._batches.items():
            for records in batches:
                batch = build_batch([_delivered(each) for each in records])
                await producer.send_encoded(self._target.topic, partition, batch, len(records))
        # New ones come after those that they may take the place of.
        waiting = [*self._schedules, *self._new_schedules]
        for part in self._parts(waiting):
            self.appended = await producer.send_encoded(*self._place, build_batch(part), len(part)), len(part)
        if self.letters:
            topic = letters_topic_of(self._place.topic)
            partition = self._place.partition % await producer.partitions(topic)
            for letter in self.letters:
                await producer.send_encoded(topic, partition, build_batch([letter]), 1)

    def _parts(self, records: list[Record]) -> "Iterable[list[Record]]":
        """Batches that the delay topic takes, of records each of which it takes."""
        for at in range(0, len(records), SCHEDULES_PER_BATCH):
            part = records[at : at + SCHEDULES_PER_BATCH]
            if _complaint(self._own.rules, part, self._now_ms) is None:
                yield part
            else:
                yield from ([each] for each in part)

    def fit_letters(self, topic: Target | None) -> list[str]:
        """Have each letter be one that the topic of letters takes: one that it refuses is cut down to the headers that
        say why. Returns what cannot be kept even so. There is None where no topic can have its name.
        """
        kept, lost = [], []
        rules = None if topic is None else topic.rules
        for letter, reasons in zip(self.letters, self._reasons, strict=True):
            fitting = letter
            if topic is not None and topic.would_drop(letter[0], self._now_ms):
                fitting = (self._now_ms, *letter[1:])
            complaint = "no topic can have its name" if rules is None else _complaint(rules, [fitting], self._now_ms)
            if complaint is not None and rules is not None:
                why = (CUT, f"the topic of letters does not take all of it: {complaint}".encode())
                fitting = (self._now_ms, letter[1], None, [*reasons, why])
                complaint = _complaint(rules, [fitting], self._now_ms)
            if complaint is None:
                kept.append(fitting)
            else:
                said = dict(reasons)
                lost.append(f"offset {_text(said[OFFSET])} ({_text(said[MESSAGE])}): {complaint}")
        self.letters = kept
        return lost

    def _accepted(self, records: "list[WaitingRecord]") -> "list[WaitingRecord]":
        """The records that the target takes; the others become letters."""
        if self._complaint(records) is None:
            return records
        accepted = []
        for record in records:
            complaint = self._complaint([record])
            if complaint is None:
                accepted.append(record)
            else:
                self._refuse(record, f"topic {self._target.topic} does not take it: {complaint}")
        return accepted

    def _complaint(self, records: "list[WaitingRecord]") -> KernelError | None:
        return _complaint(self._target.rules, [_delivered(each) for each in records], self._now_ms)

    def _partition_for(self, key: bytes | None, offset: int) -> int:
        """The partition of the same number where both topics have as many, else by key as producers do."""
        count = self._target.partition_count
        if self._partition_count == count:
            return self._place.partition
        return offset % count if key is None else partition_for_key(key, count)

    def _refuse(self, waiting: "WaitingRecord", reason: str) -> None:
        place = self._place
        headers = letter_headers(*place, waiting.offset, delivery_group(place.topic), 0, reason)
        self.letters.append((waiting.timestamp_ms, waiting.key, waiting.value, [*waiting.headers, *headers]))
        self._reasons.append(headers)


def _complaint(rules: TopicRules, records: list[Record], now_ms: int) -> KernelError | None:
    """Why a topic does not take a batch of records."""
    try:
        rules.check(build_batch(records), now_ms)
    except KernelError as error:
        return error
    return None


def _delivered(waiting: "WaitingRecord") -> Record:
    return waiting.timestamp_ms, waiting.key, waiting.value, delivered_headers(waiting.headers)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
