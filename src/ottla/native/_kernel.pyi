"""Types of the Rust kernel. Every function raises a class of `ottla.native.errors` for bytes that are not what they
claim.
"""

import builtins
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, final, type_check_only
from uuid import UUID

from typing_extensions import Buffer

from ottla.native.errors import KernelError

__all__ = [
    "ArrowRecords",
    "BatchInfo",
    "BucketMerge",
    "Compaction",
    "DelayIndex",
    "DeliveryHints",
    "DeliveryLedger",
    "DirtyKeys",
    "IndexProgress",
    "LogIo",
    "MessageCodec",
    "ProduceRun",
    "RecentBatches",
    "RequestHeader",
    "RequestHeaderDecoder",
    "SingleFetchRequest",
    "SingleProduceRequest",
    "SocketPoll",
    "StreamAdds",
    "StreamSnapshots",
    "TopicPattern",
    "TopicRules",
    "aborted_between",
    "assign_offsets",
    "assign_producer",
    "build_batch",
    "build_stream_batch",
    "crc32c",
    "cut_commands",
    "decode_arrow",
    "decode_at",
    "decode_newest",
    "decode_records",
    "decode_response_header",
    "decompress",
    "encode_arrow",
    "encode_entries",
    "encode_logged_entries",
    "murmur2",
    "nsq_message_frames",
    "parse_entry_ids",
    "pick_records",
    "read_ahead",
    "snappy_chunks",
    "validate_batches",
    "walk_batches",
]

# Checksums and the partitioner.

def crc32c(data: Buffer, value: int = 0, /) -> int:
    """The CRC-32C (RFC 3720) of `data`; or of more data, when `value` is the CRC-32C of what comes before it."""

def decompress(data: Buffer, codec: int, *, max_bytes: int) -> bytes:
    """What `data` holds, compressed by the codec of that number (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd).

    Raises CorruptRecordError for what is none, DecompressionLimitError beyond `max_bytes`, ValueError for a number that
    is no codec's.
    """

def murmur2(data: Buffer, /) -> int:
    """Kafka's 32-bit murmur2 as a signed integer; the Java client's partition is `(murmur2(key) & 0x7fffffff) % n`."""

# Record batches (message format 2, https://kafka.apache.org/documentation/#recordbatch).

@final
class BatchInfo:
    """What the header of one batch says and where it lies. Immutable."""

    @property
    def position(self) -> int:
        """Where the batch starts in the buffer, in bytes."""
    @property
    def size(self) -> int:
        """The whole batch in bytes: 12 + its batchLength."""
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int:
        """`base_offset + last_offset_delta`; compaction may have removed the record that had it."""
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def record_count(self) -> int:
        """Less than `last_offset_delta + 1`, even 0, after compaction."""
    @property
    def leader_epoch(self) -> int:
        """-1 as producers send it."""
    @property
    def crc(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
    @property
    def base_timestamp(self) -> int:
        """Milliseconds; when tombstones may go, if `has_delete_horizon`."""
    @property
    def max_timestamp(self) -> int:
        """Milliseconds; the time of the append, for every record, if `log_append_time`."""
    @property
    def producer_id(self) -> int:
        """-1 without idempotence, as are epoch and sequences."""
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int:
        """The last record's sequence number; they go on from 0 after 2**31 - 1."""
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def marker(self) -> tuple[int, int] | None:
        """Of a control batch that ends a transaction the type, 0 ABORT or 1 COMMIT, and the coordinator's epoch; None
        of others, and when compaction left only the header.
        """
    @property
    def log_append_time(self) -> bool: ...
    @property
    def has_delete_horizon(self) -> bool: ...

def validate_batches(data: Buffer, *, max_batch_bytes: int = 0, allow_control: bool = False) -> list[BatchInfo]:
    """The batches of `data`, which must be nothing but whole batches that a producer may write.

    Checked per batch: lengths, magic 2, size (when `max_batch_bytes` is not 0), CRC, codec, at least one record and
    as many as the last offset delta says, a sequence number when there is a producer id, no control batch (unless
    allowed, as are then batches of producers without a sequence number). Records are not looked at. Raises at the first
    bad batch. Base offsets may be anything.
    """

@final
class TopicPattern:
    """A regular expression that names of topics match as a whole, in the syntax of RE2 without Unicode classes.

    Matching takes time in proportion to the length of the names. Immutable.
    """

    def __new__(cls, pattern: str, /) -> Self:
        """Raises ValueError for what is no expression, or takes more than 256 KiB when it is compiled."""

    def matching(self, names: Sequence[str], /) -> list[str]:
        """The names that match, in their order."""

@final
class TopicRules:
    """What a topic asks of the batches that producers send. Immutable; `check` and `open` may run in any thread.

    A batch that is refused raises what says why, with `record_errors` where single records are the reason (of which
    1,000 are named): InvalidRecordError, InvalidTimestampError, BatchTooLargeError, DecompressionLimitError,
    UnsupportedMagicError, UnsupportedCodecError, CorruptRecordError, TruncatedError.
    """

    def __new__(
        cls,
        *,
        max_batch_bytes: int,
        timestamp_limits_ms: tuple[int, int] | None = None,
        keys_required: bool = False,
        stream_records_refused: bool = False,
        codec: int | None = None,
        level: int | None = None,
        opens_compressed: bool = False,
        max_decompressed_bytes: int,
    ) -> Self:
        """`max_batch_bytes` counts for a batch as it came and as it is kept. `timestamp_limits_ms`: how far before and
        after now timestamps may be; without them the broker sets the time. `stream_records_refused`: whether records
        with the header `redis` are refused. `codec` and `level`: what batches are kept
        in, None for the codec they came in. `opens_compressed`: whether the records of every compressed batch are
        looked at. Raises ValueError for a codec or a level that does not exist.
        """

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def check(self, data: Buffer, now_ms: int) -> list[BatchInfo] | None:
        """The one batch that `data` has to be, if it may be written; None says that `open` has to decide.

        As `validate_batches`, and: it begins at offset 0; of a batch that is not compressed every record has a
        timestamp within the limits and, if that is asked for, a key, and a largest timestamp that is not that of the
        records is put right in `data`. Records that are compressed are not looked at.
        """

    def open(self, data: Buffer, now_ms: int) -> tuple[bytearray | None, list[BatchInfo]]:
        """Does all that `check` does with the decompressed records as well: the batch to be kept, None for `data`
        itself, and its header.

        For a thread: it works without the GIL, for some milliseconds a megabyte. In another codec a batch has the same
        records, header and flags.
        """

    def open_bytes_max(self, data: Buffer) -> int:
        """How many bytes `open` takes for `data` at most, beside the tables of the codecs: 65 MiB a thread for zstd."""

def walk_batches(data: Buffer, *, check_crc: bool) -> tuple[list[BatchInfo], int, KernelError | None]:
    """The whole good batches at the start of `data`, the bytes they take, and why there are no more.

    The reason is None when nothing follows or only the beginning of a batch does, as at the end of a fetch. For logs:
    offsets may have gaps inside a batch, control batches are fine. `check_crc` costs a look at every byte.
    """

def assign_offsets(data: Buffer, base_offset: int, leader_epoch: int, log_append_time_ms: int = -1) -> int:
    """Writes consecutive base offsets and the leader epoch into the batches of `data`, in place; returns the next
    offset.

    With `log_append_time_ms` >= 0 it becomes the time of all records, and the CRCs are made anew. `data` must be
    writable and nothing but whole batches; otherwise it is left as it was and an error is raised.
    """

def assign_producer(
    data: Buffer, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
) -> int:
    """Writes the producer and consecutive sequence numbers into the batches of `data`, in place; returns the next
    number.

    For a producer that learns its numbers after it built the batches. The CRCs are made anew; `data` as for
    `assign_offsets`.
    """

def build_batch(
    records: Iterable[tuple[int, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]]]],
    *,
    codec: int = 0,
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    offsets: Sequence[int] | None = None,
) -> bytearray:
    """One batch of records, each `(timestamp_ms, key, value, headers)`; at least one.

    `offsets` gives each record its own offset, increasing and not below `base_offset`; otherwise they are consecutive.
    Levels: gzip 1 to 9, lz4 1 to 17 (accepted for compatibility, there is one way to compress), zstd -131072 to 22; the
    others have none and ignore it. Raises ValueError for what no batch can hold.
    """

