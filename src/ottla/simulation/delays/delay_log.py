"""The log of a partition of a delay topic, as one replica has it, and the partition as its leader has it."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.storage.leader_epoch_cache import LeaderEpochCache
from ottla.storage.log_config import LogConfig

PLACE: Final = TopicPartition("later", 0)
NO_PRODUCER: Final = -1

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class LogBatch(NamedTuple):
    """Records of one producer, or the marker that ends its transaction."""

    base_offset: int
    end_offset: int
    epoch: int
    data: bytes
    producer_id: int
    ends: bool | None
    """Of a marker, whether it commits; None for records."""


class _Transaction:
    __slots__ = ("end_offset", "first_offset", "is_aborted", "producer_id")

    def __init__(self, producer_id: int, first_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.end_offset: int | None = None
        self.is_aborted = False


class DelayLog:
    """Batches in a list. `directory` is where bucket files are."""

    topic_partition = PLACE
    config = LogConfig()

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.batches: list[LogBatch] = []
        self.log_start_offset = 0
        self.opened_end_offset = 0
        """Where it ended when the process began that has it open."""
        self._transactions: list[_Transaction] = []
        self._epochs = LeaderEpochCache()

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.batches[-1].end_offset if self.batches else 0

    def append(self, records: list[Record], epoch: int, producer_id: int = NO_PRODUCER) -> LogBatch:
        """Write records; those of a producer are part of its transaction."""
        is_transactional = producer_id != NO_PRODUCER
        base = self.log_end_offset
        data = build_batch(
            records,
            base_offset=base,
            leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        return self.take(LogBatch(base, base + len(records), epoch, bytes(data), producer_id, None))

    def append_marker(self, producer_id: int, epoch: int, *, commits: bool) -> LogBatch:
        """End the transaction of a producer."""
        base = self.log_end_offset
        data = build_batch(
            [(0, b"\0\0\0" + bytes([commits]), b"\0\0\0\0\0\0", ())],
            base_offset=base,
            leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        return self.take(LogBatch(base, base + 1, epoch, bytes(data), producer_id, commits))

    def take(self, batch: LogBatch) -> LogBatch:
        """Write a batch, as a follower does."""
        self.batches.append(batch)
        self._epochs.assign(batch.epoch, batch.base_offset)
        known = [each for each in self._transactions if each.producer_id == batch.producer_id]
        is_open = bool(known) and known[-1].end_offset is None
        if batch.ends is not None and is_open:
            known[-1].end_offset, known[-1].is_aborted = batch.end_offset, not batch.ends
        elif batch.ends is None and batch.producer_id != NO_PRODUCER and not is_open:
            self._transactions.append(_Transaction(batch.producer_id, batch.base_offset))
        return batch

    def cut(self, end: int) -> None:
        """Lose everything from an offset on."""
        if end < self.log_end_offset:
            kept = self.up_to(end)
            self.batches, self._transactions = [], []
            self._epochs = LeaderEpochCache()
            for batch in kept:
                self.take(batch)
            self.log_start_offset = min(self.log_start_offset, self.log_end_offset)

    def up_to(self, end: int) -> list[LogBatch]:
        """The batches before an offset."""
        return [batch for batch in self.batches if batch.end_offset <= end]

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where all transactions have ended, as far as a high watermark says."""
        is_open = (
            each.first_offset
            for each in self._transactions
            if each.end_offset is None or each.end_offset > high_watermark
        )
        return min(high_watermark, *is_open, high_watermark)

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of a transaction that has no marker, else the end."""
        return self.last_stable_offset(self.log_end_offset)

    def is_aborted(self, batch: LogBatch) -> bool:
        """Whether a batch is of an aborted transaction."""
        return any(
            each.is_aborted
            and each.producer_id == batch.producer_id
            and each.first_offset <= batch.base_offset < (each.end_offset or 0)
            for each in self._transactions
        )

    def between(self, offset: int, end: int) -> Iterable[LogBatch]:
        """The batches that have records from an offset on and begin before an end."""
        return [each for each in self.batches if each.end_offset > offset and each.base_offset < end]

    # What the mover asks of it.

    def epoch_of_offset(self, offset: int) -> int:
        """The leader epoch that a record was written in, or would be; -1 when that is not known."""
        return self._epochs.epoch_of(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The newest epoch up to one, and where it ends."""
        return self._epochs.end_offset(epoch, self.log_end_offset)

    def aborted_in(self, result: object, offset: int, end: int) -> list[tuple[int, int]]:
        """Producers and first offsets of the aborted transactions of a range."""
        del result
        return [
            (each.producer_id, each.first_offset)
            for each in self._transactions
            if each.is_aborted and each.first_offset < end and (each.end_offset or 0) > offset
        ]


class LedPartition:
    """The partition while a broker leads it, or believes that it does."""

    topic_partition = PLACE

    def __init__(self, log: DelayLog, leader_epoch: int, high_watermark: Callable[[], int]) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self._epoch_start_offset = log.log_end_offset
        self._high_watermark = high_watermark
        self._subscribers: list[Callable[[Any], None]] = []

    @property
    def high_watermark(self) -> int:
        """Up to where records are committed."""
        return self._high_watermark()

    @property
    def is_behind_election(self) -> bool:
        """Whether what was there when it began to lead is not known to be committed."""
        return self.high_watermark < self._epoch_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where they are, and all transactions have ended."""
        return max(self.log.log_start_offset, self.log.last_stable_offset(self.high_watermark))

    def read(self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool) -> Any:
        """Whole batches from the one on that has an offset."""
        del min_one_batch
        found: list[bytes] = []
        size = 0
        for batch in self.log.between(offset, max_offset):
            if found and size + len(batch.data) > max_bytes:
                break
            found.append(batch.data)
            size += len(batch.data)
        return SimpleNamespace(read=lambda: b"".join(found))

    def delete_records_before(self, offset: int) -> None:
        """Move the log start."""
        self.log.log_start_offset = max(self.log.log_start_offset, offset)

    def subscribe(self, on_change: Callable[[Any], None]) -> None:
        """Call back when there is more to read."""
        self._subscribers.append(on_change)

    def unsubscribe(self, on_change: Callable[[Any], None]) -> None:
        """Call it no more."""
        self._subscribers.remove(on_change)

    def changed(self) -> None:
        """There may be more to read."""
        for each in tuple(self._subscribers):
            each(self)
