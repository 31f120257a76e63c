"""A simulated disk: real files in a directory of the host, and what a power cut takes back of them.

    kill            everything that was written is there
    power cut       of what was not synced, a part: the oldest writes of each file, the last of them torn;
                    and of the names that were not synced in their directories the oldest changes

For every file the disk remembers the writes since its last sync with the bytes they overwrote, and for every directory
the changes of its names. Only `SimulatedDisk` and `SimulatedLogIo` write to these files.
"""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from ottla.runtime.disk import OsDisk, StrPath
from ottla.runtime.rng import Rng
from ottla.simulation.whole.clock import BEGIN_MS, HostClock
from ottla.simulation.whole.process import Process

SPACE_BYTES = 1 << 40
"""The size of every disk, of which half is free."""


class _Write:
    """What a write took away: `before` lay at `position`, and the file had `size` bytes."""

    __slots__ = ("after_size", "before", "position", "size")

    def __init__(self, position: int, before: bytes, size: int, after_size: int) -> None:
        self.position = position
        self.before = before
        self.size = size
        self.after_size = after_size


class _Name:
    """A change of names: `path` was made, came from `old`, or is gone; what it had before lies at `kept`."""

    __slots__ = ("kept", "old", "parents", "path")

    def __init__(self, path: str, *, old: str | None = None, kept: str | None = None) -> None:
        self.path = path
        self.old = old
        self.kept = kept
        self.parents = {os.path.dirname(path)} | ({os.path.dirname(old)} if old is not None else set())


