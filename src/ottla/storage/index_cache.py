"""The indexes of closed segments that were used lately."""

from collections import OrderedDict
from threading import Lock
from typing import Final, Protocol

from ottla.runtime.disk import Disk
from ottla.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import Readable, SegmentGoneError
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex

INDEX_BYTES_MAX: Final = 32 << 20


class Indexed(Readable, Protocol):
    """A segment with indexes; see `Readable` for what it is known by."""

    base_offset: int

    def path(self, suffix: str) -> str:
        """The segment's file of a kind."""
        ...


_Key = tuple[Indexed, str]
_Index = OffsetIndex | TimeIndex | TransactionIndex


class IndexCache:
    """Indexes by segment and kind, read whole when first needed, the least recently used dropped beyond `bytes_max`.

    May be called from any thread: look-ups by timestamp run off the event loop.
    """

    __slots__ = ("_bytes", "_bytes_max", "_disk", "_indexes", "_lock")

    def __init__(self, disk: Disk, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._disk = disk
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = Lock()
        self._indexes: OrderedDict[_Key, _Index] = OrderedDict()

    def offset_index(self, segment: Indexed, log_size: int) -> OffsetIndex:
        """The sound part of the offset index of a segment of `log_size` bytes. Raises SegmentGoneError, OSError."""
        key = segment, INDEX_SUFFIX
        index = self._find(key)
        if index is None:
            index = OffsetIndex(segment.base_offset, self._disk.read_bytes(segment.path(INDEX_SUFFIX)))
            if not index.looks_sound(log_size):
                index.truncate_to_sound(log_size)
            self._keep(key, index)
        assert isinstance(index, OffsetIndex)
        return index

    def has_offset_index(self, segment: Indexed) -> bool:
        """Whether the offset index of a segment can be had without reading its file."""
        return (segment, INDEX_SUFFIX) in self._indexes

    def time_index(self, segment: Indexed) -> TimeIndex:
        """The sound part of the time index of a segment. Raises SegmentGoneError, OSError."""
        key = segment, TIME_INDEX_SUFFIX
        index = self._find(key)
        if index is None:
            index = TimeIndex(segment.base_offset, self._disk.read_bytes(segment.path(TIME_INDEX_SUFFIX)))
            if not index.looks_sound():
                index.truncate_to_sound()
            self._keep(key, index)
        assert isinstance(index, TimeIndex)
        return index

    def transaction_index(self, segment: Indexed) -> TransactionIndex:
        """The transaction index of a segment that has one. Raises SegmentGoneError, OSError."""
        key = segment, TRANSACTION_INDEX_SUFFIX
        index = self._find(key)
        if index is None:
            index = TransactionIndex(self._disk.read_bytes(segment.path(TRANSACTION_INDEX_SUFFIX)))
            self._keep(key, index)
        assert isinstance(index, TransactionIndex)
        return index

    def transaction_index_at_hand(self, segment: Indexed) -> TransactionIndex | None:
        """The transaction index of a segment if it can be had without reading its file."""
        index = self._find((segment, TRANSACTION_INDEX_SUFFIX))
        assert index is None or isinstance(index, TransactionIndex)
        return index

    def forget(self, segment: Indexed) -> None:
        """Drop the indexes of a segment that is gone."""
        with self._lock:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                index = self._indexes.pop((segment, suffix), None)
                if index is not None:
                    self._bytes -= index.size

    def _find(self, key: _Key) -> _Index | None:
        with self._lock:
            index = self._indexes.get(key)
            if index is not None:
                self._indexes.move_to_end(key)
            return index

    def _keep(self, key: _Key, index: _Index) -> None:
        segment, suffix = key
        with self._lock:
            if segment.is_gone:
                raise SegmentGoneError(segment.path(suffix))
            replaced = self._indexes.pop(key, None)
            self._bytes += index.size - (0 if replaced is None else replaced.size)
            self._indexes[key] = index
            while self._bytes > self._bytes_max and len(self._indexes) > 1:
                _, dropped = self._indexes.popitem(last=False)
                self._bytes -= dropped.size
