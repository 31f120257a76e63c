"""A log with transactions, and what readers of committed records must find in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.client.consuming.fetch import AbortedTransaction, FetchedBatches
from ottla.client.consuming.visible_batches import visible_spans, whole_batches
from ottla.native import build_batch, decode_records, validate_batches
from ottla.records.control import ControlRecordType, EndTransactionMarker
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.append_run import BatchRun
from ottla.storage.log import Log
from ottla.storage.log_append_info import LogAppendInfo
from tests.unit.storage.data_directory import NOW_MS, OpenDirectory, bytes_of

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
LIMIT = 1 << 20


def data(
    producer_id: int,
    value: bytes,
    *,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = True,
    key: bytes = b"k",
    timestamp_ms: int = NOW_MS,
) -> bytearray:
    """A batch of one record."""
    return build_batch(
        [(timestamp_ms, key, value, [])],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(
    producer_id: int,
    kind: ControlRecordType,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp_ms: int = NOW_MS,
) -> bytearray:
    """A control batch that ends a transaction."""
    return EndTransactionMarker(kind, coordinator_epoch).to_batch(
        producer_id=producer_id, producer_epoch=epoch, timestamp_ms=timestamp_ms
    )


def append(
    directory: OpenDirectory,
    log: Log,
    records: bytearray,
    *,
    origin: AppendOrigin = AppendOrigin.COORDINATOR,
    transaction_version: int = 0,
) -> LogAppendInfo:
    """Append as a coordinator does, without sequence numbers, or as another origin."""
    info = log.append(
        BatchRun(memoryview(records), validate_batches(records, allow_control=origin is AppendOrigin.COORDINATOR)),
        leader_epoch=0,
        now_ms=directory.clock.now_ms(),
        origin=origin,
        transaction_version=transaction_version,
    )
    assert info is not None
    return info


async def committed(log: Log) -> None:
    """Everything appended so far is on disk, and so committed."""
    await log.flush()
    log.producers.unstable.committed(log.flushed_end_offset)


def read_committed(log: Log) -> Iterator[tuple[int, bytes | None]]:
    """Offset and value of what a reader of committed records gets."""
    return ((offset, value) for offset, _, value in committed_rows(log))


def committed_rows(log: Log, max_bytes: int = 200) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of what a reader of committed records gets, fetch by fetch."""
    offset, end = log.log_start_offset, log.stable_end_offset
    while offset < end:
        result = log.read(offset, max_bytes, max_offset=end)
        content = memoryview(bytes_of(result))
        batches = whole_batches(content)
        assert batches, f"a reader at {offset} of {end} gets on"
        fetched = FetchedBatches(
            topic_partition=log.topic_partition,
            offset=offset,
            records=content,
            aborted=tuple(AbortedTransaction(*each) for each in log.aborted_in(result, offset, end)),
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.log_start_offset,
        )
        for span in visible_spans(fetched, batches):
            rows = decode_records(span, max_decompressed_bytes=LIMIT, start_offset=offset)
            yield from ((row[0], row[2], row[3]) for row in rows)
        offset = batches[-1].last_offset + 1


@dataclass
class Model:
    """What the log holds, and what became of each transaction: the truth, kept by nobody but the test."""

    records: list[tuple[int, bytes, int | None]] = field(default_factory=list)
    """Offset, value, and the number of the transaction."""
    outcomes: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Of ended transactions the offset of the marker and whether it is a commit."""
    open: dict[int, int] = field(default_factory=dict)
    """The number of the open transaction of a producer."""
    producers: dict[int, int] = field(default_factory=dict)
    """The producer of each transaction."""
    end_offset: int = 0
    _numbers: int = 0

    def write(self, producer_id: int, value: bytes, *, transactional: bool) -> None:
        number = None
        if transactional:
            if producer_id not in self.open:
                self._numbers += 1
                self.open[producer_id] = self._numbers
                self.producers[self._numbers] = producer_id
            number = self.open[producer_id]
        self.records.append((self.end_offset, value, number))
        self.end_offset += 1

    def finish(self, producer_id: int, *, commit: bool) -> None:
        number = self.open.pop(producer_id, None)
        if number is not None:
            self.outcomes[number] = self.end_offset, commit
        self.end_offset += 1

    def truncate(self, offset: int) -> None:
        """Everything from `offset` on is gone."""
        self.end_offset = offset
        self.records = [each for each in self.records if each[0] < offset]
        self.outcomes = {number: each for number, each in self.outcomes.items() if each[0] < offset}
        begun = {number for _, _, number in self.records if number is not None}
        self.open = {self.producers[number]: number for number in begun if number not in self.outcomes}

    @property
    def last_stable_offset(self) -> int:
        firsts = [offset for offset, _, number in self.records if number is not None and number not in self.outcomes]
        return min(firsts, default=self.end_offset)

    @property
    def visible(self) -> list[tuple[int, bytes]]:
        return [
            (offset, value)
            for offset, value, number in self.records
            if offset < self.last_stable_offset and (number is None or self.outcomes[number][1])
        ]
