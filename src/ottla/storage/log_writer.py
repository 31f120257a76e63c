"""The event loop's side of the log I/O thread.

What is asked for in one turn of the loop is submitted once, at its end; completions are handed to their tokens when the
thread's descriptor becomes readable, and then each log that got on is told once.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final, Protocol, cast

from ottla.storage.log_io import Completion, LogIo

_INLINE_BYTES_MAX: Final = 64 * 1024
"""What is written without the thread, when nothing of it is synced: the way there and back costs more than the copy."""


class Progressing(Protocol):
    """Who wants to be told once per round of completions that something moved."""

    def report_progress(self) -> None:
        """Called from the event loop after all completions of the round have been handed out."""
        ...


class LogWriter:
    """Writes the files of one log directory; belongs to the event loop it is attached to.

    Before `attach` nothing is submitted or completed by itself: `submit` and `poll` do it by hand.
    """

    __slots__ = ("_io", "_loop", "_on_failure", "_progressed", "_submit_is_due", "failure")

    def __init__(self, io: LogIo, on_failure: Callable[[OSError], None]) -> None:
        """`on_failure` is called once, from the event loop, when the directory can no longer be written."""
        self._io = io
        self._on_failure = on_failure
        self._loop: asyncio.AbstractEventLoop | None = None
        self._submit_is_due = False
        self._progressed: dict[Progressing, None] = {}
        self.failure: OSError | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted and not yet written: what a broker looks at to slow producers down."""
        return self._io.queued_bytes

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let `loop` drive this writer from now on; called in the thread of the loop."""
        self._loop = loop
        loop.add_reader(self._io.fileno(), self.poll)
        self._schedule()

    def detach(self) -> None:
        """Leave the loop."""
        if self._loop is not None:
            self._loop.remove_reader(self._io.fileno())
            self._loop = None
            self._submit_is_due = False

    def create(self, path: str, preallocate_bytes: int = 0) -> int:
        """A handle for a file that exists or will, with room reserved for it when that is asked for."""
        self._schedule()
        return self._io.create(path, preallocate_bytes)

    def append(
        self, handle: int, position: int, data: bytes | bytearray | memoryview, token: Completion | None, flags: int
    ) -> None:
        """Queue a write; `data` must stay as it is until the first completion."""
        self._io.append(handle, position, data, token, flags)
        if not self._submit_is_due:
            self._schedule()

    def sync(self, handle: int, token: Completion | None = None) -> None:
        """Queue making a file durable."""
        self._io.sync(handle, token)
        self._schedule()

    def close_handle(self, handle: int, token: Completion | None = None) -> None:
        """Queue forgetting a file."""
        self._io.close_handle(handle, token)
        self._schedule()

    def progressed(self, log: Progressing) -> None:
        """Have `log` told at the end of this round of completions."""
        self._progressed[log] = None

    def submit(self) -> None:
        """Give the thread what has been asked for; a little that is only written is done here when it is idle."""
        self._submit_is_due = False
        if self._io.submit(_INLINE_BYTES_MAX):
            self.poll()

    def poll(self) -> None:
        """Hand out what has been completed."""
        failure: OSError | None = None
        for token, stage, errno in self._io.completions():
            if token is None:
                failure = self._fail(errno)
            else:
                cast("Completion", token).completed(stage, errno)
        progressed, self._progressed = self._progressed, {}
        for log in progressed:
            log.report_progress()
        if failure is not None:
            self._on_failure(failure)

    def finish(self) -> None:
        """Do everything that is queued and end the thread; `poll` then hands out the last completions. BLOCKING."""
        self._io.close()

    def _schedule(self) -> None:
        if self._loop is not None and not self._submit_is_due:
            self._submit_is_due = True
            self._loop.call_soon(self.submit)

    def _fail(self, errno: int) -> OSError:
        operation, path, _ = self._io.failure or ("write", "", errno)
        self.failure = OSError(errno, f"{operation} failed: {os.strerror(errno)}", str(path))
        return self.failure
