"""Frames that are lines."""

import re

from ottla.model.errors import InvalidInputError
from ottla.network.frame_reader import MIXED_MAX, FrameReader

CRLF = re.compile(b"\r\n")


class LineReader(FrameReader):
    """Frames that end with CRLF."""

    __slots__ = ("_seen",)

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._seen = 0  # so many bytes of the first frame hold no end of it

    def next_frame(self) -> memoryview | None:
        buffer = self.buffer
        if buffer is None:
            return None
        start = self._start
        end = CRLF.search(buffer.view, start + self._seen, self._end)
        if end is None:
            size = self._end - start
            if size > self._max_bytes:
                raise InvalidInputError(f"a line is longer than {self._max_bytes} bytes")
            self._seen = max(0, size - 1)
            return None
        self._seen = 0
        self._start = end.end()
        self._large = end.end() - start if end.end() - start > MIXED_MAX else 0
        return buffer.view[start : end.start()]
