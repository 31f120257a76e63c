"""A run: record batches that a log appends as one, all of them or none.

    in place    the batches of one request, of a coordinator or of the leader, in the buffer they came in (`BatchRun`)
    gathered    those of many small requests, copied behind each other by the kernel (`ottla.native.ProduceRun`)

A log does the same with either: it asks for sizes, gives the batches their offsets, writes them with one write and
enters them in the indexes.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.native import BatchInfo, IndexProgress, RecentBatches, assign_offsets


class Run(Protocol):
    """Batches that were checked, one or more."""

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        ...

    @property
    def record_count(self) -> int:
        """How many offsets they take."""
        ...

    @property
    def max_timestamp(self) -> int:
        """The largest of all batches."""
        ...

    @property
    def is_idempotent(self) -> bool:
        """Whether one of them is of a producer with an id."""
        ...

    @property
    def batches(self) -> Sequence[BatchInfo]:
        """Their headers."""
        ...

    def __len__(self) -> int:
        """How many batches they are."""
        ...

    def assign(self, base_offset: int, leader_epoch: int, log_append_time_ms: int, /) -> bytes | memoryview:
        """Writes consecutive offsets, the epoch, and the time unless it is negative; returns the bytes."""
        ...

    def enter(
        self,
        base_offset: int,
        log_append_time_ms: int,
        interval_bytes: int,
        progress: IndexProgress,
        recent: RecentBatches,
        /,
    ) -> list[tuple[int, int, int, int]] | None:
        """Tells `progress` and `recent` of them; returns the index entries, see `ottla.native.ProduceRun.enter`."""
        ...


class BatchRun:
    """A run that stays where it lies: `records`, which are `batches` and nothing else."""

    __slots__ = ("batches", "is_idempotent", "max_timestamp", "record_count", "records", "size")

    def __init__(self, records: memoryview, batches: Sequence[BatchInfo]) -> None:
        """`records` are written to, and stay untouched by others until they are in the file."""
        self.records = records
        self.batches = batches
        self.size = records.nbytes
        first = batches[0]
        if len(batches) == 1:
            self.record_count = first.last_offset_delta + 1
            self.max_timestamp = first.max_timestamp
            self.is_idempotent = first.producer_id >= 0
        else:
            self.record_count = sum(each.last_offset_delta + 1 for each in batches)
            self.max_timestamp = max(each.max_timestamp for each in batches)
            self.is_idempotent = any(each.producer_id >= 0 for each in batches)

    def __len__(self) -> int:
        return len(self.batches)

    def assign(self, base_offset: int, leader_epoch: int, log_append_time_ms: int, /) -> bytes | memoryview:
        """As `Run` says."""
        assign_offsets(self.records, base_offset, leader_epoch, log_append_time_ms)
        return self.records

    def enter(
        self,
        base_offset: int,
        log_append_time_ms: int,
        interval_bytes: int,
        progress: IndexProgress,
        recent: RecentBatches,
        /,
    ) -> list[tuple[int, int, int, int]] | None:
        """As `Run` says."""
        points = None
        offset = base_offset
        for batch in self.batches:
            size = batch.size
            last_offset = offset + batch.last_offset_delta
            timestamp = batch.max_timestamp if log_append_time_ms < 0 else log_append_time_ms
            if progress.add(size, last_offset, timestamp, interval_bytes):
                point = (last_offset, recent.end_position, *progress.max_timestamp)
                points = [point] if points is None else [*points, point]
            recent.add(offset, size)
            offset = last_offset + 1
        return points


class LeaderRun(BatchRun):
    """A run as the leader of the partition has it: with its offsets and its epoch, which stay."""

    __slots__ = ()

    def assign(self, base_offset: int, leader_epoch: int, log_append_time_ms: int, /) -> bytes | memoryview:
        """Changes nothing."""
        del base_offset, leader_epoch, log_append_time_ms
        return self.records
