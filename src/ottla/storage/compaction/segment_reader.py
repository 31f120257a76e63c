"""The batches of one closed segment, a buffer at a time. BLOCKING."""

from typing import Final

from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import HEADER_BYTES, LENGTH_PREFIX_BYTES, CorruptSegmentError
from ottla.storage.log_segment import LogSegment
from ottla.storage.open_file import OpenFile

BUFFER_BYTES: Final = 4 << 20
"""What is read in one go, and worked on in one call of the kernel: tens of milliseconds."""


class SegmentReader:
    """Reads from the start to the end; for one thread at a time."""

    __slots__ = ("_buffer_bytes", "_file", "_position", "_size", "segment")

    def __init__(self, disk: Disk, segment: LogSegment, buffer_bytes: int = BUFFER_BYTES, position: int = 0) -> None:
        """Opens the file, which stays readable whatever becomes of its name. Raises OSError."""
        self.segment = segment
        self._file = OpenFile(disk, segment.log_path)
        self._size = segment.size
        self._position = position
        self._buffer_bytes = buffer_bytes

    @property
    def is_at_end(self) -> bool:
        """Whether every batch was consumed."""
        return self._position >= self._size

    def read(self) -> bytes:
        """What comes next: at least one whole batch, if there is one. Raises OSError, CorruptSegmentError."""
        left = self._size - self._position
        data = self._file.pread(min(self._buffer_bytes, left), self._position)
        if len(data) >= HEADER_BYTES:
            announced = LENGTH_PREFIX_BYTES + int.from_bytes(data[8:12], "big", signed=True)
            if len(data) < announced <= left:
                data = self._file.pread(announced, self._position)
        return data

    def consumed(self, count: int) -> None:
        """The first `count` bytes of what was read are done with. Raises CorruptSegmentError when there were none."""
        if count == 0:
            raise CorruptSegmentError(f"{self.segment.log_path} holds no whole batch at position {self._position}")
        self._position += count
