"""The state of idempotent producers, in .snapshot files beside the segments.

Written by tools/generate_protocol.py from schemas/messages/producer_snapshot.schema.
Change the table, not this file.
"""

from typing import ClassVar

from msgspec import Struct

from ottla.protocol.message import Message


class ProducerEntry(Struct, frozen=True):
    """Stands in `ProducerSnapshot.producer_entries`."""

    producer_id: int = 0  # int64
    epoch: int = 0  # int16
    last_sequence: int = 0  # int32
    last_offset: int = 0  # int64
    offset_delta: int = 0  # int32
    timestamp: int = 0  # int64
    coordinator_epoch: int = 0  # int32
    current_txn_first_offset: int = 0  # int64


class ProducerSnapshot(Message, frozen=True):
    """The data, version 1, never flexible."""

    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 1

    crc: int = 0  # uint32
    producer_entries: tuple[ProducerEntry, ...] = ()