def decode_records(
    data: Buffer, *, max_decompressed_bytes: int, start_offset: int = 0, include_control: bool = False
) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """The records of `data` from `start_offset` on, each `(offset, timestamp_ms, key, value, headers)`.

    CRCs are checked; control batches are skipped unless wanted, and so is the part of a batch at the end. All
    compressed batches together may expand to `max_decompressed_bytes`: beyond it, DecompressionLimitError says by
    `position` how far `data` can be decoded first. A header's key that is not UTF-8 comes with U+FFFD in it.
    """

def decode_at(
    data: Buffer, offsets: Sequence[int], *, max_decompressed_bytes: int
) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Of the records of `data` those at `offsets`, which ascend, as `decode_records` gives them.

    Each batch may expand to `max_decompressed_bytes`; those without a wanted record are not opened.
    """

def decode_newest(
    data: Buffer, *, max_decompressed_bytes: int, start_offset: int = 0
) -> tuple[list[tuple[int, bytes, bytes | None]], int]:
    """Of the records of `data` from `start_offset` on the newest of each key, each `(offset, key, value)`, by their
    offsets; and how many records with a key there were.

    What is part of a transaction stays beside the others, as it may come to nothing. Otherwise as `decode_records`.
    """

def nsq_message_frames(
    data: Buffer, runs: Sequence[tuple[int, int, int]], partition: int, *, max_decompressed_bytes: int
) -> tuple[bytes, list[int]]:
    """The message frames of NSQ's protocol of the records of `data` that lie in `runs`, and the offsets of the runs at
    which there is no record.

    A run is first and last offset and the attempts; they are in order. An id is 4 hex digits of the partition and 12 of
    the offset; attempts beyond 65,535 are that. Raises as `decode_records`.
    """

# Entries of streams of Redis.

@final
class StreamAdds:
    """Commands `XADD key * name value ...` of one key, one behind the other. One thread at a time."""

    @property
    def key(self) -> bytes: ...
    @property
    def size_bytes(self) -> int:
        """Of all arguments together."""
    def __len__(self) -> int:
        """How many there are."""
    def commands(self) -> list[list[bytes]]:
        """The commands, each by itself."""
    def assign(
        self,
        last_id: int,
        now_ms: int,
        tail: tuple[int, int, int, Sequence[bytes]] | None,
        bytes_max: int,
        entries_max: int,
    ) -> tuple[bytes, list[tuple[bool, int, int, int, int, list[bytes], dict[int, list[bytes]]]]] | None:
        """Give every entry an id behind `last_id`, and a node: the replies to the commands, and what each node got.

        `tail` is the last node: its first id, its size, entries and the names of the first one. A node is full with
        `entries_max` entries (0 for no limit), or when `bytes_max` would be reached. What a node got: whether it begins
        here, the first and the last id, how many entries, its size as Redis would need it, the names of its first
        entry, and the entries. None, and nothing has happened, where there are not enough ids.
        """

def cut_commands(data: bytes, position: int) -> tuple[list[list[bytes] | StreamAdds], int]:
    """The whole commands from `position` on, as far as they are arrays of up to 255 strings in their one form.

    And where they end.
    """

def build_stream_batch(
    journal: Iterable[tuple[int, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]]] | StreamAdds],
) -> bytearray:
    """One batch of records, as for `build_batch`, and of runs of entries that have been assigned."""

def encode_entries(entries: list[tuple[int, list[bytes]]]) -> bytes:
    """Entries as Redis clients get them, one behind the other: each an array of its id and of its fields."""

def encode_logged_entries(
    data: Buffer,
    start_offset: int,
    intervals: Sequence[tuple[int, int]],
    removed: Sequence[int],
    count_max: int,
) -> tuple[bytes, int, int, bool]:
    """The entries of intervals of ids, which ascend, without those that are removed, out of batches of a stream.

    Returns them as `encode_entries` does; how many they are, `count_max` at most; where the last whole batch ends; and
    whether nothing of the intervals is missing. Raises KernelError.
    """

def parse_entry_ids(texts: list[bytes]) -> list[int] | None:
    """Ids of two numbers, as 128 bits each; None where one has another form, and may be an id all the same."""

def snappy_chunks(data: Buffer, /) -> bytes:
    """The chunks of a snappy stream that mean `data` (google/snappy, framing_format.txt), without its identifier.

    What does not get an eighth smaller stays as it is.
    """

# Compaction of logs.

@final
class DirtyKeys:
    """The newest offset of each key of the dirty part of a log: the first pass of compaction. One thread at a time."""

    def __new__(
        cls,
        *,
        start_offset: int,
        keys_max: int,
        memory_bytes: int,
        secret: Buffer,
        aborted: Sequence[tuple[int, int]],
        max_decompressed_bytes: int,
    ) -> Self:
        """For the records from `start_offset` on, which have `keys_max` keys at most.

        The table takes 32 bytes a key, `memory_bytes` at most; it stops when it is full. `secret` (16 bytes, by chance)
        keeps anybody from making up keys that look the same. `aborted` are the aborted transactions, each (producer id,
        first offset), whose records count for nothing. One batch may expand to `max_decompressed_bytes`.
        """
    def __len__(self) -> int:
        """How many keys were found."""
    @property
    def latest_offset(self) -> int:
        """Up to where the log was looked at, this offset included; -1 before the first batch."""
    @property
    def memory_bytes(self) -> int:
        """What the table takes."""
    def add(self, data: Buffer) -> tuple[int, bool]:
        """Note the keys of the whole batches at the start of `data`, which follow those of the last call.

        Returns the bytes they take, and whether the table is full: then the batch that follows was looked at up to
        `latest_offset`, and this is the end of the pass. Raises KernelError for damaged batches.
        """

@final
class StreamSnapshots:
    """The newest snapshot in the log of a stream of Redis, by which it is cleaned. One thread at a time."""

    def __new__(cls, *, memory_bytes: int, max_decompressed_bytes: int, begin_offset: int = 0) -> Self:
        """One whose nodes take more than `memory_bytes` is passed over. Records below `begin_offset` are of other
        writers, whatever they look like.
        """
    @property
    def newest(self) -> tuple[int, int] | None:
        """The first offset of the newest that was found as a whole, and the one behind it."""
    def search(self, data: Buffer, end_offset: int) -> int:
        """Look at the whole batches at the start of `data` that end before `end_offset`, which follow those of the last
        call; returns the bytes they take. Raises KernelError for damaged batches.
        """

@final
class Compaction:
    """What stays of a log once it is known which offset of each key is the newest: the second pass. In order, once."""

    def __new__(
        cls,
        rule: DirtyKeys | StreamSnapshots,
        *,
        now_ms: int,
        delete_retention_ms: int,
        end_offset: int,
        last_batches: Mapping[int, tuple[int | None, int]],
        aborted: Sequence[tuple[int, int]],
        max_decompressed_bytes: int,
    ) -> Self:
        """`end_offset` is that after the last batch of the pass; this batch stays, emptied if need be.

        `last_batches` has for the id of each live producer the last offset of its newest data, or None when it has only
        a marker, and its epoch: that batch stays as well. Tombstones and markers stay for `delete_retention_ms` after
        they were first cleaned (KIP-534). `aborted` as for `DirtyKeys`, for the whole log.
        """
    @property
    def records_read(self) -> int: ...
    @property
    def records_kept(self) -> int: ...
    @property
    def aborted_kept(self) -> list[int]:
        """The places in `aborted` of the transactions of which something is left."""
    def begin_segment(self, base_offset: int, index_interval_bytes: int) -> None:
        """What `clean` gives from now on becomes one segment."""
    def clean(self, data: Buffer) -> tuple[int, bytes]:
        """The bytes of the whole batches at the start of `data`, and what stays of them. Raises KernelError."""
    def end_segment(self) -> tuple[bytes, bytes, tuple[int, int]]:
        """The segment's offset index and time index, its largest timestamp and the last offset of that one's batch."""

# Record batches as Arrow tables, through the PyCapsule interface
# (https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).

@final
class ArrowRecords:
    """A struct array of decoded records, which any Arrow library takes without a copy:
    `pyarrow.record_batch(records)`.
    """

    def __len__(self) -> int:
        """How many records there are."""
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_schema__(self) -> object: ...

@type_check_only
class _ArrowArrayExportable(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def decode_arrow(
    data: Buffer,
    *,
    max_decompressed_bytes: int,
    start_offset: int,
    end_offset: int,
    topic: str,
    partition: int,
    include_headers: bool,
) -> ArrowRecords:
    """The records of `data` with `start_offset <= offset < end_offset`, in the columns of Spark's Kafka source.

    key binary, value binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC], timestampType
    int32 (0 the producer's, 1 the broker's) and, if asked for, headers list<element: struct<key: string, value:
    binary>>, null when a record has none; every field is nullable. Otherwise as `decode_records`. A column cannot
    hold more than 2 GB, which is a DecompressionLimitError too. Timestamps beyond what microseconds can say are the
    largest or smallest that they can.
    """

def encode_arrow(
    array: _ArrowArrayExportable,
    *,
    partition_count: int,
    now_ms: int,
    codec: int = 0,
    level: int | None = None,
    max_batch_bytes: int = 1_000_000,
    unkeyed_start: int = 0,
) -> list[tuple[int, bytearray, int]]:
    """The rows of a record batch or struct array as batches, each `(partition, batch, record_count)`.

    Columns: value, and as wanted key (both binary or string of any width), headers (list of struct<key, value>),
    partition (int32), timestamp (any unit, or int64 milliseconds; `now_ms` where it is null). A row goes to its
    partition; without one, to that of its key by murmur2, as the Java client does; without a key, to `unkeyed_start`
    until a batch is full, then to the next partition and so on, so callers pass a number that moves on. Rows of one
    partition keep their order. A batch is closed before it exceeds `max_batch_bytes` uncompressed; a larger record
    has a batch of its own. Batches are as from a producer without idempotence, see `assign_producer`. Raises
    TypeError for columns, ValueError for cells.
    """

# Transaction indexes.

def aborted_between(index: Buffer, start_offset: int, end_offset: int, /) -> tuple[list[tuple[int, int]], bool]:
    """The aborted transactions in the bytes of a transaction index that have records from `start_offset` up to
    `end_offset`, each (producer id, first offset), and whether none in later indexes can have any.
    """

# What waits in a delay topic.

@final
class DelayIndex:
    """What waits in a partition of a delay topic: gathered in memory, and in runs of bucket files.

    A record is due at its header `ottla-deliver-at` (milliseconds since the epoch), else at its timestamp and
    `ottla-delay` (milliseconds), else at its timestamp and the default delay: that of the last pair of
    `default_delays`, (first offset, milliseconds), not beyond its offset. What is no such time, or more than ten years
    after the timestamp, is due at once, at -2**63. A record with `ottla-cancel` cancels what waits with its key and has
    a place before it: its offset, or what its header `ottla-scheduled` says.

    `moved_due`, `moved_offset` and `moved_end` say what was moved before: of the records below `moved_end` those due
    by then, and of those due at that very time the ones up to the offset. `seed` is that of the hashes of keys, which
    files have too. One thread at a time; all but `add` of little does without the GIL.
    """

    def __new__(
        cls,
        *,
        default_delays: list[tuple[int, int]],
        seed: tuple[int, int],
        moved_due: int,
        moved_offset: int,
        moved_end: int,
    ) -> Self: ...
    def __len__(self) -> int:
        """Records that wait, of which some may be cancelled."""
    @property
    def bytes(self) -> int:
        """About the memory of it all."""
    @property
    def gathered_bytes(self) -> int:
        """What is gathered in memory, and what of it has been moved since the last `settle`."""
    @property
    def live_bytes(self) -> int:
        """What is gathered in memory and waits."""
    @property
    def late_bytes(self) -> int:
        """What was added since the last `pop` and is due before what that has moved."""
    @property
    def cancel_count(self) -> int: ...
    def cancels_since(self, offset: int) -> int:
        """How many of the cancellations lie at an offset or behind it."""
    @property
    def failed_run(self) -> int | None:
        """The run that could not be read when `pop` raised OSError."""
    def add(self, data: Buffer, start_offset: int, passed_over: list[int], max_decompressed_bytes: int) -> None:
        """Take the records of `data` from an offset on, which follow those of the last call.

        Batches that begin at an offset of `passed_over` are left out. Raises KernelError for damaged batches; each may
        expand to `max_decompressed_bytes`.
        """
    def next_due(self) -> int | None:
        """When the next record is due; None when none waits."""
    def pop(
        self, now_ms: int, moved_due: int, moved_offset: int, *, records_max: int, bytes_max: int, log_start: int
    ) -> list[
        tuple[int, int, int, builtins.bytes | None, builtins.bytes | None, list[tuple[str, builtins.bytes | None]], int]
    ]:
        """Due time, offset, timestamp, key, value, headers and place of records that are due, in this order.

        All of those up to `moved_due` and `moved_offset` are among them, however many there are; the others end at
        `records_max` or `bytes_max`. Records below `log_start` are let go. Raises OSError.
        """
    def oldest(self) -> int | None:
        """The first offset of what waits, or one before it that was moved lately; None when nothing waits."""
    def cancels_from(self, start: int) -> int:
        """At or before `start`, from where on cancellations are needed by who reads the log from `start` on: they may
        lie before what they cancel.
        """
    def read_from(self, start: int) -> int:
        """At or before `start`, from where on the log has to be read so that `cancels_from` is there. What lies before
        that is not read again.
        """
    def settle(self, safe_offset: int) -> None:
        """Let go of what is gathered and was moved or cancelled; and of cancellations below `safe_offset`, if that is
        all that waits.
        """
    def flush(self, number: int, path: str, end: int) -> list[Path]:
        """Write what is gathered, of the records below `end`, to a file, as the run `number`; the paths that were
        written. Raises OSError: nothing has changed then.
        """
    def open_run(self, number: int, paths: Sequence[str | Path], end: int) -> None:
        """Read a run that follows the others in the log. Raises OSError."""
    def merge(self, numbers: list[int], name: str, cancels_from: int) -> BucketMerge:
        """Begin to write runs that follow one another as one, which has those cancellations that were read from
        `cancels_from` on. The files are called `name` and a number. Raises OSError.
        """
    def replace(self, numbers: list[int], number: int, paths: Sequence[str | Path], cancels_from: int) -> None:
        """Have the run `number`, a merge of others, in their place. Cancellations before `cancels_from` are forgotten.

        Raises OSError: nothing has changed then.
        """
    def left(self, number: int) -> list[Path] | None:
        """The files of a run that have something left, or cancellations that may concern what waits in earlier runs."""
    def left_size(self, number: int) -> tuple[int, int] | None:
        """How many `left` has, and the bytes of those that have something left."""

@final
class BucketMerge:
    """Several runs of bucket files that become one. One thread at a time, beside those that use the index."""

    def step(self, bytes_max: int) -> bool:
        """Go on, with about so many bytes; True when all is written. Raises OSError."""
    @property
    def is_unreadable(self) -> bool:
        """Whether `step` failed because of what it reads, not of what it writes."""
    @property
    def paths(self) -> list[Path]:
        """The files that are complete."""

# The log I/O thread.

@final
class LogIo:
    """The thread that writes the logs of one data directory, off the event loop and without the GIL.

        handle = io.create("/data/t-0/00000000000000000000.log")
        io.append(handle, 0, batch, token, io.WRITTEN | io.SYNC)
        io.submit()
        # when io.fileno() is readable:
        for token, stage, errno in io.completions(): ...

    What is waiting when the thread looks is one group: neighbours in a file go out in one `pwritev`, reported as
    WRITTEN; then each file that any append of the group wants durable is synced once, reported as SYNC, after the
    directory that names it if that is new. Completions of one file come in the order of submission, and files are
    synced in the order of their handles. A file that nobody syncs is handed to the disk every
    `early_write_back_bytes`, so that little dirty memory gathers.

    The first operation that fails ends the work: it and everything after it completes with its errno, and nothing is
    tried again, because after a failed sync nobody knows what is on disk. Calls do not block, except `close`.
    """

    FAILURE: int
    WRITTEN: int
    SYNC: int
    CLOSED: int

    def __new__(cls, *, open_files_max: int = 1024, early_write_back_bytes: int = 8 << 20) -> LogIo: ...
    def fileno(self) -> int:
        """A descriptor that is readable when there are completions."""

    def create(self, path: str, preallocate_bytes: int = 0) -> int:
        """A handle for a file, which is created when it is missing; what it holds stays. Handles only grow.

        `preallocate_bytes` reserves room, where the file system can, without changing the file's size.
        """

    def append(self, handle: int, position: int, data: Buffer, token: object | None, flags: int) -> None:
        """Write `data` at `position`; `flags`: WRITTEN and SYNC, or 0, say what is wanted and completes with `token`.

        `data` is held, and must stay as it is, until its first completion. Without a token nothing is reported.
        """

    def sync(self, handle: int, token: object | None = None) -> None:
        """Make what was appended to a file before durable; completes as SYNC."""

    def close_handle(self, handle: int, token: object | None = None) -> None:
        """Forget a file once everything before is done; completes as CLOSED. The handle is not to be used again."""

    def resume(self, token: object | None = None) -> None:
        """After a failure: try again what is submitted from the completion on, which comes as CLOSED without errno.

        What was submitted before, or together with this, still fails. Handles stay as they are.
        """

    def submit(self, inline_bytes_max: int = 0) -> bool:
        """Give everything asked for since the last call to the thread, as one group or a part of one.

        With `inline_bytes_max`, `submit_here` is tried first; True when that did it.
        """

    def submit_here(self, bytes_max: int) -> bool:
        """Carry out a group that only writes, to open files and at most `bytes_max` bytes, while the thread is idle.

        When it was done the result is True and `completions` has its outcome, without the descriptor becoming readable;
        otherwise nothing happened. After a write that took more than a millisecond the next 1,000 groups are refused.
        """

    def write_here(self, handle: int, position: int, data: bytes, bytes_max: int) -> bool:
        """Write at once, under the conditions of `submit_here` and while nothing else has been asked for.

        True when all of it is in the file; nobody is told of it. Otherwise it is to be appended in the ordinary way,
        which fails as this did, if this did.
        """

    def completions(self) -> list[tuple[object | None, int, int]]:
        """What was completed since the last call: token, stage, errno (0: done).

        The first failure is also told as `(None, FAILURE, errno)`, whoever waits for it.
        """

    def close(self) -> None:
        """Submit, do everything that is queued, and end the thread. BLOCKING. Completions can still be fetched."""

    @property
    def failure(self) -> tuple[str, Path, int] | None:
        """The first failure since the thread began or resumed: what was tried, on which file, errno."""
    @property
    def queued_bytes(self) -> int:
        """Bytes appended and not yet written."""
    @property
    def written_bytes(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def inline_groups(self) -> int:
        """Groups that were carried out by `submit`."""
    @property
    def write_calls(self) -> int: ...
    @property
    def sync_calls(self) -> int: ...
    def trace(self) -> list[tuple[str, tuple[list[int], list[int], int]]]:
        """Histograms of all groups since the thread began: name, upper bounds of all buckets but the last, counts,
        sum of the values. Times are in microseconds; `ottla.storage.log_io_trace` says what each is of.
        """

# From the disk to the page cache.

def read_ahead(fd: int, position: int, size: int, /) -> None:
    """Have the system read these bytes of a file, up to its end. BLOCKING, and needs no GIL.

    When a `LogIo` of this process has synced a file within the last second, 256 KiB are under way at a time, for a sync
    stands behind all that the disk was asked for before; they are waited for, of each 128 KiB for the end; and nothing
    is asked for while a sync is under way that began less than a millisecond ago. Else all is asked for at once. Does
    nothing where the system cannot be asked (posix_fadvise(2)). Raises OSError.
    """

# Sockets, many at a time.

@final
class SocketPoll:
    """Which sockets are ready; receives from all of them with one call, and sends to many with one. Linux (epoll(7)).

        poll.watch(sock.fileno(), connection, poll.READABLE | poll.RECEIVE)
        # when poll.fileno() is readable:
        received, ready, lost = poll.receive(buffer, 0, 16384)
        for connection, begin, end in received: ...  # buffer[begin:end] is what arrived
        for connection, events in ready: ...
        for connection, errno in lost: ...

    It decides nothing: a socket that was not received from although it is readable is in `ready`, and whoever reads
    it finds out why. No call waits. For the thread of one event loop.
    """

    READABLE: int = 1
    WRITABLE: int = 2
    RECEIVE: int = 4

    def __new__(cls) -> Self:
        """Raises OSError (ENOSYS) where the system has no epoll."""

    def fileno(self) -> int:
        """A descriptor that is readable when `receive` would find something."""

    def watch(self, fd: int, owner: object, events: int) -> None:
        """Watch a socket for these events and no others: READABLE, WRITABLE, or 0, which comes before it is closed.

        With READABLE and RECEIVE it is received from in `receive`. `owner` is held until then, and is what is
        returned for the socket. To change nothing but RECEIVE takes no system call. Raises OSError.
        """

    def receive(
        self, buffer: Buffer | None, position: int, share: int
    ) -> tuple[list[tuple[Any, int, int]], list[tuple[Any, int]], list[tuple[Any, int]]]:
        """What has arrived, and who has to be looked at.

        Up to `share` bytes of each socket that wants it go into `buffer`, from `position` on, one after the other, as
        long as there is room for a whole share: owner, begin and end of each. Then the owners of other sockets that are
        ready, and for what: also those there was no room for, and those whose peer has finished. Then the owners of
        those that could not be received from, and why, which the system says once.
        """

    @staticmethod
    def send(sockets: Sequence[int], outputs: Sequence[list[Any]]) -> list[tuple[int, int]]:
        """Send to each socket, with one system call, the pieces of its output; who did not take all of them: its place
        in the list, and how many bytes it took.

        Pieces are bytes; nothing is sent of an output that has others, or more than 512. Why a socket took less
        (it is full, or broken) is for whoever sends to it next to find out.
        """

    def close(self) -> None:
        """Let go of all sockets and the descriptor."""

# Kafka messages. `ottla.protocol` is the way to use these.

@final
class MessageCodec:
    """One message in one version. May be used from many threads."""

    def __new__(cls, name: str, flexible: bool, root: _StructDescription, elements_max: int = ...) -> Self:
        """`name` is what errors call the message; one whose arrays have more than `elements_max` elements together
        (4 Mi unless told) is not decoded. Raises TypeError for a class without the slots that `root` names.
        """

    @property
    def flexible(self) -> bool: ...
    def decode(self, data: Buffer, offset: int = 0) -> Any:
        """The message that fills `data` from `offset` to the end. Its records are memoryviews of `data`."""

    def encode(self, message: object) -> bytes: ...
    def encode_frame(self, message: object, header: bytes) -> bytes:
        """The length of what follows as an int32, `header`, the message."""

    def encode_frame_parts(self, message: object, header: bytes) -> list[object]:
        """The same in parts. The `slices` of records that have them, and large records, stand between the bytes."""

@type_check_only
class _FieldDescription(Protocol):
    """One field of a struct in one version."""

    @property
    def name(self) -> str: ...
    @property
    def type_name(self) -> str: ...
    @property
    def struct_plan(self) -> _StructDescription | None: ...
    @property
    def is_array(self) -> bool: ...
    @property
    def is_carried(self) -> bool: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def tag(self) -> int | None: ...
    @property
    def ignorable(self) -> bool: ...
    @property
    def inflexible(self) -> bool: ...
    @property
    def default(self) -> object: ...

@type_check_only
class _StructDescription(Protocol):
    """A class with slots and its fields in the order of the wire."""

    @property
    def struct_class(self) -> type: ...
    @property
    def fields(self) -> Sequence[_FieldDescription]: ...

@final
class RequestHeader:
    """What a request says before its message, which starts at `body_offset` of the frame. Immutable."""

    @property
    def api_key(self) -> int: ...
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def body_offset(self) -> int: ...

@final
class RequestHeaderDecoder:
    """Reads request headers."""

    def __new__(cls, flexible_versions: Mapping[int, tuple[int, int]]) -> Self:
        """By API key: the first and the last version whose header has tagged fields."""

    def decode(self, frame: Buffer) -> RequestHeader: ...
    def decode_request(self, frame: Buffer) -> RequestHeader | SingleProduceRequest | SingleFetchRequest:
        """The whole request where that is a plain Produce to one partition or a plain Fetch of one, the header of any
        other.
        """

@final
class SingleFetchRequest:
    """A Fetch request of the versions 4 to 18 of one partition, header included, as many consumers send it.

    One topic, one partition, no session and none wanted, of a consumer that names no rack; an isolation that exists, no
    tagged fields. Anything else, and anything that is no request at all, is for `MessageCodec`. Immutable. What a
    version does not have is -1, as in the message.
    """

    @property
    def api_key(self) -> int:
        """1."""
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def max_wait_ms(self) -> int: ...
    @property
    def min_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def read_committed(self) -> bool:
        """The isolation level."""
    @property
    def topic_name(self) -> str:
        """Empty from version 13 on."""
    @property
    def topic_id(self) -> UUID:
        """All zeros before version 13."""
    @property
    def partition(self) -> int: ...
    @property
    def key(self) -> tuple[str | bytes, int]:
        """The topic by its name or, from version 13 on, the 16 bytes of its id, and the index of the partition."""
    @property
    def current_leader_epoch(self) -> int: ...
    @property
    def fetch_offset(self) -> int: ...
    @property
    def last_fetched_epoch(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def partition_max_bytes(self) -> int:
        """0 where the request says less."""
    def answer(
        self,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records_bytes: int,
        slices: tuple[object, ...],
        /,
    ) -> list[Any]:
        """The response frame, with its length, in parts to be sent one after the other, `slices` among them, which are
        so many bytes of records: without an error, aborted transactions, another replica and throttling.

        Raises MessageError when that is more than a frame can be.
        """

@final
class SingleProduceRequest:
    """A Produce request of the versions 3 to 13 to one partition, header included, as nearly every producer sends it.

    One topic, one partition, acks of -1, 0 or 1, records that begin as a batch of magic 2 does, no transaction, no
    tagged fields, no zstd before version 7 (KIP-110). Anything else, and anything that is no request at all, is for
    `MessageCodec`. Immutable.
    """

    @property
    def api_key(self) -> int:
        """0."""
    @property
    def api_version(self) -> int: ...
    @property
    def correlation_id(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def acks(self) -> int: ...
    @property
    def timeout_ms(self) -> int:
        """0 where the request says less."""
    @property
    def topic_name(self) -> str:
        """Empty from version 13 on."""
    @property
    def topic_id(self) -> UUID:
        """All zeros before version 13."""
    @property
    def partition(self) -> int: ...
    @property
    def key(self) -> tuple[str | bytes, int]:
        """The topic by its name or, from version 13 on, the 16 bytes of its id, and the index of the partition."""
    @property
    def records(self) -> memoryview:
        """A view of the frame, never empty."""
    def answer(self, base_offset: int, log_append_time_ms: int, log_start_offset: int, /) -> bytes:
        """The response frame, with its length, that says that the records were written there, and of no throttling."""

@final
class ProduceRun:
    """Plain Produce requests to one partition that arrived together, to be found, written and answered as one.

        runs, rest = ProduceRun.gather(buffer, received, frame_bytes_max)
        run.check(rules, now_ms)
        data = run.assign(log_end, leader_epoch, -1)
        answers = run.answers(log_end, -1, log_start)

    Requests as `SingleProduceRequest` has them, with acks of 1 or -1, the same for all, the same time-out, and batches
    of up to 4 KiB, which are copied: what they were received into stays as it came. Not for concurrent use.
    """

    FIRST_VERSION: int = 3
    LAST_VERSION: int = 13

    @staticmethod
    def gather(
        buffer: Buffer, received: list[tuple[Any, int, int]], frame_bytes_max: int
    ) -> tuple[list[ProduceRun], list[tuple[Any, int, int]]]:
        """The runs of two requests and more, and what belongs to none. `received` says whose bytes lie where in
        `buffer`; what is taken is one whole request, its length of at most `frame_bytes_max` included.
        """

    @staticmethod
    def leading(buffer: Buffer, begin: int, end: int, frame_bytes_max: int, count_max: int) -> ProduceRun | None:
        """The run of two requests and more, at most `count_max`, with which the bytes from `begin` to `end` begin."""

    @staticmethod
    def whole(buffer: Buffer, begin: int, end: int, frame_bytes_max: int, count_max: int) -> ProduceRun | None:
        """The run that the bytes from `begin` to `end` are, all of them: one request or more, at most `count_max`."""

    def __len__(self) -> int: ...
    @property
    def key(self) -> tuple[str | bytes, int]:
        """As `SingleProduceRequest.key`."""
    @property
    def acks(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def owners(self) -> list[Any]:
        """Whose each request is; None for those of `leading`."""
    @property
    def arrivals(self) -> list[tuple[Any, int, int]]:
        """What was `received` of them."""
    @property
    def end(self) -> int:
        """Where the last request ends in the buffer; 0 when there is none."""
    @property
    def size(self) -> int:
        """Bytes of all batches."""
    @property
    def record_count(self) -> int: ...
    @property
    def max_timestamp(self) -> int:
        """The largest of all batches."""
    @property
    def is_idempotent(self) -> bool:
        """Whether one of them is of a producer with an id."""
    @property
    def batches(self) -> list[BatchInfo]:
        """One for each request, as the check left it; all at position 0."""
    @property
    def refused(self) -> list[tuple[Any, int, int]]:
        """What was received of those that `check` took out."""
    def check(self, rules: TopicRules, now_ms: int) -> bool:
        """Take out the requests that `rules.check` would refuse or have opened. Whether there are none.

        Of those of `leading` and `whole` what follows is taken out as well: `end` says where to go on.
        """
    def assign(self, base_offset: int, leader_epoch: int, log_append_time_ms: int) -> bytes:
        """As `assign_offsets`, for all batches; gives them away, one after the other: `size` is 0 from then on."""
    def enter(
        self,
        base_offset: int,
        log_append_time_ms: int,
        interval_bytes: int,
        progress: IndexProgress,
        recent: RecentBatches,
        /,
    ) -> list[tuple[int, int, int, int]] | None:
        """Tell `progress` and `recent` of the batches, which are written behind the recent ones from `base_offset` on.

        Those that indexes have an entry of: the first after more than `interval_bytes` without one. Of each its last
        offset and position, and the largest timestamp up to it with the last offset of its batch. None for no entries.
        """
    def answers(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> list[bytes]:
        """The response frames of all requests, with their lengths: the first was written at `base_offset`, the others
        behind it.
        """
    def answer(self, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        """`answers`, one behind the other."""
    def request(self, index: int) -> SingleProduceRequest:
        """One of them, without its records: to be answered by itself."""

# A segment that grows.

@final
class IndexProgress:
    """How far the indexes of a segment have got, and when the next entry is due."""

    def __new__(cls, bytes_since_entry: int, max_timestamp: int, max_timestamp_offset: int) -> Self:
        """`bytes_since_entry` is what the log has behind the position of the last entry."""

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The greatest timestamp so far, and the last offset of the batch that has it."""

    def add(self, size: int, last_offset: int, timestamp: int, interval_bytes: int) -> bool:
        """A batch of `size` bytes is appended. Whether indexes get an entry of it, which they do before the first batch
        after more than `interval_bytes` without one.
        """

