"""Cuts a stream of bytes into Kafka's frames: a 4-byte big-endian length, then that many bytes.

```
 scratch (64 KiB, one system call fills it)          a large frame's own buffer
 [len|small frame][len|small frame][len|large fra] -> [large fra·me........... rest is received straight into it]
```

Small frames, of which many may arrive at once, are cut out of the scratch buffer. A frame that does not fit there gets
a buffer of exactly its size, and the rest of it is received directly into that buffer. So its bytes are copied at most
once. This module does no I/O: the caller asks for a buffer and reports how many bytes arrived, on an event loop or in
blocking code.
"""

from ottla.client.errors import ProtocolViolationError

SCRATCH_BYTES = 64 * 1024
_LENGTH_BYTES = 4
_TLS_ALERT = b"\x15\x03"


class FrameReader:
    """The receiving half of one connection. Not for concurrent use.

    >>> reader = FrameReader(max_frame_bytes=100)
    >>> reader.buffer()[:7] = bytes([0, 0, 0, 2]) + b"hi" + bytes([0])
    >>> [bytes(frame) for frame in reader.received(7)]
    [b'hi']
    """

    __slots__ = ("_end", "_frame", "_frame_filled", "_max_frame_bytes", "_scratch", "_scratch_view")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._scratch = bytearray(SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._end = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0

    def buffer(self) -> memoryview:
        """Where to receive the next bytes; never empty. Valid until the next call of `received`."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._scratch_view[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes were put at the start of `buffer()`. The frames that are now complete, without their lengths.

        Each frame has its own memory, so the caller may keep it. Raises ProtocolViolationError for a length that is
        negative or above the limit. After that the stream cannot be read further.
        """
        if self._frame is None:
            self._end += count
            return self._cut()
        self._frame_filled += count
        if self._frame_filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        position = 0
        while self._end - position >= _LENGTH_BYTES:
            size = int.from_bytes(self._scratch_view[position : position + _LENGTH_BYTES], "big", signed=True)
            if not 0 <= size <= self._max_frame_bytes:
                raise ProtocolViolationError(self._no_length(size))
            start = position + _LENGTH_BYTES
            if self._end - start < size:
                if size > SCRATCH_BYTES - _LENGTH_BYTES:
                    self._begin_frame(start, size)
                    return frames
                break
            frames.append(memoryview(bytearray(self._scratch_view[start : start + size])))
            position = start + size
        rest = self._end - position
        if position and rest:
            self._scratch_view[:rest] = bytes(self._scratch_view[position : self._end])
        self._end = rest
        return frames

    def _no_length(self, size: int) -> str:
        first = size.to_bytes(_LENGTH_BYTES, "big", signed=True)
        if first == b"HTTP":
            return "it is HTTP: is it a Kafka listener, and no proxy in between?"
        if first.startswith(_TLS_ALERT):
            return "it is a TLS alert: is its listener one of this security.protocol?"
        return f"a response of {size} bytes, and the limit is {self._max_frame_bytes}: is it a Kafka listener?"

    def _begin_frame(self, start: int, size: int) -> None:
        have = self._end - start
        self._frame = memoryview(bytearray(size))
        self._frame[:have] = self._scratch_view[start : self._end]
        self._frame_filled = have
        self._end = 0
