"""What happens in directories, as it happens: Linux's inotify."""

import ctypes
import os
import select
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MODIFY, MOVED_TO, CREATE = 0x2, 0x80, 0x100
_HEADER = struct.Struct("iIII")


class DirectoryWatch:
    """Tells of files that are made, changed, or renamed to, in some directories."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._fd = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    def __enter__(self) -> "DirectoryWatch":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def add(self, directory: Path, mask: int) -> None:
        """Watch a directory for MODIFY, MOVED_TO or CREATE."""
        if self._library.inotify_add_watch(self._fd, os.fsencode(directory), mask) < 0:
            raise OSError(ctypes.get_errno(), f"inotify_add_watch {directory}")

    def wait(self, wanted: Callable[[str], bool], timeout_s: float) -> bool:
        """Wait until something happens to a file whose name is wanted; False when nothing has."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left_s)[0] and any(map(wanted, self._names())):
                return True
        return False

    def _names(self) -> Iterator[str]:
        data = os.read(self._fd, 65536)
        position = 0
        while position < len(data):
            _, _, _, size = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            yield data[position : position + size].rstrip(b"\0").decode()
            position += size