@final
class RecentBatches:
    """Where the latest batches of a segment lie, one to two thousand of them, so that readers at the tail need no look
    at the disk.

        offsets    [700, 750, 751, 790]
        positions  [0, 16000, 16100, 40000]    and the end, 61000: the batch of 760 lies at 16100
    """

    def __new__(cls, end_position: int) -> Self: ...
    @property
    def end_position(self) -> int:
        """Where the last one ends."""
    def add(self, base_offset: int, size: int) -> None:
        """A batch of `size` bytes was appended."""
    def containing(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the batch that contains `offset`; None when it is older than what is remembered."""
    def position_from(self, offset: int) -> int | None:
        """Where the first batch that starts at or after `offset` lies, or the end; None when that is not remembered."""
    def position_at(self, position: int) -> int | None:
        """Where the last batch begins that begins at or before `position`; None when that is not remembered."""
    def offset_from(self, position: int) -> int | None:
        """The offset of the first batch at or after `position`; None when there is none, or it is not remembered."""

def decode_response_header(frame: Buffer, flexible: bool) -> tuple[int, int]:
    """The correlation id of a response, and where its message starts in the frame."""

# Queues.

@final
class DeliveryHints:
    """What the records of some batches ask of their delivery: those from `start_offset` up to `end_offset`.

    With `keys` a hash of the key of each record that has one, which differs from process to process; with `lanes`
    above 1 the header `ottla-priority`, below that number; with `ttl` the header `ottla-ttl`, milliseconds after the
    timestamp. A header that is no number is passed over. At most `records_max` records are kept, 32 bytes each, and
    `end_offset` is the first that was not looked at. A batch that cannot be opened, or expands to more than
    `max_decompressed_bytes`, asks for nothing. Immutable.
    """

    def __new__(
        cls,
        data: Buffer,
        start_offset: int,
        records_max: int,
        *,
        keys: bool = False,
        lanes: int = 0,
        ttl: bool = False,
        max_decompressed_bytes: int,
    ) -> Self: ...
    def __len__(self) -> int:
        """Records that ask for something."""
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def expired(self, first: int, last: int, now_ms: int) -> list[tuple[int, int]]:
        """Runs of records of first..last whose time to live is over."""

def pick_records(data: Buffer, parts: list[tuple[int, int]], runs: list[tuple[int, int]]) -> bytes:
    """The batches in parts of `data`, of those that have many other records nothing but the records of some runs.

    Parts are start and end of whole batches in a row, runs first and last offset; both ascend. What is picked
    has the offsets, timestamps and producer that it had, in a batch with gaps, as after compaction. Compressed batches
    stay whole, as do those of which more than half is wanted, or whose bytes are not what their CRC says.
    """

@final
class DeliveryLedger:
    """What was delivered to whom, of one group in one partition (KIP-932).

        start_offset                 end_offset
     done   |  A   D2  D1  d   D1  A   |   never delivered

    A record is available (0), acquired (1), acknowledged (2) or archived (4), as in Kafka's share group state. Offsets
    below `start_offset` are done. Whoever gets records has a lease on them until a deadline; the caller keeps the timer
    and calls `end_lease`. Owners are numbers above 0 that the caller gives. `settle` makes a change that is pending
    until `commit` or `roll_back`: its records can neither be delivered nor settled meanwhile.

    Runs are tuples of first and last offset (included), state and delivery count. `deliveries_max` archives what would
    be released after so many deliveries; 0 for no limit. Nothing here blocks; one thread at a time.
    """

    def __new__(cls, start_offset: int, /) -> Self: ...
    @property
    def start_offset(self) -> int:
        """The first offset that is not done."""
    @property
    def end_offset(self) -> int:
        """The first offset that was never delivered."""
    @property
    def acquired_count(self) -> int:
        """Records that somebody holds."""
    @property
    def waiting_count(self) -> int:
        """Released records whose time has not come."""
    @property
    def unfinished_count(self) -> int:
        """Records between start and end that are not done."""
    @property
    def ahead_count(self) -> int:
        """Records that were looked at and never delivered: blocked, or in a lane. They count as unfinished."""
    @property
    def known_to_offset(self) -> int:
        """Up to where it is known what records ask for: `end_offset` unless `learn` has to catch up."""
    @property
    def lease_count(self) -> int:
        """Acquisitions and waits that have not ended."""
    @property
    def change_count(self) -> int:
        """Changes that are neither committed nor rolled back."""
    @property
    def bytes(self) -> int:
        """About the memory of it all."""
    def next_deliverable(self, from_offset: int) -> int:
        """The first offset from there on that can be delivered; `end_offset` when nothing was given back."""
    def acquire(
        self, owner: int, first: int, last: int, records_max: int, deadline_ms: int
    ) -> tuple[int, list[tuple[int, int, int, int]]]:
        """Deliver what can be delivered of first..last; offsets from the end up to `first` are taken not to exist.

        Returns the id of the lease, 0 when there was nothing, and the records.
        """
    def set_order(self, by_key: bool, lanes: int) -> None:
        """How records are delivered from now on.

        By key, none is before those of its key that lie before it are done; later ones are blocked until then. With
        more than one lane, records are delivered by `acquire_lane`. About 130 bytes for each record that is held, was
        given back or was looked at, and has a key or a lane.
        """
    def learn(self, hints: DeliveryHints) -> None:
        """Look at records from `known_to_offset` on that were delivered before, up to the end of the hints."""
    def acquire_in_order(
        self,
        owner: int,
        hints: DeliveryHints,
        first: int,
        last: int,
        *,
        records_max: int,
        new_max: int,
        ahead_max: int,
        deadline_ms: int,
    ) -> tuple[int, list[tuple[int, int, int, int]]]:
        """As `acquire`, of what is first of its key. Nothing while `known_to_offset` is below `end_offset`.

        Records from the end on have to lie in the hints. Up to `new_max` of them are delivered; those that have to wait
        are passed, as long as at most `ahead_max` do in all.
        """
    def look_ahead(self, hints: DeliveryHints, first: int, last: int, ahead_max: int) -> None:
        """Take records of first..last, from the end on, into their lanes, as long as at most `ahead_max` are ahead.

        Offsets from the end up to `first` are taken not to exist. Nothing while `known_to_offset` is below the end.
        """
    def lane_heads(self) -> list[int]:
        """The first record of each lane that can be delivered; -1 where there is none."""
    def acquire_lane(
        self, owner: int, lane: int, first: int, last: int, *, records_max: int, new_max: int, deadline_ms: int
    ) -> tuple[int, list[tuple[int, int, int, int]]]:
        """As `acquire`, of the records of one lane, up to `new_max` of which were never delivered."""
    def give_up(self, first: int, last: int) -> None:
        """Have records of first..last be delivered by `acquire`, whatever lies before them, to be archived at once."""
    def settle(
        self, owner: int, runs: list[tuple[int, int, int]], deliveries_max: int, not_before_ms: int
    ) -> tuple[int, list[tuple[int, int, int, int]]]:
        """Settle runs of first, last and kind: 0 gap, 1 accept, 2 release, 3 reject. All of them or none.

        Released records are not delivered before `not_before_ms`, when that is above 0. Returns the id of the change, 0
        when nothing changes, and what records become. Raises RecordRangeError and RecordNotHeldError.
        """
    def extend(self, owner: int, runs: list[tuple[int, int]], deadline_ms: int) -> int:
        """Give held records a new lease with another deadline, all of them or none. Raises as `settle`."""
    def claim(
        self, owner: int, offsets: list[int], deadline_ms: int, deliveries: int
    ) -> tuple[int, list[tuple[int, int, int, int]]]:
        """Take records over from whoever has them, with so many deliveries more. `offsets` ascend.

        What is done, pending or was never delivered is left out. Returns the new lease and the records.
        """
    def start_after(self, changes: list[int]) -> int:
        """Where the start will be once these changes are committed."""
    def commit(self, change: int) -> int:
        """The change is written. Returns the id of the lease by which released records wait for their time, or 0."""
    def roll_back(self, change: int, deliveries_max: int) -> list[tuple[int, int, int, int]]:
        """The change could not be written. Returns what is released since its lease has ended meanwhile."""
    def end_lease(self, lease: int, deliveries_max: int) -> list[tuple[int, int, int, int]]:
        """Release what a lease still holds, or end the wait. Returns what was released. Late calls do nothing."""
    def release_owner(
        self, owner: int, deliveries_max: int, records_max: int
    ) -> tuple[list[tuple[int, int, int, int]], bool]:
        """Release what an owner holds, a slice at a time. Returns what was released, and whether that was all."""
    def take_ended_leases(self) -> list[int]:
        """The leases, waits included, that have nothing left since this was last called: their timers can be cancelled.

        They are kept until this is called, 8 bytes each.
        """
    def move_start(self, offset: int) -> None:
        """The log begins at an offset: what lies below it is done, whoever holds it."""
    def load(self, runs: list[tuple[int, int, int, int]]) -> None:
        """Take over stored runs, in order, into a new ledger. Raises ValueError for runs that do not fit."""
    def runs(self, from_offset: int, runs_max: int) -> list[tuple[int, int, int, int]]:
        """The state from an offset on, up to so many runs; pending records as they are without the change."""
    def holder(self, offset: int) -> tuple[int, int] | None:
        """Owner and deadline of a held record; 0 and the time of one that waits."""
    def summary(self) -> tuple[int, int, int, int, int]:
        """Counts of the records that are not done, in one pass over them: those that were given back and can be
        delivered now, those that were delivered more than once, and the most deliveries of one; then the first of them,
        -1 for none, and its deliveries.
        """