class HostDisk:
    """The disk of a host, which outlives its processes."""

    def __init__(self, directory: Path, rng: Rng, clock: HostClock) -> None:
        """`directory` is where its files are; it exists, and so does a sibling for what was removed."""
        self.directory = directory
        self._grave = directory.with_name(directory.name + ".removed")
        self._grave.mkdir()
        self._graves = 0
        self._rng = rng
        self._clock = clock
        self._writes: dict[str, list[_Write]] = {}
        self._names: list[_Name] = []
        self._modified_ms: dict[str, int] = {}
        self.locked: dict[str, int] = {}
        """Who locked which file: the descriptor."""
        self.slow = 1.0
        """How many times longer everything takes."""
        self.is_full = False
        self.is_failing = False
        """Whether writes and syncs fail for good."""

    def require_sound(self, *, grows: bool) -> None:
        """Raise OSError where a write, or a sync, would fail."""
        if self.is_failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if grows and self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # Contents.

    def pwrite(self, path: str, data: bytes | memoryview, position: int) -> None:
        """Write to a file, which is made when it is missing."""
        is_new = not os.path.lexists(path)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if is_new:
                self._names.append(_Name(path))
            size = os.fstat(fd).st_size
            before = os.pread(fd, len(data), position) if position < size else b""
            os.pwrite(fd, data, position)
            self._note(path, _Write(position, before, size, max(size, position + len(data))))
        finally:
            os.close(fd)

    def resize(self, path: str, size: int) -> None:
        """Cut or extend a file."""
        with open(path, "rb+") as file:
            before_size = os.fstat(file.fileno()).st_size
            file.seek(size)
            before = file.read()
            os.ftruncate(file.fileno(), size)
        self._note(path, _Write(size, before, before_size, size))

    def _note(self, path: str, write: _Write) -> None:
        self._writes.setdefault(path, []).append(write)
        self._modified_ms[path] = self._clock.now_ms()

    def synced(self, path: str) -> None:
        """Marks the content of a file as durable."""
        self._writes.pop(path, None)

    def modified_ms(self, path: str) -> int:
        """When a file was last written to."""
        return self._modified_ms.get(path, BEGIN_MS)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Sets the modification time."""
        self._modified_ms[path] = modified_ms

    # Names.

    def made(self, path: str) -> None:
        """A name is new."""
        self._names.append(_Name(path))

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory; a file at the new name is replaced."""
        kept = self._bury(new) if os.path.isfile(new) else None
        os.rename(old, new)
        self._moved(old, new)
        self._names.append(_Name(new, old=old, kept=kept))

    def _moved(self, old: str, new: str) -> None:
        """Whatever is known of a path is known of the other from now on."""
        for known in (self._writes, self._modified_ms):
            inside = [path for path in known if path == old or path.startswith(f"{old}/")]
            for path in inside:
                known[new + path[len(old) :]] = known.pop(path)  # type: ignore[assignment]

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all that is in it."""
        if os.path.lexists(path):
            self._names.append(_Name(path, kept=self._bury(path)))

    def _bury(self, path: str) -> str:
        self._graves += 1
        grave = f"{self._grave}/{self._graves}"
        os.rename(path, grave)
        self._moved(path, grave)
        return grave

    def name_synced(self, path: str) -> None:
        """A name is safe, and that of its directory, with all others beside them."""
        directory = os.path.dirname(path)
        self.names_synced(directory)
        self.names_synced(os.path.dirname(directory))

    def names_synced(self, directory: str) -> None:
        """Marks the names in a directory as durable."""
        kept = []
        for name in self._names:
            if directory in name.parents:
                if name.kept is not None:
                    self._forget(name.kept)
            else:
                kept.append(name)
        self._names = kept

    def _forget(self, grave: str) -> None:
        if os.path.isdir(grave):
            shutil.rmtree(grave)
        else:
            with suppress(FileNotFoundError):
                os.unlink(grave)
        for known in (self._writes, self._modified_ms):
            for path in [path for path in known if path == grave or path.startswith(f"{grave}/")]:
                del known[path]

    # The end of the power.

    def cut_power(self) -> str:
        """Take back what was not synced, or a part of it; what that was, in words."""
        writes = sum(map(len, self._writes.values()))
        names = len(self._names)
        lost = 0
        for path in sorted(self._writes):
            lost += self._take_back(path, self._writes[path])
        self._writes.clear()
        kept_names = self._how_many(names)
        for name in reversed(self._names[kept_names:]):
            self._undo(name)
        self._names.clear()
        return f"{lost} of {writes} writes and {names - kept_names} of {names} changes of names that were not synced"

    def empty(self) -> None:
        """Removes everything."""
        for place in (self.directory, self._grave):
            shutil.rmtree(place)
            place.mkdir()
        self._writes.clear()
        self._names.clear()
        self._modified_ms.clear()

    def _how_many(self, count: int) -> int:
        """How many of so many reached the disk by themselves: often none or all."""
        draw = self._rng.random()
        return 0 if draw < 0.4 else count if draw < 0.6 else self._rng.randbelow(count + 1)

    def _take_back(self, path: str, writes: list[_Write]) -> int:
        kept = self._how_many(len(writes))
        if kept == len(writes) or not os.path.isfile(path):
            return 0
        with open(path, "rb+") as file:
            first = writes[kept]
            torn = b""
            if first.after_size > first.size and self._rng.random() < 0.3:
                file.seek(first.size)
                torn = file.read(self._rng.randbelow(first.after_size - first.size))
            for write in reversed(writes[kept:]):
                os.ftruncate(file.fileno(), write.size)
                file.seek(write.position)
                file.write(write.before)
                file.flush()
            if torn:
                file.seek(first.size)
                file.write(torn)
        return len(writes) - kept

    def _undo(self, name: _Name) -> None:
        if not all(map(os.path.isdir, name.parents)):
            return  # a directory that has another name since, for good: what happened in it has reached the disk too
        if name.old is not None:
            if os.path.lexists(name.path):
                os.rename(name.path, name.old)
        elif name.kept is None and os.path.lexists(name.path):
            if os.path.isdir(name.path):
                shutil.rmtree(name.path)
            else:
                os.unlink(name.path)
        if name.kept is not None and os.path.lexists(name.kept):
            os.rename(name.kept, name.path)


class SimulatedDisk(OsDisk):
    """A process's access to the disk of its host; implements `ottla.runtime.disk.Disk`."""

    __slots__ = ("_disk", "_process")

    def __init__(self, disk: HostDisk, process: Process) -> None:
        self._disk = disk
        self._process = process
        process.on_death.append(disk.locked.clear)

    def _changing(self, *, grows: bool = False) -> HostDisk:
        if self._process.is_dead:
            raise OSError(errno.EIO, "the dead do not write")
        self._disk.require_sound(grows=grows)
        return self._disk

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        """Replace a file: a temporary file is written, synced and renamed."""
        temporary = f"{os.fspath(path)}.tmp"
        self.write(temporary, data)
        self.sync_file(temporary)
        self.rename(temporary, path)

    def make_dir(self, path: StrPath, *, durable: bool = True, mode: int = 0o777) -> None:
        """Make a directory and its parents; one that exists is left as it is."""
        del mode
        disk, name = self._changing(grows=True), os.fspath(path)
        if os.path.isdir(name):
            return
        parent = os.path.dirname(name)
        if not os.path.isdir(parent):
            self.make_dir(parent, durable=durable)
        os.mkdir(name)
        disk.made(name)
        if durable:
            disk.names_synced(parent)

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        """Rename a file or directory. Raises FileNotFoundError."""
        disk, source, target = self._changing(), os.fspath(old), os.fspath(new)
        if not os.path.lexists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        disk.rename(source, target)
        if durable:
            disk.names_synced(os.path.dirname(target))
            disk.names_synced(os.path.dirname(source))

    def remove(self, path: StrPath) -> None:
        """Remove a file; a path without one is left as it is."""
        self._changing().remove(os.fspath(path))

    def remove_tree(self, path: StrPath) -> None:
        """Remove a directory with everything in it; a path without one is left as it is."""
        self._changing().remove(os.fspath(path))

    def truncate(self, path: StrPath, size: int) -> None:
        """Set the size of a file in bytes."""
        self._changing().resize(os.fspath(path), size)

    def drop_cache(self, path: StrPath) -> None:
        """Sync the file; the simulated disk has no cache to drop."""
        self.sync_file(path)

    def sync_file(self, path: StrPath) -> None:
        """What was written to the file survives a power cut. Raises FileNotFoundError."""
        disk, name = self._changing(), os.fspath(path)
        if not os.path.lexists(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        disk.synced(name)

    def write(self, path: StrPath, data: bytes) -> None:
        """Set the content of a file; it is not synced."""
        disk, name = self._changing(grows=True), os.fspath(path)
        disk.pwrite(name, data, 0)
        if os.path.getsize(name) > len(data):
            disk.resize(name, len(data))

    def append(self, path: StrPath, data: bytes) -> None:
        """Add to the end of a file, which is made if necessary; it is not synced."""
        disk, name = self._changing(grows=True), os.fspath(path)
        disk.pwrite(name, data, os.path.getsize(name) if os.path.lexists(name) else 0)

    def lock(self, path: StrPath) -> int:
        """Lock a file until `close` or the end of the process; returns its descriptor. Raises BlockingIOError."""
        disk, name = self._changing(), os.fspath(path)
        if name in disk.locked:
            raise BlockingIOError
        if not os.path.lexists(name):
            disk.pwrite(name, b"", 0)
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        disk.locked[name] = fd
        return fd

    def close(self, fd: int) -> None:
        """Close a descriptor and release its lock."""
        if not self._process.is_dead:
            for name, locked in tuple(self._disk.locked.items()):
                if locked == fd:
                    del self._disk.locked[name]
        os.close(fd)

    def sync_dir(self, path: StrPath) -> None:
        """Names in the directory survive a power cut. Raises FileNotFoundError."""
        disk, name = self._changing(), os.fspath(path)
        if not os.path.isdir(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        disk.names_synced(name)

    def modified_ms(self, path: StrPath) -> int:
        """When the file was last changed, in ms since 1970 of the simulated clock. Raises OSError."""
        os.stat(path)
        return self._disk.modified_ms(os.fspath(path))

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        """Set when the file was last changed, in ms since 1970."""
        self._changing().set_modified_ms(os.fspath(path), modified_ms)

    def space(self, path: StrPath) -> tuple[int, int]:
        """The bytes of the file system, and those that are free."""
        return SPACE_BYTES, 0 if self._disk.is_full else SPACE_BYTES // 2
