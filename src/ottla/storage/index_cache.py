"""The indexes of closed segments that were used lately."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from ottla.runtime.disk import Disk
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex

INDEX_BYTES_MAX: Final = 32 << 20


class IndexCache:
    """Indexes by path, read whole when first needed, the least recently used dropped beyond `bytes_max` bytes.

    May be called from any thread: look-ups by timestamp run off the event loop.
    """

    __slots__ = ("_bytes", "_bytes_max", "_disk", "_indexes", "_lock")

    def __init__(self, disk: Disk, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._disk = disk
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = Lock()
        self._indexes: OrderedDict[str, OffsetIndex | TimeIndex] = OrderedDict()

    def offset_index(self, path: str, base_offset: int, log_size: int) -> OffsetIndex:
        """The offset index in the file `path`, as far as it is sound. Raises OSError."""
        index = self._find(path)
        if index is None:
            index = OffsetIndex(base_offset, self._disk.read_bytes(path))
            if not index.looks_sound(log_size):
                index.truncate_to_sound(log_size)
            self._keep(path, index)
        assert isinstance(index, OffsetIndex)
        return index

    def is_kept(self, path: str) -> bool:
        """Whether an index can be had without reading its file."""
        return path in self._indexes

    def time_index(self, path: str, base_offset: int) -> TimeIndex:
        """The time index in the file `path`, as far as it is sound. Raises OSError."""
        index = self._find(path)
        if index is None:
            index = TimeIndex(base_offset, self._disk.read_bytes(path))
            if not index.looks_sound():
                index.truncate_to_sound()
            self._keep(path, index)
        assert isinstance(index, TimeIndex)
        return index

    def forget(self, path: str) -> None:
        """Drop an index whose file is about to change or go."""
        with self._lock:
            index = self._indexes.pop(path, None)
            if index is not None:
                self._bytes -= index.size

    def _find(self, path: str) -> OffsetIndex | TimeIndex | None:
        with self._lock:
            index = self._indexes.get(path)
            if index is not None:
                self._indexes.move_to_end(path)
            return index

    def _keep(self, path: str, index: OffsetIndex | TimeIndex) -> None:
        with self._lock:
            replaced = self._indexes.pop(path, None)
            self._bytes += index.size - (0 if replaced is None else replaced.size)
            self._indexes[path] = index
            while self._bytes > self._bytes_max and len(self._indexes) > 1:
                _, dropped = self._indexes.popitem(last=False)
                self._bytes -= dropped.size
