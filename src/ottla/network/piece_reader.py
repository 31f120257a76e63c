"""Bytes as they arrive: where a command or a request ends is for the handler to say, which knows the protocol."""

from ottla.network.frame_reader import FrameReader
from ottla.network.receive_buffer import ReceiveBuffer


class PieceReader(FrameReader):
    """Hands out whatever has been received; nothing is kept here."""

    __slots__ = ()

    def only_frame(self, buffer: ReceiveBuffer, start: int, end: int) -> memoryview | None:
        return buffer.view[start:end]

    def next_frame(self) -> memoryview | None:
        buffer, start, end = self.buffer, self._start, self._end
        if buffer is None or start == end:
            return None
        self._start = end
        return buffer.view[start:end]
