"""An append on its way to the disk."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from ottla.storage.log_segments import LogEnd

OnFree = Callable[[], None]
OnStage = Callable[[int, int], None]


class Appended(Protocol):
    """The log an append belongs to."""

    def advance(self, stage: int, end: LogEnd) -> None:
        """Everything before `end` reached `stage`."""
        ...


class PendingAppend(Struct, eq=False):
    """Moves its log's written and flushed end offsets, then tells whoever appended."""

    log: Appended
    end: LogEnd
    on_free: OnFree | None
    on_stage: OnStage | None

    def completed(self, stage: int, errno: int) -> None:
        """WRITTEN or SYNC is done, or failed."""
        if errno == 0:
            self.log.advance(stage, self.end)
        if self.on_free is not None:
            on_free, self.on_free = self.on_free, None
            on_free()
        if self.on_stage is not None:
            self.on_stage(stage, errno)


class Signal:
    """A token that calls back once, with errno, at whatever stage it is told of first."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[int], None]) -> None:
        self._callback = callback

    def completed(self, stage: int, errno: int) -> None:
        """The operation is done, or failed."""
        del stage
        self._callback(errno)


async def completion(operation: Callable[[Signal], None]) -> int:
    """Start an operation of the log I/O thread with a token, and wait for it; returns errno, 0 when it is done."""
    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def complete(errno: int) -> None:
        if not done.done():
            done.set_result(errno)

    operation(Signal(complete))
    return await done
