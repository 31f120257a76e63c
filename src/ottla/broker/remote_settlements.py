"""What readers at this broker said of what they hold of another one, on its way there: FIN, REQ and TOUCH of NSQ.

    settle, settle, leave --> one request        what gathers until it is answered, or for a moment, is the next

The leader does in their order what it is asked. It answers a Settle when all of it is stored; a write that takes long
holds up no other reader.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from ottla.broker import share_read_messages as messages
from ottla.broker.share_read_messages import Leave, Message, Settle, Settlement, Store
from ottla.client.errors import error_code
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

if TYPE_CHECKING:
    from ottla.runtime.tasks import Tasks

PATIENCE_S: Final = 0.05
"""An answer is waited for so long before the next request, times the requests that are not answered."""

T = TypeVar("T")


class Ask(Protocol):
    """Asks the leader. Raises ApiError."""

    def __call__(self, message: Message, decode: Callable[[bytes], T], /) -> Coroutine[Any, Any, T]: ...


class RemoteSettlements:
    """To one leader. Belongs to the event loop."""

    def __init__(self, ask: Ask, incarnation: int, tasks: Tasks) -> None:
        self._ask = ask
        self._incarnation = incarnation
        self._tasks = tasks
        self._is_telling = False
        self._waiting: list[tuple[Settlement, asyncio.Future[ErrorCode]]] = []
        self._gone: list[tuple[int, str]] = []
        self._closed: list[tuple[int, asyncio.Future[None]]] = []
        self._asked: set[asyncio.Task[None]] = set()

    def settle(self, settlement: Settlement) -> asyncio.Future[ErrorCode]:
        """Tell it what a reader said; decided when it is stored there."""
        decided: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._waiting.append((settlement, decided))
        self._begin_telling()
        return decided

    async def store(self, number: int) -> None:
        """Have it not wait for more of what was settled of a share partition."""
        self._waiting = [
            (replace(settlement, linger_ms=0) if settlement.number == number else settlement, decided)
            for settlement, decided in self._waiting
        ]
        with contextlib.suppress(ApiError):
            await self._ask(Store(self._incarnation, [number]), bytes)

    def leave(self, number: int, reader: str) -> None:
        """A reader is gone."""
        self._gone.append((number, reader))
        self._begin_telling()

    def close(self, number: int) -> asyncio.Future[None]:
        """Nobody reads a share partition any more; done when the leader knows, or cannot be told."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed.append((number, told))
        self._begin_telling()
        return told

    def _begin_telling(self) -> None:
        if not self._is_telling:
            self._is_telling = True
            self._tasks.spawn(self._tell(), "share-settle")

    async def _tell(self) -> None:
        """What readers said before they went comes first."""
        try:
            while self._waiting or self._gone or self._closed:
                asked = self._tasks.spawn(self._next_request(), "share-settle")
                self._asked.add(asked)
                asked.add_done_callback(self._asked.discard)
                await asyncio.wait((asked,), timeout=PATIENCE_S * len(self._asked))
        finally:
            self._is_telling = False

    async def _next_request(self) -> None:
        # Taken as late as this: `store` may come before its first turn.
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            await self._settle(waiting)
            return
        gone, self._gone = self._gone, []
        closed, self._closed = self._closed, []
        with contextlib.suppress(ApiError):  # it is gone itself, and forgets readers that do not watch
            await self._ask(Leave(self._incarnation, gone, [number for number, _ in closed]), bytes)
        for _, told in closed:
            if not told.done():
                told.set_result(None)

    async def _settle(self, waiting: Sequence[tuple[Settlement, asyncio.Future[ErrorCode]]]) -> None:
        settlements = [settlement for settlement, _ in waiting]
        try:
            told = await self._ask(Settle(self._incarnation, settlements), messages.decode_codes)
        except ApiError as error:
            codes = [error.code] * len(waiting)
        else:
            unknown = [ErrorCode.UNKNOWN_SERVER_ERROR] * (len(waiting) - len(told))
            codes = [*map(error_code, told[: len(waiting)]), *unknown]
        for (_, decided), code in zip(waiting, codes, strict=True):
            if not decided.done():
                decided.set_result(code)
