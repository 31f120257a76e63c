"""Disks that remember how much of each file was read, and which files were synced."""

from collections import Counter
from pathlib import Path

from ottla.runtime.disk import OsDisk, StrPath


class WatchedDisk(OsDisk):
    """The operating system's file system; `bytes_read` counts by the name of the file."""

    def __init__(self) -> None:
        self.bytes_read: Counter[str] = Counter()
        self._names: dict[int, str] = {}

    def read_bytes(self, path: StrPath) -> bytes:
        data = super().read_bytes(path)
        self.bytes_read[Path(path).name] += len(data)
        return data

    def open_read(self, path: StrPath) -> int:
        fd = super().open_read(path)
        self._names[fd] = Path(path).name
        return fd

    def pread(self, fd: int, count: int, position: int) -> bytes:
        data = super().pread(fd, count, position)
        self.bytes_read[self._names[fd]] += len(data)
        return data


class SyncedFiles(WatchedDisk):
    """Also remembers which files were synced, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []

    def sync_file(self, path: StrPath) -> None:
        super().sync_file(path)
        self.synced.append(Path(path))

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        super().write_atomic(path, data)
        self.synced.append(Path(path))
