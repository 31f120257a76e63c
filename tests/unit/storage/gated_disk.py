"""A disk whose operations stop where a test wants to look at, or do, something meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.runtime.disk import OsDisk, StrPath

_PATIENCE_S: Final = 60


@dataclass
class Gate:
    """One kind of operation on one path: the first that comes waits until `release`, others pass."""

    operation: str
    path_part: str
    is_reached: threading.Event = field(default_factory=threading.Event)
    is_open: threading.Event = field(default_factory=threading.Event)

    def wait_until_reached(self) -> None:
        assert self.is_reached.wait(_PATIENCE_S), f"nobody came to {self.operation} {self.path_part}"

    async def reached(self) -> None:
        """Somebody stands at the gate."""
        await asyncio.to_thread(self.wait_until_reached)

    def release(self) -> None:
        self.is_open.set()


class GatedDisk(OsDisk):
    """The operating system's file system, with gates."""

    def __init__(self) -> None:
        self._gates: list[Gate] = []

    @contextmanager
    def held(self, operation: str, path_part: str) -> Iterator[Gate]:
        """Hold the first `operation` on a path that contains `path_part`, until released or the block ends."""
        gate = Gate(operation, path_part)
        self._gates.append(gate)
        try:
            yield gate
        finally:
            gate.release()
            self._gates.remove(gate)

    def open_read(self, path: StrPath) -> int:
        self._pass("open_read", path)
        return super().open_read(path)

    def read_bytes(self, path: StrPath) -> bytes:
        self._pass("read_bytes", path)
        return super().read_bytes(path)

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        self._pass("rename", old)
        super().rename(old, new, durable=durable)

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        self._pass("write_atomic", path)
        super().write_atomic(path, data)

    def truncate(self, path: StrPath, size: int) -> None:
        self._pass("truncate", path)
        super().truncate(path, size)

    def _pass(self, operation: str, path: StrPath) -> None:
        for gate in tuple(self._gates):
            matches = gate.operation == operation and gate.path_part in str(Path(path))
            if matches and not gate.is_reached.is_set():
                gate.is_reached.set()
                assert gate.is_open.wait(_PATIENCE_S), f"nobody released {operation} {path}"
