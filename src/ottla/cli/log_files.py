"""What lies in the files of a data directory, row by row, as plain values. Nothing is changed.

A row is a dictionary whose `kind` says what it is: `batch`, `record`, `control`, `damage`, `offset`, `time`,
`aborted_transaction`, `producer`, `checkpoint`, `property`.
"""

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any

from ottla.cli.coordinator_text import describe_coordinator_record
from ottla.model.errors import InvalidInputError
from ottla.native import BatchInfo, crc32c, decode_records, walk_batches
from ottla.records.compression import CompressionType
from ottla.records.control import decode_control_key
from ottla.storage.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_log_directory_name,
    parse_offset_file_name,
)
from ottla.storage.offset_checkpoint import parse_checkpoint
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.storage.time_index import TimeIndex

Row = dict[str, Any]

_WINDOW_BYTES = 4 * 1024 * 1024
_DECOMPRESSED_BYTES_MAX = 1 << 30
_ABORTED_TRANSACTION = Struct(">hqqqq")
_CRC_AT = 17
_CRC_FROM = 21
_ATTRIBUTES_LOW_AT = 22
_CONTROL_BIT = 0x20

_OFFSET_CHECKPOINTS = frozenset({RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_CHECKPOINT})


def is_log_file(path: Path) -> bool:
    """Whether `rows` can show this file, by its name."""
    return _reader(path) is not None


def rows(path: Path, *, records: bool) -> Iterator[Row]:
    """The rows of one file; with `records` a log's records too. Raises OSError, InvalidInputError."""
    reader = _reader(path)
    if reader is None:
        raise InvalidInputError(f"{path}: the name is not that of a file of a data directory")
    try:
        yield from reader(path, records)
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"the file does not have the format that its name implies: {error}") from error


def _reader(path: Path) -> Callable[[Path, bool], Iterator[Row]] | None:
    parsed = parse_offset_file_name(path.name.removesuffix(".deleted"))
    if parsed is not None:
        return _BY_SUFFIX.get(parsed[1])
    if path.name in _OFFSET_CHECKPOINTS:
        return _offset_checkpoint
    return {
        LEADER_EPOCH_CHECKPOINT: _epoch_checkpoint,
        META_PROPERTIES: _properties,
        PARTITION_METADATA: _properties,
    }.get(path.name)


def _base_offset(path: Path) -> int:
    parsed = parse_offset_file_name(path.name.removesuffix(".deleted"))
    assert parsed is not None
    return parsed[0]


# --- segments -------------------------------------------------------------------------------------------------------


def _log(path: Path, records: bool) -> Iterator[Row]:
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        try:
            yield from _batches(view, _internal_topic(path) if records else None, records)
        finally:
            view.release()


def _batches(view: memoryview, internal_topic: str | None, records: bool) -> Iterator[Row]:
    position = 0
    window = _WINDOW_BYTES
    while position < len(view):
        with view[position : position + window] as part:
            batches, consumed, error = walk_batches(part, check_crc=True)
            for batch in batches:
                yield _batch(batch, position)
                if records:
                    with part[batch.position : batch.position + batch.size] as content:
                        yield from _records(content, batch, internal_topic)
            whole_rest = position + window >= len(view)
        position += consumed
        if (error is not None or (not batches and whole_rest)) and _is_blank(view, position):
            return  # reserved: Apache Kafka gives an active segment its full size where `preallocate` asks for that
        if error is not None or (not batches and whole_rest):
            reason = "the file ends in the middle of a batch"
            if error is not None:
                # Its place in parentheses is within the window; the row has that within the file.
                reason = str(error).partition(" (batch ")[0]
            yield {"kind": "damage", "position": position, "bytes_left": len(view) - position, "reason": reason}
            return
        window = _WINDOW_BYTES if batches else window * 2


def _is_blank(view: memoryview, position: int) -> bool:
    """Whether only zeros follow."""
    while position < len(view):
        with view[position : position + _WINDOW_BYTES] as part:
            if bytes(part).count(0) != len(part):
                return False
        position += _WINDOW_BYTES
    return True


def _batch(batch: BatchInfo, file_position: int) -> Row:
    try:
        codec = CompressionType(batch.codec).setting
    except ValueError:
        codec = str(batch.codec)
    return {
        "kind": "batch",
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "position": file_position + batch.position,
        "size": batch.size,
        "codec": codec,
        "leader_epoch": batch.leader_epoch,
        "timestamp_type": "LogAppendTime" if batch.log_append_time else "CreateTime",
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "crc": batch.crc,
    }


