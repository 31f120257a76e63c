"""Files open for reading: as many as are being read, and some that were read lately."""

import errno
from collections import OrderedDict
from threading import Lock

from ottla.runtime.disk import Disk


class OpenFile:
    """A file descriptor for reading that is closed with its last reference.

    Whoever hands the descriptor on, to a socket say, hands the reference on with it.
    """

    __slots__ = ("_disk", "fd")

    def __init__(self, disk: Disk, path: str) -> None:
        self.fd = -1
        self._disk = disk
        self.fd = disk.open_read(path)

    def __del__(self) -> None:
        if self.fd >= 0:
            self._disk.close(self.fd)

    def pread(self, count: int, position: int) -> bytes:
        """Up to `count` bytes from `position`; fewer at the end of the file."""
        return self._disk.pread(self.fd, count, position)


class OpenFiles:
    """The most recently read files, at most `limit` of them.

    A file that falls out is closed as soon as nobody holds it. When the process may open no more files half of them are
    let go. May be called from any thread.
    """

    __slots__ = ("_disk", "_files", "_limit", "_lock")

    def __init__(self, disk: Disk, limit: int) -> None:
        self._disk = disk
        self._limit = max(1, limit)
        self._lock = Lock()
        self._files: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> OpenFile:
        """The file at `path`, opened when it is not open. Raises OSError."""
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = self._open(path)
                if len(self._files) > self._limit:
                    self._files.popitem(last=False)
            else:
                self._files.move_to_end(path)
            return file

    def _open(self, path: str) -> OpenFile:
        try:
            return OpenFile(self._disk, path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                raise
        for _ in range(len(self._files) // 2 + 1):
            self._files.popitem(last=False)
        return OpenFile(self._disk, path)

    def forget(self, path: str) -> None:
        """Drop a file that is about to be renamed or removed."""
        with self._lock:
            self._files.pop(path, None)
