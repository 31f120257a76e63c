"""Frames of a 4-byte length, big-endian, and as many bytes, as the Kafka protocol has them.

buffer |........|len|  frame  |len|  frame  |len|  fra           |
"""

from struct import Struct

from ottla.model.errors import InvalidInputError
from ottla.network.frame_reader import MIXED_MAX, FrameReader
from ottla.network.receive_buffer import ReceiveBuffer
from ottla.network.wrong_protocol import describe

LENGTH_BYTES = 4

_unpack_length = Struct(">i").unpack_from


class LengthPrefixReader(FrameReader):
    """Hands out frames without their length; one whose length is negative or above the limit is an error."""

    __slots__ = ()

    def only_frame(self, buffer: ReceiveBuffer, start: int, end: int) -> memoryview | None:
        length = end - start - LENGTH_BYTES
        if not 0 <= length <= self._max_bytes or _unpack_length(buffer.view, start)[0] != length:
            return None
        return buffer.view[start + LENGTH_BYTES : end]

    def next_frame(self) -> memoryview | None:
        buffer = self.buffer
        if buffer is None:
            return None
        start = self._start
        available = self._end - start
        need = self._need
        if not need:
            if available < LENGTH_BYTES:
                return None
            (length,) = _unpack_length(buffer.view, start)
            if not 0 <= length <= self._max_bytes:
                first = bytes(buffer.view[start : self._end][:16])
                raise InvalidInputError(describe(first, length, self._max_bytes, self._limit))
            need = self._need = length + LENGTH_BYTES
        if available < need:
            return None
        self._start = start + need
        self._need = 0
        self._large = need if need > MIXED_MAX else 0
        return buffer.view[start + LENGTH_BYTES : start + need]
