"""The constants of the record batch header.

```
 0 baseOffset int64          16 magic int8 (2)          35 maxTimestamp int64
 8 batchLength int32         17 crc uint32              43 producerId int64
12 partitionLeaderEpoch      21 attributes int16        51 producerEpoch int16
   int32                     23 lastOffsetDelta int32   53 baseSequence int32
                             27 baseTimestamp int64     57 recordCount int32    61 records
```

Integers are big-endian; the CRC-32C covers everything from the attributes on.
Source: https://kafka.apache.org/documentation/#recordbatch.
"""

from enum import IntEnum, IntFlag
from typing import Final

MAGIC: Final = 2
"""The message format; Kafka 4 refuses the older 0 and 1."""

LOG_OVERHEAD_BYTES: Final = 12
"""What stands before the bytes that batchLength counts: base offset and batchLength itself."""

HEADER_BYTES: Final = 61
"""The whole header; the smallest batch has nothing else."""

CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
CODEC_MASK: Final = 0x07
"""The bits of the attributes that are the number of the codec."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1


class Attribute(IntFlag):
    """The bits of a batch's attributes above the three of the codec."""

    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40


class TimestampType(IntEnum):
    """Whose clock a record's timestamp is from."""

    CREATE_TIME = 0
    """The producer's."""
    LOG_APPEND_TIME = 1
    """The broker's; the batch's max timestamp is that of every record."""


def next_sequence(sequence: int, count: int) -> int:
    """The sequence number `count` after `sequence`: after 2**31 - 1 they go on from 0."""
    return (sequence + count) & 0x7FFF_FFFF
