"""The log I/O thread of a simulated process: the order and the completions of the kernel's, on a `HostDisk`.

    submit --> a group: files are opened and written --> WRITTEN --> files are synced --> SYNC --> closed --> CLOSED
                        one operation after the other, with virtual time in between

Operations that are submitted meanwhile form the next group. The first operation that fails stops the work until it is
resumed.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ottla.native import LogIo as NativeLogIo
from ottla.runtime.rng import Rng
from ottla.simulation.whole.disk import HostDisk
from ottla.simulation.whole.event_loop import SimulatedLoop

if TYPE_CHECKING:
    from ottla.storage.log_io_trace import Reading

WRITE_S: Final = (0.000_01, 0.000_5)
"""The duration of the writes of a group, in virtual seconds."""

SYNC_S: Final = (0.000_2, 0.008)
"""The duration of the syncs of a group, in virtual seconds."""

PAUSE_CHANCE: Final = 0.05
"""The probability that other events, such as a crash, happen between two operations of a group."""


class _Operation(Struct):
    """What was asked for."""

    kind: str
    handle: int = 0
    path: str = ""
    position: int = 0
    data: bytes = b""
    token: Any = None
    flags: int = 0


class SimulatedLogIo:
    """Satisfies `ottla.storage.log_io.LogIo`. Belongs to the process that makes it."""

    def __init__(self, loop: SimulatedLoop, disk: HostDisk, rng: Rng) -> None:
        self._loop = loop
        self._disk = disk
        self._rng = rng
        self._asked: list[_Operation] = []
        self._submitted: list[_Operation] = []
        self._done: list[tuple[object | None, int, int]] = []
        self._paths: dict[int, str] = {}
        self._opened: set[int] = set()
        self._named: set[int] = set()  # handles of files whose names are safe
        self._next_handle = 0
        self._is_busy = False
        self._queued_bytes = 0
        self._failure: tuple[str, object, int] | None = None
        self._fd = loop.new_descriptor(self)

    @property
    def is_readable(self) -> bool:
        """Whether there are completions."""
        return bool(self._done)

    is_writable = False

    def fileno(self) -> int:
        """Readable when there are completions."""
        return self._fd

    @property
    def failure(self) -> tuple[str, object, int] | None:
        """The first failure since the beginning, or since it was resumed."""
        return self._failure

    @property
    def _errno(self) -> int:
        return self._failure[2] if self._failure is not None else 0

    @property
    def queued_bytes(self) -> int:
        """Bytes that are not written yet."""
        return self._queued_bytes

    def trace(self) -> "Sequence[Reading]":
        """Does nothing."""
        return []

    def create(self, path: str, preallocate_bytes: int = 0) -> int:
        """A handle for a file."""
        self._next_handle += 1
        self._asked.append(_Operation("create", self._next_handle, path=os.fspath(path)))
        return self._next_handle

    def append(
        self, handle: int, position: int, data: bytes | bytearray | memoryview, token: object | None, flags: int
    ) -> None:
        """Write at a position."""
        piece = bytes(data)
        self._queued_bytes += len(piece)
        self._asked.append(_Operation("append", handle, "", position, piece, token, flags))

    def sync(self, handle: int, token: object | None = None) -> None:
        """Make a file durable."""
        self._asked.append(_Operation("sync", handle, token=token))

    def close_handle(self, handle: int, token: object | None = None) -> None:
        """Forget a handle."""
        self._asked.append(_Operation("close", handle, token=token))

    def resume(self, token: object | None = None) -> None:
        """Try again after a failure."""
        self._asked.append(_Operation("resume", token=token))

    def submit(self, inline_bytes_max: int = 0) -> bool:
        """Hands the queued requests to the thread."""
        if inline_bytes_max and self.submit_here(inline_bytes_max):
            return True
        if self._asked:
            self._submitted += self._asked
            self._asked = []
            self._begin()
        return False

    def submit_here(self, bytes_max: int) -> bool:
        """Write a little at once, if the thread is idle."""
        asked = self._asked
        if not asked or self._is_busy or self._submitted or self._failure is not None:
            return False
        size = 0
        for operation in asked:
            size += len(operation.data)
            if (
                operation.kind != "append"
                or operation.flags & NativeLogIo.SYNC
                or operation.handle not in self._opened
                or size > bytes_max
            ):
                return False
        self._asked = []
        for _ in self._written(asked):
            pass
        return True

    def write_here(self, handle: int, position: int, data: bytes, bytes_max: int) -> bool:
        """Write a little at once without a word, if the thread is idle and nothing was asked for."""
        if self._asked:
            return False
        self._asked = [_Operation("append", handle, "", position, data, None, NativeLogIo.WRITTEN)]
        self._queued_bytes += len(data)
        if self.submit_here(bytes_max):
            return self._failure is None
        self._asked = []
        self._queued_bytes -= len(data)
        return False

    def completions(self) -> list[tuple[object | None, int, int]]:
        """The completions since the last call."""
        done, self._done = self._done, []
        return [each for each in done if each[0] is not None or each[1] == NativeLogIo.FAILURE]

    def close(self) -> None:
        """Completes all queued requests at once."""
        self._submitted += self._asked
        self._asked = []
        while self._submitted:
            group, self._submitted = self._submitted, []
            for _ in self._group(group):
                pass

    # The thread.

    def _begin(self) -> None:
        if not self._is_busy and self._submitted:
            self._is_busy = True
            group, self._submitted = self._submitted, []
            self._go_on(self._group(group))

    def _go_on(self, work: Iterator[float]) -> None:
        pause_s = next(work, None)
        self._loop.changed(self._fd)
        if pause_s is None:
            self._is_busy = False
            self._begin()
        else:
            self._loop.after(pause_s * self._disk.slow, self._go_on, work)

    def _group(self, group: list[_Operation]) -> Iterator[float]:
        """Carry out a group; yields how long to wait before it goes on."""
        yield self._rng.uniform(*WRITE_S)
        for operation in group:
            if operation.kind == "create":
                self._paths[operation.handle] = operation.path
                self._try("open", operation.path, self._open, operation.handle)
        yield from self._written([each for each in group if each.kind == "append"])
        yield from self._synced(group)
        for operation in group:
            if operation.kind == "close":
                self._opened.discard(operation.handle)
                self._done.append((operation.token, NativeLogIo.CLOSED, self._errno))
        for operation in group:
            if operation.kind == "resume":
                self._failure = None
                self._done.append((operation.token, NativeLogIo.CLOSED, 0))

    def _synced(self, group: list[_Operation]) -> Iterator[float]:
        syncs: dict[int, list[object]] = {}
        for operation in group:
            if operation.kind == "sync" or (operation.kind == "append" and operation.flags & NativeLogIo.SYNC):
                syncs.setdefault(operation.handle, []).append(operation.token)
        if not syncs:
            return
        yield self._rng.uniform(*SYNC_S)
        for handle in sorted(syncs):
            if self._rng.random() < PAUSE_CHANCE:
                yield self._rng.uniform(*SYNC_S)
            path = self._paths.get(handle, "")
            self._try("sync", path, self._sync, handle, path)
        for handle in sorted(syncs):
            self._done += [(token, NativeLogIo.SYNC, self._errno) for token in syncs[handle] if token is not None]

    def _written(self, appends: list[_Operation]) -> Iterator[float]:
        for operation in appends:
            if self._rng.random() < PAUSE_CHANCE:
                yield self._rng.uniform(*WRITE_S)
            path = self._paths.get(operation.handle, "")
            self._try("write", path, self._write, operation, path)
            self._queued_bytes -= len(operation.data)
            if operation.flags & NativeLogIo.WRITTEN and operation.token is not None:
                self._done.append((operation.token, NativeLogIo.WRITTEN, self._errno))

    def _open(self, handle: int) -> None:
        path = self._paths[handle]
        self._disk.require_sound(grows=False)
        if not os.path.lexists(path):
            self._disk.require_sound(grows=True)
            self._disk.pwrite(path, b"", 0)
        self._opened.add(handle)

    def _write(self, operation: _Operation, path: str) -> None:
        self._disk.require_sound(grows=True)
        if not os.path.lexists(path):  # the file was removed under the handle: it has no name any more
            return
        self._disk.pwrite(path, operation.data, operation.position)

    def _sync(self, handle: int, path: str) -> None:
        self._disk.require_sound(grows=False)
        self._disk.synced(path)
        if handle not in self._named:
            self._named.add(handle)
            self._disk.name_synced(path)

    def _try(self, what: str, path: str, function: Any, *arguments: Any) -> None:
        if self._failure is not None:
            return
        try:
            function(*arguments)
        except OSError as error:
            number = error.errno or 0
            self._failure = what, path, number
            self._done.append((None, NativeLogIo.FAILURE, number))
