"""A log I/O thread over a disk that loses power: what was not synced may be gone, in parts, in any order."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.storage.log_io import CLOSED, SYNC, WRITTEN
from ottla.storage.log_io_trace import Reading


@dataclass
class LossyFile:
    """A file as it is on the platters, and what is only in memory."""

    path: str
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    has_durable_name: bool = False


class LossyLogIo:
    """Works like `ottla.native.LogIo`, group by group, for `steps` writes and syncs: then the power fails.

    `crash_image` says what a machine would find afterwards.
    """

    def __init__(self, steps: int) -> None:
        self.failure = None
        self.queued_bytes = 0
        self._steps = steps
        self._operations: list[tuple] = []
        self._files: dict[int, LossyFile] = {}
        self._by_path: dict[str, LossyFile] = {}
        self._completions: list[tuple[object, int, int]] = []
        self._fd = os.eventfd(0, os.EFD_NONBLOCK)

    @property
    def has_power(self) -> bool:
        return self._steps > 0

    def fileno(self) -> int:
        return self._fd

    def create(self, path: str, preallocate_bytes: int = 0) -> int:
        del preallocate_bytes
        handle = len(self._files) + 1
        self._files[handle] = self._by_path.setdefault(path, LossyFile(path))
        return handle

    def append(self, handle: int, position: int, data: bytes, token: object | None, flags: int) -> None:
        self._operations.append(("append", handle, position, bytes(data), token, flags))

    def sync(self, handle: int, token: object | None = None) -> None:
        self._operations.append(("sync", handle, token))

    def close_handle(self, handle: int, token: object | None = None) -> None:
        self._operations.append(("close", handle, token))

    def trace(self) -> list[Reading]:
        return []

    def submit_here(self, bytes_max: int) -> bool:
        return False

    def write_here(self, handle: int, position: int, data: bytes, bytes_max: int) -> bool:
        return False

    def submit(self, inline_bytes_max: int = 0) -> bool:
        operations, self._operations = self._operations, []
        appends = sorted((op for op in operations if op[0] == "append"), key=lambda op: op[1])
        for _, handle, position, data, token, flags in appends:
            if not self._step():
                return False
            self._files[handle].pending.append((position, data))
            self._complete(token if flags & WRITTEN else None, WRITTEN)
        wanted: dict[int, list[object | None]] = {}
        for op in operations:
            if op[0] == "append" and op[5] & SYNC:
                wanted.setdefault(op[1], []).append(op[4])
            elif op[0] == "sync":
                wanted.setdefault(op[1], []).append(op[2])
        for handle in sorted(wanted):
            if not self._step():
                return False
            file = self._files[handle]
            for position, data in file.pending:
                _write(file.durable, position, data)
            file.pending, file.has_durable_name = [], True
            for token in wanted[handle]:
                self._complete(token, SYNC)
        for op in operations:
            if op[0] == "close":
                self._complete(op[2], CLOSED)
        return False

    def completions(self) -> list[tuple[object, int, int]]:
        completions, self._completions = self._completions, []
        if completions:
            os.eventfd_read(self._fd)
        return completions

    def close(self) -> None:
        self.submit()

    def crash_image(self, directory: Path, keeps: Callable[[], bool], cut: Callable[[int], int]) -> None:
        """Put the files that are left into `directory`, by name: `keeps` decides about each write that was not synced,
        `cut` how much of it arrived.
        """
        for file in self._by_path.values():
            content, exists = bytearray(file.durable), file.has_durable_name
            for position, data in file.pending:
                if keeps():
                    _write(content, position, data[: cut(len(data))])
                    exists = True
            if exists or keeps():
                (directory / Path(file.path).name).write_bytes(content)

    def _step(self) -> bool:
        self._steps -= 1
        return self._steps > 0

    def _complete(self, token: object | None, stage: int) -> None:
        if token is not None:
            if not self._completions:
                os.eventfd_write(self._fd, 1)
            self._completions.append((token, stage, 0))


def _write(content: bytearray, position: int, data: bytes) -> None:
    if data and len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data
