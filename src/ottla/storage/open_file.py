"""Files open for reading: as many as are being read, and some that were read lately."""

import errno
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from ottla.runtime.disk import Disk


class OpenFile:
    """A file descriptor for reading that is closed with its last reference.

    Whoever hands the descriptor on, to a socket say, hands the reference on with it.
    """

    __slots__ = ("__weakref__", "_disk", "_on_closing", "fd")

    def __init__(self, disk: Disk, path: str, on_closing: Callable[[int], None] | None = None) -> None:
        """Raises OSError. `on_closing` is told the descriptor, in any thread, right before it is closed."""
        self.fd = -1
        self._disk = disk
        self._on_closing = on_closing
        self.fd = disk.open_read(path)

    def __del__(self) -> None:
        if self.fd >= 0:
            if self._on_closing is not None:
                self._on_closing(self.fd)
            self._disk.close(self.fd)

    def pread(self, count: int, position: int) -> bytes:
        """Up to `count` bytes from `position`; fewer at the end of the file."""
        return self._disk.pread(self.fd, count, position)


class SegmentGoneError(OSError):
    """A segment was deleted or replaced: another may be in its place by now."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ENOENT, "the segment was deleted or replaced", path)


class Readable(Protocol):
    """What files are opened for: a segment, which is itself and no other whatever its files are called.

    `is_gone` is set before anything happens to its files and stays: who has opened a file and then finds it unset has
    the right one.
    """

    is_gone: bool

    @property
    def log_path(self) -> str:
        """The file of batches."""
        ...


class OpenFiles:
    """The most recently read files, at most `limit` of them, by the segment they belong to.

    A file that falls out is closed as soon as nobody holds it. When `open_max` files are open, those on their way to a
    peer that does not read included, or the process may open no more, half of those kept are let go. May be called
    from any thread; none waits for another that opens a file.
    """

    __slots__ = ("_disk", "_files", "_limit", "_lock", "_open", "_open_max", "_pinned")

    def __init__(self, disk: Disk, limit: int, open_max: int | None = None) -> None:
        self._disk = disk
        self._limit = max(1, limit)
        self._open_max = open_max
        self._open: dict[int, None] = {}  # changed by single operations only: files are closed in any thread
        self._lock = Lock()
        self._files: OrderedDict[Readable, OpenFile] = OrderedDict()
        self._pinned: dict[Readable, OpenFile] = {}

    def __len__(self) -> int:
        return len(self._files)

    @property
    def open_count(self) -> int:
        """Files that are open: those kept, and those that somebody still holds."""
        return len(self._open)

    def get(self, segment: Readable) -> OpenFile:
        """The file of a segment, opened when it is not open.

        Raises SegmentGoneError; OSError, EMFILE when too many are open already.
        """
        with self._lock:
            file = self._files.get(segment)
            if file is not None:
                self._files.move_to_end(segment)
                return file
            file = self._pinned.get(segment)
            if file is not None:
                return file
        file = self._opened(segment.log_path)
        with self._lock:
            if segment.is_gone:
                raise SegmentGoneError(segment.log_path)
            file = self._files.setdefault(segment, file)
            if len(self._files) > self._limit:
                self._files.popitem(last=False)
            return file

    def find(self, segment: Readable) -> OpenFile | None:
        """The file of a segment if it is open."""
        return self._files.get(segment) or self._pinned.get(segment)

    def pin(self, segment: Readable, file: OpenFile) -> None:
        """Keep the file of a segment that is not at its path yet, until `unpin`."""
        with self._lock:
            self._pinned[segment] = file

    def unpin(self, segment: Readable) -> None:
        """The file is at its path."""
        with self._lock:
            self._pinned.pop(segment, None)

    def _opened(self, path: str) -> OpenFile:
        if self._open_max is not None and self.open_count >= self._open_max:
            self._let_go_of_half()
            if self.open_count >= self._open_max:
                raise OSError(
                    errno.EMFILE, f"{self.open_count} files are being read or sent, no more may be open", path
                )
        try:
            return self._counted(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                raise
        self._let_go_of_half()
        return self._counted(path)

    def _counted(self, path: str) -> OpenFile:
        file = OpenFile(self._disk, path, self._on_closing)
        self._open[file.fd] = None
        return file

    def _on_closing(self, fd: int) -> None:
        self._open.pop(fd, None)

    def _let_go_of_half(self) -> None:
        with self._lock:
            for _ in range(min(len(self._files), len(self._files) // 2 + 1)):
                self._files.popitem(last=False)

    def forget(self, segment: Readable) -> None:
        """Drop the file of a segment that is gone."""
        with self._lock:
            self._files.pop(segment, None)
