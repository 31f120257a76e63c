"""Access to directories and small files: metadata, checkpoints, markers.

Records do not come this way: the log I/O thread of the kernel writes them. Every method blocks and may be called from
any thread; on the event loop only before it serves, or through `Tasks.in_thread`.
"""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

StrPath = str | os.PathLike[str]

PRIVATE: Final = 0o700
"""The mode of a directory that is its owner's alone: what holds records, and secrets."""
_PIECE_BYTES: Final = 64 << 10


class Disk(Protocol):
    """File system operations, each with what survives a power cut. All raise OSError as the operating system does.

    What is done with `durable=False` may be undone by a power cut: for what is made again, or done again, if it is.
    """

    def read_bytes(self, path: StrPath) -> bytes:
        """The whole content of a small file."""
        ...

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        """Replace a file. After a crash it holds the old content or the new, never a mixture; after the return the
        new content survives a power cut. One writer per path at a time.
        """
        ...

    def list_dir(self, path: StrPath) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def file_sizes(self, path: StrPath) -> dict[str, int]:
        """The names of the files in a directory, without its subdirectories, with their sizes in bytes."""
        ...

    def make_dir(self, path: StrPath, *, durable: bool = True, mode: int = 0o777) -> None:
        """Make a directory and its missing parents; one that exists is left as it is. The umask takes from `mode`,
        which is the directory's, not its parents'.
        """
        ...

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        """Move a file or directory within a file system; a file at `new` is replaced."""
        ...

    def remove(self, path: StrPath) -> None:
        """Remove a file; one that is missing is no error. Not durable until `sync_dir`."""
        ...

    def remove_tree(self, path: StrPath) -> None:
        """Remove a directory and what is in it; one that is missing is no error. Symbolic links are not followed."""
        ...

    def open_read(self, path: StrPath) -> int:
        """A file descriptor for reading; the caller closes it."""
        ...

    def close(self, fd: int) -> None:
        """Close what `open_read` opened."""
        ...

    def pread(self, fd: int, count: int, position: int) -> bytes:
        """Up to `count` bytes from `position`; fewer at the end of the file."""
        ...

    def truncate(self, path: StrPath, size: int) -> None:
        """Cut or extend a file to `size` bytes. Not durable until `sync_file`."""
        ...

    def drop_cache(self, path: StrPath) -> None:
        """Write out what is only in memory of a file and forget it all: the next read comes from the disk, where the
        system can do that.
        """
        ...

    def sync_file(self, path: StrPath) -> None:
        """Make a file's content durable."""
        ...

    def write(self, path: StrPath, data: bytes) -> None:
        """Replace a file's content, at the mercy of a crash: for what can be made again."""
        ...

    def append(self, path: StrPath, data: bytes) -> None:
        """Add to the end of a file, which is made when it is missing. Not durable until `sync_file`."""
        ...

    def lock(self, path: StrPath) -> int:
        """Take an exclusive lock on a file, made when missing, until the returned descriptor is closed or the process
        ends. Raises BlockingIOError when somebody else has it.
        """
        ...

    def sync_dir(self, path: StrPath) -> None:
        """Make the names in a directory durable: creations, renames and removals."""
        ...

    def size(self, path: StrPath) -> int:
        """The size of a file in bytes."""
        ...

    def modified_ms(self, path: StrPath) -> int:
        """When a file was last written to, by the file system's clock, in milliseconds since 1970."""
        ...

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        """Have a file say that it was last written to at this time. Not durable until `sync_file`."""
        ...

    def exists(self, path: StrPath) -> bool:
        """Whether there is a file or directory of that name."""
        ...

    def is_dir(self, path: StrPath) -> bool:
        """Whether there is a directory of that name."""
        ...

    def space(self, path: StrPath) -> tuple[int, int]:
        """The size in bytes of the file system that holds `path`, and how much an ordinary user may still write."""
        ...


class OsDisk:
    """The operating system's file system.

    A start asks it dozens of things for each log: what it asks often is done without a `Path`, which costs more than
    the system call.
    """

    __slots__ = ()

    def read_bytes(self, path: StrPath) -> bytes:
        pieces = []
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while piece := os.read(fd, _PIECE_BYTES):
                pieces.append(piece)
        finally:
            os.close(fd)
        return b"".join(pieces)

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        target = Path(path)
        temporary = target.with_name(target.name + ".tmp")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                _write_all(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        self.sync_dir(target.parent)

    def list_dir(self, path: StrPath) -> list[str]:
        return sorted(os.listdir(path))

    def file_sizes(self, path: StrPath) -> dict[str, int]:
        with os.scandir(path) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False)}

    def make_dir(self, path: StrPath, *, durable: bool = True, mode: int = 0o777) -> None:
        try:
            self._make_one_dir(path, durable=durable, mode=mode)
        except FileNotFoundError:
            directory = Path(path)
            self.make_dir(directory.parent, durable=durable)
            # Once: in /proc a directory that is there answers that nothing can be found in it.
            self._make_one_dir(directory, durable=durable, mode=mode)

    def _make_one_dir(self, path: StrPath, *, durable: bool, mode: int) -> None:
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if not self.is_dir(path):
                raise
        else:
            if durable:
                self.sync_dir(Path(path).parent)

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        source, target = Path(old), Path(new)
        source.replace(target)
        if durable:
            self.sync_dir(target.parent)
            if source.parent != target.parent:
                self.sync_dir(source.parent)

    def remove(self, path: StrPath) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: StrPath) -> None:
        import shutil  # late: it reads four modules for compression, and a start removes nothing

        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def open_read(self, path: StrPath) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, count: int, position: int) -> bytes:
        return os.pread(fd, count, position)

    def truncate(self, path: StrPath, size: int) -> None:
        os.truncate(path, size)

    def drop_cache(self, path: StrPath) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def sync_file(self, path: StrPath) -> None:
        _sync(path, os.O_RDWR)

    def write(self, path: StrPath, data: bytes) -> None:
        # A file that is cut to nothing and written is sent to the disk by ext4 as soon as it is closed (auto_da_alloc),
        # for a tenth of a millisecond each: so only what is too much is cut off.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size > len(data):
                os.ftruncate(fd, len(data))
            _write_all(fd, data)
        finally:
            os.close(fd)

    def append(self, path: StrPath, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)

    def lock(self, path: StrPath) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def sync_dir(self, path: StrPath) -> None:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def size(self, path: StrPath) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: StrPath) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def exists(self, path: StrPath) -> bool:
        return _mode(path) != 0

    def is_dir(self, path: StrPath) -> bool:
        return stat.S_ISDIR(_mode(path))

    def space(self, path: StrPath) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def _sync(path: StrPath, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _mode(path: StrPath) -> int:
    """What kind of file is there, 0 for none; a disk that cannot tell is an error."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
