"""Frames that go to an NSQ client (nsq.io, TCP protocol spec).

```
[ size int32 ][ type int32 ][ data ]                       size counts type and data
data of a message: [ timestamp ns int64 ][ attempts uint16 ][ id 16 bytes ][ body ]
```
"""

import struct
from typing import Final

RESPONSE: Final = 0
ERROR: Final = 1
MESSAGE: Final = 2

OK: Final = struct.pack(">ii", 6, RESPONSE) + b"OK"
CLOSE_WAIT: Final = struct.pack(">ii", 14, RESPONSE) + b"CLOSE_WAIT"
HEARTBEAT: Final = struct.pack(">ii", 15, RESPONSE) + b"_heartbeat_"

ATTEMPTS_MAX: Final = 0xFFFF
_MESSAGE_HEAD: Final = struct.Struct(">iiqH16s")
_HEAD_BYTES: Final = _MESSAGE_HEAD.size - 4


def response(data: bytes) -> bytes:
    """A frame with a response."""
    return struct.pack(">ii", 4 + len(data), RESPONSE) + data


def error(line: bytes) -> bytes:
    """A frame with an error: code, space and text."""
    return struct.pack(">ii", 4 + len(line), ERROR) + line


def message(message_id: bytes, timestamp_ns: int, attempts: int, body: bytes) -> bytes:
    """A frame with a message; attempts beyond what the field takes stay at its largest value."""
    attempts = min(attempts, ATTEMPTS_MAX)
    return _MESSAGE_HEAD.pack(_HEAD_BYTES + len(body), MESSAGE, timestamp_ns, attempts, message_id) + body
