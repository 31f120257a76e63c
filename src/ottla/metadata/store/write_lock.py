"""The one write lock of a SQLite database: who holds it while others wait, said once each time that it takes long.

A process that is stopped in the middle of a write keeps the lock until it goes on or ends: nobody can take it away, so
whoever looks after the host is told which process that is.
"""

import logging
import sqlite3
from pathlib import Path
from typing import Final

from ottla.runtime.clock import Clock

logger = logging.getLogger(__name__)

TOLD_AFTER_MS: Final = 1_000
"""A write takes milliseconds; a disk that is busy may take a hundred times as long."""

_LOCKS: Final = Path("/proc/locks")
_LOCK_BYTE: Final = 120
"""Where writers lock the `-shm` file (https://sqlite.org/walformat.html#the_locking_modes_and_shared_memory_file)."""


def is_held_by_another(error: sqlite3.Error) -> bool:
    """Whether a transaction could not begin because another process has the lock: then nothing was done."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_BUSY


class WriteLock:
    """What one process knows of the lock of a database. BLOCKING, in one thread."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._waits_since_ms: int | None = None
        self._is_told = False

    def held_by_another(self) -> None:
        """Somebody waits for it, or came in vain."""
        now_ms = self._clock.monotonic_ms()
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
        waited_ms = now_ms - self._waits_since_ms
        if waited_ms >= TOLD_AFTER_MS and not self._is_told:
            self._is_told = True
            logger.warning(
                "%s: %s has held the write lock for %d ms: the metadata cannot change, reads and writes go on",
                self._path,
                self.holder(),
                waited_ms,
            )

    def got(self) -> None:
        """Who waited for it wrote."""
        if self._is_told and self._waits_since_ms is not None:
            waited_ms = self._clock.monotonic_ms() - self._waits_since_ms
            logger.warning("%s is writable again, after %d ms", self._path, waited_ms)
        self._waits_since_ms = None
        self._is_told = False

    def holder(self) -> str:
        """The process that has it, as far as the system says so, and what lets it go on."""
        # The file is never opened here: closing it would end the locks that SQLite has on it in this process.
        try:
            inode = Path(f"{self._path}-shm").stat().st_ino
            pid = writer_in(_LOCKS.read_text(), inode)
            if pid is None:
                return "another process"
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return "another process"
        if state in ("T", "t"):
            return f"process {pid}, which is stopped (`kill -CONT {pid}` lets it go on),"
        return f"process {pid}"


def writer_in(locks: str, inode: int) -> int | None:
    """The process that has the write lock of the `-shm` file of this inode, in lines of `/proc/locks`.

    >>> writer_in("1: POSIX  ADVISORY  WRITE 4711 00:2f:99 120 120", 99)
    4711
    """
    for line in locks.splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
            continue
        start, end = fields[6], fields[7]
        if fields[5].rpartition(":")[2] == str(inode) and int(start) <= _LOCK_BYTE and end in ("EOF", str(_LOCK_BYTE)):
            return int(fields[4])
    return None
