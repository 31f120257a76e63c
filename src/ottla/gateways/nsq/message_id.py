"""The 16 bytes by which an NSQ client names a message: partition and offset, in hex digits.

```
 0007 00000001e240        partition 7, offset 123456
```
"""

import re
import struct
from typing import Final

ID_BYTES: Final = 16
OFFSET_BITS: Final = 48
PARTITION_MAX: Final = (1 << 16) - 1
OFFSET_MAX: Final = (1 << OFFSET_BITS) - 1
_ID: Final = re.compile(rb"[0-9a-f]{16}")
_FINS: Final = re.compile(rb"(?:FIN [0-9a-f]{16}\n)+")


def leading_finishes(data: bytearray, at: int) -> tuple[tuple[int, ...], int]:
    """The ids of the FINs that stand next, as numbers, and where they end. Only lines as clients write them; what is
    not one is for the caller to read.

    >>> leading_finishes(bytearray(b"FIN 000700000001e240\\nFIN 0000000000000001\\nRDY 1\\n"), 0)
    ((1970324837098048, 1), 42)
    """
    found = _FINS.match(data, at)
    if found is None:
        return (), at
    digits = found[0].translate(None, b"FIN \n").decode()
    return struct.unpack(f">{len(digits) // ID_BYTES}Q", bytes.fromhex(digits)), found.end()


def message_id(partition: int, offset: int) -> bytes:
    """The id of a record.

    >>> message_id(7, 123456)
    b'000700000001e240'
    """
    return b"%04x%012x" % (partition, offset)


def parse_message_id(text: bytes) -> tuple[int, int] | None:
    """Partition and offset; None for 16 bytes that are no id of ours, and so of no message in flight."""
    if not _ID.fullmatch(text):
        return None
    return int(text[:4], 16), int(text[4:], 16)
