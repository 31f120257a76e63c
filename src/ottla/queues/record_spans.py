"""Which offsets of a log have records for the members of a group, and why the others have none.

log     batch 0..4 | gap | batch 8..9, aborted | batch 10..12, too old | marker 13 | batch 14..20
spans   0..4 deliver | 5..7 nothing | 8..9 nothing | 10..12 expired | 13 nothing | 14..20 deliver
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.native import BatchInfo
from ottla.queues.aborted_batches import AbortedBatches
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
        self, data: bytes, batches: Sequence[BatchInfo], aborted: Sequence[tuple[int, int]], first: int, last: int
    ) -> Iterator[RecordSpan]:
        """The spans from a first offset on, those of records up to a last one. `batches` lie in `data`, where the
        transactions of `aborted` came to nothing.
        """
        undone = AbortedBatches(aborted)
        expected = first
        config = self._partition.log.config
        for batch in batches:
            if batch.base_offset > expected:
                yield RecordSpan(batch, expected, batch.base_offset - 1, NO_RECORD)
            if batch.base_offset > last:
                return
            begin, end = max(batch.base_offset, first), min(batch.last_offset, last)
            if undone.has(batch) or batch.is_control:
                yield RecordSpan(batch, begin, batch.last_offset, NO_RECORD)
            elif config.ttl_ms >= 0 and batch.max_timestamp + config.ttl_ms <= self._clock.now_ms():
                # The time to live of all its records is over (`ottla.ttl.ms`).
                yield RecordSpan(batch, begin, end, EXPIRED)
            elif config.is_stream:
                for start, stop, is_mark in self._marks.spans(data, batch, begin, end):
                    yield RecordSpan(batch, start, stop, NO_RECORD if is_mark else None)
            else:
                yield RecordSpan(batch, begin, end, None)
            expected = batch.last_offset + 1
