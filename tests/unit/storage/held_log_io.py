"""The log I/O thread under the hand of a test."""

import errno
from collections.abc import Callable

from ottla.native import LogIo as NativeLogIo
from ottla.storage.log_io import CLOSED, SYNC, WRITTEN, LogIo
from ottla.storage.log_io_trace import Reading


class HeldLogIo(LogIo):
    """A log I/O thread that gets its work when it is told to `go`, or fails with all of it."""

    def __init__(self) -> None:
        self._thread = NativeLogIo()
        self._held: list[Callable[[], None]] = []
        self._tokens: list[tuple[object | None, int, int]] = []
        self._completed: list[tuple[object | None, int, int]] = []
        self._failure: tuple[str, object, int] | None = None

    def fileno(self) -> int:
        return self._thread.fileno()

    def create(self, path: str, preallocate_bytes: int = 0) -> int:
        return self._thread.create(path, preallocate_bytes)

    def append(
        self, handle: int, position: int, data: bytes | bytearray | memoryview, token: object | None, flags: int
    ) -> None:
        self._hold(lambda: self._thread.append(handle, position, data, token, flags), token, flags & WRITTEN or SYNC)

    def sync(self, handle: int, token: object | None = None) -> None:
        self._hold(lambda: self._thread.sync(handle, token), token, SYNC)

    def close_handle(self, handle: int, token: object | None = None) -> None:
        self._hold(lambda: self._thread.close_handle(handle, token), token, CLOSED)

    def resume(self, token: object | None = None) -> None:
        self._completed.append((token, CLOSED, 0))

    def submit(self, inline_bytes_max: int = 0) -> bool:
        return True

    def submit_here(self, bytes_max: int) -> bool:
        return False

    def write_here(self, handle: int, position: int, data: bytes, bytes_max: int) -> bool:
        return False

    def completions(self) -> list[tuple[object | None, int, int]]:
        completed, self._completed = self._completed, []
        return completed + self._thread.completions()

    def close(self) -> None:
        self.go()
        self._thread.close()

    def trace(self) -> list[Reading]:
        return list(self._thread.trace())

    @property
    def failure(self) -> tuple[str, object, int] | None:
        return self._failure

    @property
    def queued_bytes(self) -> int:
        return self._thread.queued_bytes

    def go(self) -> None:
        """Give the thread what was asked for."""
        held, self._held, self._tokens = self._held, [], []
        for operation in held:
            operation()
        self._thread.submit()

    def fill_disk(self) -> None:
        """There is no room for anything that was asked for."""
        tokens, self._held, self._tokens = self._tokens, [], []
        self._failure = ("write", "/data", errno.ENOSPC)
        self._completed += [(None, 0, errno.ENOSPC), *((token, stage, errno.ENOSPC) for token, stage, _ in tokens)]

    def _hold(self, operation: Callable[[], None], token: object | None, stage: int) -> None:
        self._held.append(operation)
        if token is not None:
            self._tokens.append((token, stage, 0))
