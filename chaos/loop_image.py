"""A file system in a file, whose power can be cut: ext4 on a loop device. Needs root on Linux."""

import errno
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
"""EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32), of the kernel's fs/ext4/ext4.h."""
_NO_LOG_FLUSH = struct.pack("I", 2)
"""EXT4_GOING_FLAGS_NOLOGFLUSH: without writing the journal out first."""


class LoopImageError(Exception):
    """This machine cannot mount an image; the message says why."""


def why_not() -> str | None:
    """Why images cannot be mounted here; None when they can."""
    if os.geteuid() != 0:
        return "mounting an image needs root"
    for program in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return None


class LoopImage:
    """An ext4 file system of `size_mb` MB, mounted at `mount_point` between `__enter__` and `__exit__`."""

    def __init__(self, directory: Path, size_mb: int) -> None:
        self.mount_point = directory / "mounted"
        self._image = directory / "image"
        self._size_bytes = size_mb << 20

    def __enter__(self) -> "LoopImage":
        reason = why_not()
        if reason is not None:
            raise LoopImageError(reason)
        self.mount_point.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        self._mount()
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", str(self.mount_point))
        self._image.unlink()

    def fill(self) -> Path:
        """Leave no room; returns the file that takes it, to be removed."""
        ballast = self.mount_point / "ballast"
        fd = os.open(ballast, os.O_RDWR | os.O_CREAT)
        try:
            room = os.fstatvfs(fd)
            size, step = 0, room.f_bavail * room.f_frsize
            while step >= room.f_frsize:
                try:
                    os.posix_fallocate(fd, size, step)
                    size += step
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2
        finally:
            os.close(fd)
        return ballast

    def cut_power(self) -> None:
        """From now on nothing gets to the disk, the journal included, and every call fails with EIO."""
        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def turn_read_only(self) -> None:
        """The file system finds an error in itself: from now on writes fail with EROFS, until it is mounted again."""
        trigger = Path("/sys/fs/ext4") / self._device() / "trigger_fs_error"
        try:
            trigger.write_text("1")
        except OSError as error:
            raise LoopImageError(f"{trigger}: {error.strerror}") from error

    def mount_again(self) -> None:
        """As after a boot: the page cache is forgotten and the journal replayed."""
        _run("umount", str(self.mount_point))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.mount_point))

    def _device(self) -> str:
        """The name of the loop device."""
        device = self.mount_point.stat().st_dev
        return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").readlink().name


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoopImageError(f"{' '.join(command)}: {done.stderr.strip()}")