def _records(content: memoryview, batch: BatchInfo, internal_topic: str | None) -> Iterator[Row]:
    if batch.is_control:
        for offset, timestamp, key, _, _ in decode_records(_as_data(content), max_decompressed_bytes=len(content)):
            yield {
                "kind": "control",
                "offset": offset,
                "timestamp": timestamp,
                "type": decode_control_key(key).name.lower(),
            }
        return
    for offset, timestamp, key, value, headers in decode_records(
        content, max_decompressed_bytes=_DECOMPRESSED_BYTES_MAX
    ):
        row: Row = {
            "kind": "record",
            "offset": offset,
            "timestamp": timestamp,
            "key": key,
            "value": value,
            "headers": headers,
        }
        if internal_topic is not None:
            row |= describe_coordinator_record(internal_topic, key, value)
        yield row


def _as_data(content: memoryview) -> bytearray:
    """A copy of a control batch that decodes as one of data."""
    copy = bytearray(content)
    copy[_ATTRIBUTES_LOW_AT] &= ~_CONTROL_BIT & 0xFF
    copy[_CRC_AT:_CRC_FROM] = crc32c(memoryview(copy)[_CRC_FROM:]).to_bytes(4, "big")
    return copy


def _internal_topic(path: Path) -> str | None:
    topic_partition = parse_log_directory_name(path.absolute().parent.name)
    return topic_partition.topic if topic_partition is not None else None


# --- indexes and producer state -------------------------------------------------------------------------------------


def _offset_index(path: Path, records: bool) -> Iterator[Row]:
    del records
    base_offset = _base_offset(path)
    index = OffsetIndex(base_offset, _whole_entries(path, OffsetIndex.ENTRY_BYTES))
    for number in range(len(index)):
        offset, position = index[number]
        if _is_preallocated(number, offset, base_offset):
            return
        yield {"kind": "offset", "offset": offset, "position": position}


def _time_index(path: Path, records: bool) -> Iterator[Row]:
    del records
    base_offset = _base_offset(path)
    index = TimeIndex(base_offset, _whole_entries(path, TimeIndex.ENTRY_BYTES))
    for number in range(len(index)):
        timestamp, offset = index[number]
        if timestamp == 0 and _is_preallocated(number + 1, offset, base_offset):
            return
        yield {"kind": "time", "timestamp": timestamp, "offset": offset}


def _is_preallocated(number: int, offset: int, base_offset: int) -> bool:
    """Kafka gives the index of an active segment its full size at once; the rest of it is zeros."""
    return number > 0 and offset == base_offset


def _whole_entries(path: Path, entry_bytes: int) -> bytes:
    data = path.read_bytes()
    return data[: len(data) - len(data) % entry_bytes]


def _transaction_index(path: Path, records: bool) -> Iterator[Row]:
    del records
    for _, producer_id, first, last, stable in _ABORTED_TRANSACTION.iter_unpack(
        _whole_entries(path, _ABORTED_TRANSACTION.size)
    ):
        yield {
            "kind": "aborted_transaction",
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": stable,
        }


def _snapshot(path: Path, records: bool) -> Iterator[Row]:
    del records
    for producer in decode_snapshot(path.read_bytes()):
        yield {
            "kind": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": producer.last_offset,
            "last_timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_first_offset": producer.current_txn_first_offset,
        }


# --- text files -----------------------------------------------------------------------------------------------------


def _offset_checkpoint(path: Path, records: bool) -> Iterator[Row]:
    del records
    for topic, partition, offset in parse_checkpoint(path.read_bytes(), 3):
        yield {"kind": "checkpoint", "topic": topic, "partition": int(partition), "offset": int(offset)}


def _epoch_checkpoint(path: Path, records: bool) -> Iterator[Row]:
    del records
    for epoch, offset in parse_checkpoint(path.read_bytes(), 2):
        yield {"kind": "checkpoint", "leader_epoch": int(epoch), "start_offset": int(offset)}


def _properties(path: Path, records: bool) -> Iterator[Row]:
    del records
    for line in path.read_text(encoding="utf-8").splitlines():
        name, found, value = line.partition("=") if "=" in line else line.partition(":")
        if found and not line.startswith("#"):
            yield {"kind": "property", "name": name.strip(), "value": value.strip()}


_BY_SUFFIX: dict[str, Callable[[Path, bool], Iterator[Row]]] = {
    LOG_SUFFIX: _log,
    INDEX_SUFFIX: _offset_index,
    TIME_INDEX_SUFFIX: _time_index,
    TRANSACTION_INDEX_SUFFIX: _transaction_index,
    SNAPSHOT_SUFFIX: _snapshot,
}
