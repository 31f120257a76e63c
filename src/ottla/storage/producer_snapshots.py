"""The snapshot files of a log: when one is due, writing it without waiting, and which are not needed any more."""

from collections.abc import Container

from ottla.storage.file_names import SNAPSHOT_SUFFIX, offset_file_name
from ottla.storage.log_writer import LogWriter
from ottla.storage.producer_state_manager import ProducerStateManager


class ProducerSnapshots:
    """The snapshots of one log that are not older than the load; belongs to the event loop."""

    __slots__ = ("_directory", "_offsets", "_writer", "bytes_since")

    def __init__(self, directory: str, writer: LogWriter, newest_offset: int) -> None:
        """`newest_offset` is that of the snapshot there is, -1 for none."""
        self._directory = directory
        self._writer = writer
        self._offsets = [newest_offset]
        self.bytes_since = 0
        """How many bytes of log would have to be replayed."""

    @property
    def newest_offset(self) -> int:
        """The offset of the newest snapshot, -1 when there is none."""
        return self._offsets[-1]

    def path(self, offset: int) -> str:
        """The file of the snapshot at an offset."""
        return f"{self._directory}/{offset_file_name(offset, SNAPSHOT_SUFFIX)}"

    def take(self, offset: int, producers: ProducerStateManager) -> None:
        """Write the producers at `offset` through the log I/O thread; the checksum tells later if it got to disk."""
        if offset == self.newest_offset:
            return
        handle = self._writer.create(self.path(offset))
        self._writer.append(handle, 0, producers.snapshot(), None, 0)
        self._writer.close_handle(handle)
        self._offsets.append(offset)
        self.bytes_since = 0

    def is_kept(self, offset: int) -> bool:
        """Whether the snapshot at an offset is one of the last two."""
        return offset in self._offsets[-2:]

    @property
    def some_may_be_obsolete(self) -> bool:
        """Whether there are more than are kept in any case."""
        return len(self._offsets) > 2

    def take_obsolete(self, segment_bases: Container[int]) -> list[str]:
        """The paths of snapshots nobody needs any more, for the caller to remove.

        Needed are those at the base of a segment, and of the others the last two: the newest may be ahead of what is
        on disk.
        """
        candidates, self._offsets = self._offsets[:-2], self._offsets[-2:]
        unneeded = (offset for offset in candidates if offset >= 0 and offset not in segment_bases)
        return [self.path(offset) for offset in unneeded if offset not in self._offsets]
