"""Sessions of the embedded store as files: they end with the process that holds them, however it ends.

    metadata.sessions/
      17          when the session of broker epoch 17 was renewed, and how long it lasts without that (two integers)
      17.alive    a pipe that its process holds open to write: the kernel closes it with the process, and wakes those
                  at the other end
      17.wake     a pipe that its process reads: a byte in it says that the store changed

Renewals never reach the disk by force: a session that a power cut ended needs no record of when. Times are those of the
system's monotonic clock, which all processes of a host share.
"""

import errno
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.runtime.disk import PRIVATE

DIRECTORY_NAME: Final = "metadata.sessions"

_RENEWAL: Final = struct.Struct("<qq")
_DRAIN_BYTES: Final = 64 << 10
"""As much as a pipe holds: how many times a process was woken does not matter."""


class OwnSessionFiles:
    """What holds a session of this process. Made in one thread, renewed and closed there too."""

    def __init__(self, directory: Path, broker_epoch: int, timeout_ms: int, now_ms: int) -> None:
        """Raises OSError."""
        self._directory = directory
        self._timeout_ms = timeout_ms
        self.broker_epoch = broker_epoch
        self._fds: list[int] = []
        directory.mkdir(PRIVATE, exist_ok=True)
        try:
            self._renewal_fd = self._keep(os.open(directory / str(broker_epoch), os.O_RDWR | os.O_CREAT, 0o600))
            self.renew(now_ms)
            self._make_pipe("alive")
            self.wake_fd = self._make_pipe("wake")
        except BaseException:
            self.close()
            raise

    def _make_pipe(self, name: str) -> int:
        path = self._directory / f"{self.broker_epoch}.{name}"
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # Open both ways, it neither waits for another end nor ends when one is gone.
        return self._keep(os.open(path, os.O_RDWR | os.O_NONBLOCK))

    def _keep(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def renew(self, now_ms: int) -> None:
        """Let the session last `timeout_ms` from now on."""
        os.pwrite(self._renewal_fd, _RENEWAL.pack(now_ms, self._timeout_ms), 0)

    def drain(self) -> None:
        """Take out what woke this process."""
        with suppress(BlockingIOError):
            os.read(self.wake_fd, _DRAIN_BYTES)

    def close(self) -> None:
        """End it; whoever watches hears of that."""
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)
        remove(self._directory, self.broker_epoch)


class PeerSessionFiles:
    """The other end of another process's session."""

    def __init__(self, directory: Path, broker_epoch: int) -> None:
        """Raises FileNotFoundError when the session has ended and its files are gone, OSError otherwise."""
        self._directory = directory
        self.broker_epoch = broker_epoch
        self.alive_fd = os.open(directory / f"{broker_epoch}.alive", os.O_RDONLY | os.O_NONBLOCK)
        self._wake_fd: int | None = None
        with suppress(OSError):  # ENXIO: nobody reads it, so there is nobody to wake
            self._wake_fd = os.open(directory / f"{broker_epoch}.wake", os.O_WRONLY | os.O_NONBLOCK)

    def has_process(self) -> bool:
        """Whether a process holds the session."""
        try:
            return bool(os.read(self.alive_fd, 1))
        except BlockingIOError:
            return True

    def deadline_ms(self) -> int:
        """Until when it lasts if it is not renewed; 0 when its files are gone."""
        try:
            renewal = (self._directory / str(self.broker_epoch)).read_bytes()
            renewed_ms, timeout_ms = _RENEWAL.unpack(renewal)
        except (FileNotFoundError, struct.error):
            return 0
        return int(renewed_ms + timeout_ms)

    def wake(self) -> None:
        """Tell its process that the store changed; one that is told already, or gone, is passed over."""
        if self._wake_fd is None:
            return
        try:
            os.write(self._wake_fd, b"\0")
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EPIPE):
                raise

    def close(self) -> None:
        """Watch it no more."""
        os.close(self.alive_fd)
        if self._wake_fd is not None:
            os.close(self._wake_fd)


def remove(directory: Path, broker_epoch: int) -> None:
    """Remove the files of a session that has ended."""
    for name in (f"{broker_epoch}.alive", f"{broker_epoch}.wake", str(broker_epoch)):
        (directory / name).unlink(missing_ok=True)


def remove_all_but(directory: Path, broker_epochs: set[int], *, below: int) -> None:
    """Remove what processes that ended before they had registered left behind, of sessions below an epoch.

    Who registers later has a higher epoch, and may be making files that nobody else knows of yet.
    """
    for path in directory.iterdir() if directory.exists() else ():
        epoch, _, _ = path.name.partition(".")
        if epoch.isdecimal() and int(epoch) < below and int(epoch) not in broker_epochs:
            path.unlink(missing_ok=True)
