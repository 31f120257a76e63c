"""Control records: what coordinators write between the data of producers, each in a batch of its own.

```
key:                          version int16 (0) | type int16
value of ABORT and COMMIT:    version int16 (0) | coordinatorEpoch int32
```

Source: https://kafka.apache.org/documentation/#controlbatch and KIP-98.
"""

import struct
from enum import IntEnum
from typing import Self

from msgspec import Struct

from ottla.native import build_batch
from ottla.native.errors import CorruptRecordError

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VERSION = 0


class ControlRecordType(IntEnum):
    """What a control record says."""

    ABORT = 0
    """The producer's transaction is void: readers of committed data skip it."""
    COMMIT = 1
    """The producer's transaction holds."""
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1
    """A type that came later than this table; readers pass over it."""


def encode_control_key(record_type: ControlRecordType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(_VERSION, record_type)


def decode_control_key(key: bytes | None) -> ControlRecordType:
    """The type that a control record's key says; later versions may be longer.

    Raises CorruptRecordError for a key that is too short or has a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError(f"a control record's key has {_KEY.size} bytes, not {0 if key is None else len(key)}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"a control record's key has the version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


class EndTransactionMarker(Struct, frozen=True):
    """The end of a producer's transaction in one partition."""

    record_type: ControlRecordType
    coordinator_epoch: int

    def __post_init__(self) -> None:
        if self.record_type not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
            raise ValueError(f"{self.record_type.name} does not end a transaction")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """The marker in the key and value of a control record.

        Raises CorruptRecordError for bytes that are no such marker.
        """
        record_type = decode_control_key(key)
        if record_type not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
            raise CorruptRecordError(f"a control record of type {record_type.name} does not end a transaction")
        if value is None or len(value) < _MARKER.size:
            size = 0 if value is None else len(value)
            raise CorruptRecordError(f"the value of a transaction marker has {_MARKER.size} bytes, not {size}")
        version, coordinator_epoch = _MARKER.unpack_from(value)
        if version < 0:
            raise CorruptRecordError(f"a transaction marker has the version {version}")
        return cls(record_type, coordinator_epoch)

    def to_batch(self, *, producer_id: int, producer_epoch: int, timestamp_ms: int) -> bytearray:
        """The control batch that ends the transaction of this producer. Its offset is assigned at the append."""
        key = encode_control_key(self.record_type)
        value = _MARKER.pack(_VERSION, self.coordinator_epoch)
        return build_batch(
            [(timestamp_ms, key, value, [])],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=True,
            is_control=True,
        )
