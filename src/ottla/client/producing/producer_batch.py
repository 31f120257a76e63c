"""Records of one partition that travel together."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.arguments import INT64_MAX, encodable, shown, whole_number
from ottla.client.producing.delivery import BatchOutcome, Delivery
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_producer, build_batch, decode_records
from ottla.records.batch import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_BYTES, NO_SEQUENCE, next_sequence

Header = tuple[str, bytes | None]
Record = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""Timestamp in ms, key, value, headers: what `ottla.native.build_batch` takes."""

RECORD_OVERHEAD_BYTES = 24
"""At most what a record takes besides key, value and headers: its lengths, attributes, timestamp and offset deltas."""


class Compression(NamedTuple):
    """How batches are compressed: the codec's number in the batch format, and its level (None: the codec's default)."""

    codec: int = 0
    level: int | None = None


class Identity(NamedTuple):
    """The producer id and epoch that make appends idempotent, and whether they are part of a transaction."""

    producer_id: int = -1
    epoch: int = -1
    is_transactional: bool = False


NO_IDENTITY = Identity()


def require_encodable(
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int | None,
    timestamp_ms: int | None,
    headers: Sequence[Header],
) -> None:
    """Raise TypeError or InvalidOptionError for a record that cannot be encoded: its whole batch would fail with it."""
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"value must be bytes or None, not {type(value).__name__}: encode it")
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"key must be bytes or None, not {type(key).__name__}: encode it")
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a string, not {type(topic).__name__}")
    if partition is not None and not isinstance(partition, int):
        raise TypeError(f"partition must be a whole number or None, not {type(partition).__name__}")
    if timestamp_ms is not None and not isinstance(timestamp_ms, int):
        raise TypeError(f"timestamp_ms must be a whole number or None, not {type(timestamp_ms).__name__}")
    if timestamp_ms is not None and not 0 <= timestamp_ms <= INT64_MAX:
        whole_number("timestamp_ms", timestamp_ms, highest=INT64_MAX)
    if headers:
        _require_headers(headers)


def _require_headers(headers: Sequence[Header]) -> None:
    if not isinstance(headers, list | tuple):
        raise TypeError(f"headers must be a list of pairs of name and value, not {type(headers).__name__}")
    for header in headers:
        if not (isinstance(header, list | tuple) and len(header) == 2 and isinstance(header[0], str)):
            raise TypeError(
                f"a header must be a pair of name and value, such as ('name', b'value'), not {shown(header)}"
            )
        if not header[0].isascii():
            encodable("the name of header", header[0])
        if header[1] is not None and not isinstance(header[1], bytes):
            raise TypeError(
                f"the value of header {header[0]!r} must be bytes or None, not {type(header[1]).__name__}: encode it"
            )


def record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """About the bytes of a record in a batch that is not compressed, never less."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
    for name, content in headers:
        size += 10 + 4 * len(name) + (len(content) if content is not None else 0)
    return size


class ProducerBatch:
    """A batch from its first record to its outcome. Knows its bytes once it is encoded.

    `sequence` is the number of its first record among those of this producer for the partition, once it was given one.
    """

    __slots__ = (
        "_codec",
        "_encoded",
        "_records",
        "attempts",
        "created_ms",
        "is_uncertain",
        "outcome",
        "place",
        "record_count",
        "retry_at_ms",
        "sequence",
        "size_bytes",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: int) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.outcome = BatchOutcome(topic_partition)
        self.record_count = 0
        self.size_bytes = HEADER_BYTES
        self.sequence = NO_SEQUENCE
        self.place = 0
        """How many batches of the partition were given a number before it."""
        self.attempts = 0
        self.is_uncertain = False
        """Whether it may have been appended by an attempt whose outcome is not known: only under the number that it had
        then will a broker know it again."""
        self.retry_at_ms = 0
        self._records: list[Record] = []
        self._encoded: bytearray | None = None
        self._codec: int | None = None
        """The codec of the batch that this one is a half of."""

    @classmethod
    def of_encoded(
        cls, topic_partition: TopicPartition, created_ms: int, encoded: bytearray, record_count: int
    ) -> "ProducerBatch":
        """A batch that is encoded already; it takes the bytes over and will write its producer id into them."""
        batch = cls(topic_partition, created_ms)
        batch._encoded = encoded
        batch.record_count = record_count
        batch.size_bytes = len(encoded)
        return batch

    def append(self, record: Record, size_bytes: int) -> Delivery:
        """Add a record of about this size; only while the batch is not encoded."""
        assert self._encoded is None, "a batch that is encoded takes no more records"
        delivery = Delivery(self.outcome, self.record_count)
        self._records.append(record)
        self.record_count += 1
        self.size_bytes += size_bytes
        return delivery

    def encode(self, compression: Compression, identity: Identity) -> bytearray:
        """The batch's bytes, carrying the identity and the sequence number when there are any.

        Compressed at the first call; later calls only write what has changed into the header and its checksum.
        """
        if self._encoded is None:
            if self._codec is not None and self._codec != compression.codec:
                compression = Compression(self._codec)
            self._encoded = build_batch(
                self._records,
                codec=compression.codec,
                level=compression.level,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=self.sequence,
                is_transactional=identity.is_transactional,
            )
            self._records = []
        elif identity != NO_IDENTITY:
            assign_producer(
                self._encoded,
                identity.producer_id,
                identity.epoch,
                self.sequence,
                is_transactional=identity.is_transactional,
            )
        return self._encoded

    def split(self, max_decompressed_bytes: int) -> list["ProducerBatch"]:
        """Two batches of half the records each, in order, whose outcomes are this batch's from now on.

        For a batch that a broker found too large. The halves keep the sequence numbers of their records.
        """
        assert self._encoded is not None
        assert self.record_count > 1
        records: list[Record] = [
            record[1:] for record in decode_records(self._encoded, max_decompressed_bytes=max_decompressed_bytes)
        ]
        codec = self._encoded[ATTRIBUTES_POSITION + 1] & CODEC_MASK
        middle = (len(records) + 1) // 2
        halves = []
        for start, part in ((0, records[:middle]), (middle, records[middle:])):
            half = ProducerBatch(self.topic_partition, self.created_ms)
            half.attempts, half.place, half._codec = self.attempts, self.place, codec
            if self.sequence != NO_SEQUENCE:
                half.sequence = next_sequence(self.sequence, start)
            for record in part:
                half.append(record, record_bytes(*record[1:]))
            halves.append(half)
        self.outcome.divide([(0, halves[0].outcome), (middle, halves[1].outcome)])
        return halves
