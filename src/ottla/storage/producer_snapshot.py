"""The producer state of a log at an offset, as a file `<offset>.snapshot` in Kafka's format, version 1.

    version int16 | crc-32c of what follows uint32 | count int32 | entries of 46 bytes:
        producer id int64, epoch int16, last sequence int32, last offset int64, last offset - first offset int32,
        timestamp int64, coordinator epoch int32, first offset of the open transaction int64

Kafka writes one entry for a producer, its last batch. Here a producer has up to five, oldest first: Kafka, reading the
file, ends up with the last of them, and a restart does not forget which batches a producer may send again.
All entries of a producer have the same open transaction and coordinator epoch.
"""

import struct
from collections.abc import Iterable
from struct import Struct
from typing import Final

from ottla.model.errors import InvalidInputError
from ottla.native import crc32c
from ottla.storage.producer_state import NO_OFFSET, NO_SEQUENCE, SEQUENCE_MAX, ProducerBatch, ProducerState

_HEADER: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
_VERSION: Final = 1
_CRC_END: Final = 6


class CorruptSnapshotError(InvalidInputError):
    """A producer snapshot is not whole."""


def encode_snapshot(producers: Iterable[ProducerState]) -> bytes:
    """The content of the file."""
    entries = [_encode_entry(state, batch) for state in producers for batch in state.batches or (None,)]
    content = len(entries).to_bytes(4, "big") + b"".join(entries)
    return _VERSION.to_bytes(2, "big") + crc32c(content).to_bytes(4, "big") + content


def decode_snapshot(data: bytes) -> list[ProducerState]:
    """The producers in a file. Raises CorruptSnapshotError."""
    try:
        version, crc, count = _HEADER.unpack_from(data)
    except struct.error as error:
        raise CorruptSnapshotError(f"a producer snapshot of {len(data)} bytes") from error
    if version != _VERSION:
        raise CorruptSnapshotError(f"producer snapshot version {version} is not known")
    if crc != crc32c(memoryview(data)[_CRC_END:]) or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError("a producer snapshot has the wrong checksum or length")
    states: dict[int, ProducerState] = {}
    for entry in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_offset = entry
        state = states.setdefault(producer_id, ProducerState(producer_id, epoch))
        if last_offset != NO_OFFSET:
            has_sequence = last_sequence != NO_SEQUENCE
            first_sequence = (last_sequence - offset_delta) & SEQUENCE_MAX if has_sequence else NO_SEQUENCE
            batch = ProducerBatch(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
            state.add(epoch, batch)
        state.producer_epoch = epoch
        state.last_timestamp = timestamp
        state.coordinator_epoch = coordinator_epoch
        state.current_txn_first_offset = txn_offset
    return list(states.values())


def _encode_entry(state: ProducerState, batch: ProducerBatch | None) -> bytes:
    if batch is None:
        last_sequence, last_offset, offset_delta, timestamp = NO_SEQUENCE, NO_OFFSET, 0, state.last_timestamp
    else:
        last_sequence, last_offset, timestamp = batch.last_sequence, batch.last_offset, batch.timestamp
        offset_delta = batch.last_offset - batch.first_offset
    return _ENTRY.pack(
        state.producer_id,
        state.producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
        state.coordinator_epoch,
        state.current_txn_first_offset,
    )
