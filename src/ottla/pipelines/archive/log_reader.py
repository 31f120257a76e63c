"""Reads the records of a partition as Arrow record batches, with the offsets that they cover."""

from collections.abc import Iterator
from typing import Any, Final, Protocol

from msgspec import Struct

from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.consuming.visible_batches import visible_spans, whole_batches
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_arrow
from ottla.native.errors import DecompressionLimitError
from ottla.pipelines.archive.manifest import ArchiveError, Epoch

FETCH_BYTES: Final = 8 << 20
DECODED_BYTES: Final = 64 << 20
"""The records of a response are decoded in parts of at most this size, so that memory is bounded."""

LARGEST_BATCH_BYTES: Final = 1 << 30
"""The maximum decompressed size of a batch, which can only be decoded as a whole."""

EMPTY_ANSWERS_MAX: Final = 60
WAIT_MS: Final = 500


class LogSource(Protocol):
    """The client that reads records, such as `ottla.client.blocking.BlockingClient`."""

    def fetch_raw(
        self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int, isolation: IsolationLevel
    ) -> FetchedBatches:
        """Record batches from an offset on. Raises OffsetOutOfRangeError and TopicNotFoundError."""
        ...


class Piece(Struct, frozen=True):
    """All records with offsets below `end` that earlier pieces do not have. `epochs` are those of their batches."""

    records: list[Any]
    end: int
    epochs: tuple[Epoch, ...]


def read(
    source: LogSource,
    place: TopicPartition,
    start: int,
    end: int,
    *,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> Iterator[Piece]:
    """Yields the records with `start <= offset < end`, committed ones by default; the last piece ends at `end`.

    Raises ClientError, OffsetOutOfRangeError where `start` has expired, and ArchiveError for a batch that is damaged or
    too large.
    """
    offset, empty_answers = start, 0
    while offset < end:
        answer = source.fetch_raw(*place, offset, max_bytes=FETCH_BYTES, max_wait_ms=WAIT_MS, isolation=isolation)
        batches = whole_batches(answer.records)
        if not batches:
            empty_answers += 1
            if empty_answers > EMPTY_ANSWERS_MAX:
                raise ArchiveError(f"{place}: nothing comes from offset {offset} on, though the log ends at {end}")
            continue
        records = [
            decoded
            for span in visible_spans(answer, batches)
            for decoded in _decode(span, place, offset, end)
            if decoded.num_rows
        ]
        epochs: list[Epoch] = []
        for batch in batches:
            if not epochs or epochs[-1].epoch != batch.leader_epoch:
                epochs.append(Epoch(batch.leader_epoch, max(batch.base_offset, offset)))
        offset, empty_answers = min(batches[-1].last_offset + 1, end), 0
        yield Piece(records, offset, tuple(each for each in epochs if each.start_offset < end))


def _decode(records: memoryview, place: TopicPartition, start: int, end: int) -> Iterator[Any]:
    import pyarrow as pa

    limit = DECODED_BYTES
    while records:
        part = records
        while True:
            try:
                decoded = decode_arrow(
                    part,
                    max_decompressed_bytes=limit,
                    start_offset=start,
                    end_offset=end,
                    topic=place.topic,
                    partition=place.partition,
                    include_headers=True,
                )
                break
            except DecompressionLimitError as error:
                if error.position:
                    part = part[: error.position]
                elif limit < LARGEST_BATCH_BYTES:
                    limit = LARGEST_BATCH_BYTES
                else:
                    raise ArchiveError(
                        f"{place}: one batch at offset {error.base_offset} expands to more than {limit} bytes"
                    ) from error
        yield pa.record_batch(decoded)
        records = records[len(part) :]
