"""Which offsets of a log have records for the members of a group, and why the others have none.

log     batch 0..4 | gap | batch 8..9, aborted | batch 10..12, too old | marker 13 | batch 14..20
spans   0..4 deliver | 5..7 nothing | 8..9 nothing | 10..12 expired | 13 nothing | 14..20 deliver
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.native import BatchInfo, DeliveryHints
from ottla.queues.dead_letter import EXPIRED
from ottla.queues.stream_marks import StreamMarks
from ottla.replication.partition import Partition
from ottla.runtime.clock import Clock

NO_RECORD: Final = ""
"""Why nobody is given offsets that have no record for members."""


class RecordSpan(NamedTuple):
    """First and last offset, and the batch that they lie in or end before.

    `passed_over` says why nobody is given the records: a reason for dead letters, or `NO_RECORD`; None for what is to
    be delivered.
    """

    batch: BatchInfo
    first: int
    last: int
    passed_over: str | None


class RecordSpans:
    """Of one partition."""

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self._partition = partition
        self._clock = clock
        self._marks = StreamMarks()

    def of(
        self,
        data: bytes,
        batches: Sequence[BatchInfo],
        undone: Collection[int],
        first: int,
        last: int,
        times: DeliveryHints | None = None,
    ) -> Iterator[RecordSpan]:
        """The spans from a first offset on, those of records up to a last one. `batches` lie in `data`; those that
        begin at offsets of `undone` are of aborted transactions. `times` says until when records live.
        """
        if times is not None:
            last = min(last, times.end_offset - 1)
        expected = first
        for batch in batches:
            if batch.base_offset > expected:
                yield RecordSpan(batch, expected, batch.base_offset - 1, NO_RECORD)
            if batch.base_offset > last:
                return
            begin, end = max(batch.base_offset, first), min(batch.last_offset, last)
            if batch.base_offset in undone or batch.is_control:
                yield RecordSpan(batch, begin, batch.last_offset, NO_RECORD)
            else:
                for start, stop, reason in self._records_of(data, batch, begin, end, times):
                    yield RecordSpan(batch, start, stop, reason)
            expected = batch.last_offset + 1

    def _records_of(
        self, data: bytes, batch: BatchInfo, first: int, last: int, times: DeliveryHints | None
    ) -> Iterator[tuple[int, int, str | None]]:
        """First and last offset of what lies in a batch of records, and why nobody is given it."""
        config, now_ms = self._partition.log.config, self._clock.now_ms()
        if config.ttl_ms >= 0 and batch.max_timestamp + config.ttl_ms <= now_ms:
            # The time to live of all its records is over (`ottla.ttl.ms`).
            yield first, last, EXPIRED
        elif config.is_stream and batch.base_offset >= config.stream_begin:
            for start, stop, is_mark in self._marks.spans(data, batch, first, last):
                yield start, stop, NO_RECORD if is_mark else None
        else:
            for start, stop in [] if times is None else times.expired(first, last, now_ms):
                if first < start:
                    yield first, start - 1, None
                yield start, stop, EXPIRED
                first = stop + 1
            if first <= last:
                yield first, last, None
