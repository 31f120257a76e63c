"""A record as a share consumer sees it, and the records of one response."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from ottla.client.consuming.visible_batches import whole_batches
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_records


class ShareRecord(NamedTuple):
    """One record that this member has acquired. `value` is None for a tombstone; header values may be None as well.

    `delivery_count` is 1 for the first delivery of the record to any member of the group.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    delivery_count: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record is."""
        return TopicPartition(self.topic, self.partition)


class Acquired(Protocol):
    """A run of offsets that were acquired together."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def delivery_count(self) -> int: ...


class AcquiredRecords(NamedTuple):
    """What was acquired of one partition."""

    records: list[ShareRecord]
    gaps: list[int]
    """Acquired offsets without a record: transaction markers, and what compaction removed."""
    broken: list[int]
    """Acquired offsets of batches that cannot be decoded."""
    reason: str = ""


def acquired_records(
    topic_partition: TopicPartition, data: memoryview, acquired: Sequence[Acquired], *, decompressed_bytes_max: int
) -> AcquiredRecords:
    """The acquired ones of the records of a response. Raises KernelError when no batch can be told from the next."""
    counts = {
        offset: each.delivery_count for each in acquired for offset in range(each.first_offset, each.last_offset + 1)
    }
    if not counts:
        return AcquiredRecords([], [], [])
    records: list[ShareRecord] = []
    broken: list[int] = []
    reason = ""
    for batch in whole_batches(data):
        offsets = range(batch.base_offset, batch.last_offset + 1)
        if batch.is_control or not any(
            each.first_offset <= offsets[-1] and each.last_offset >= offsets[0] for each in acquired
        ):
            continue
        span = data[batch.position : batch.position + batch.size]
        try:
            decoded = decode_records(span, max_decompressed_bytes=decompressed_bytes_max, start_offset=0)
        except InvalidInputError as error:
            broken += [offset for offset in offsets if offset in counts]
            reason = str(error)
            continue
        for record in decoded:
            count = counts.get(record[0])
            if count is not None:
                records.append(ShareRecord._make((*topic_partition, *record, count)))
    seen = {record.offset for record in records}.union(broken)
    return AcquiredRecords(records, [offset for offset in counts if offset not in seen], broken, reason)


def acknowledgement_runs(types: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Acknowledged offsets with their types as the wire has them: first offset, last offset, types.

    One type stands for all offsets of a run, else there is one for each.

    >>> list(acknowledgement_runs([(5, 1), (6, 1), (7, 2), (9, 1), (10, 1)]))
    [(5, 7, (1, 1, 2)), (9, 10, (1,))]
    """
    ordered = sorted(types)
    if not ordered:
        return
    ends = [at for at, (one, other) in enumerate(pairwise(ordered), 1) if other[0] != one[0] + 1]
    for start, end in pairwise([0, *ends, len(ordered)]):
        run = ordered[start:end]
        kinds = tuple(kind for _, kind in run)
        yield run[0][0], run[-1][0], kinds if len(set(kinds)) > 1 else kinds[:1]
