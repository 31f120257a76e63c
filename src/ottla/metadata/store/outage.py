"""Whether it is the metadata store that keeps a client waiting, and the error that says so.

    a client's change --> decided in time: the answer
                      --> else: does this broker reach the store, does any other broker?
                              one does: wait on, another broker may decide
                              none does: REQUEST_TIMED_OUT with the reason; the change may still be made

Only changes that clients ask for are limited. What brokers tell each other (ISR, heartbeats, producer ids) waits for
its outcome: an error there would read as 'not decided'.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

T = TypeVar("T")

PATIENCE_MS: Final = 750
"""A store that works decides in milliseconds. So often the brokers are asked."""
OUTAGE_MS: Final = 1_500
"""A client that waited less does not give up: a connection that was lost is made again in the meantime. With a question
that the brokers answer after 2.5 s it waits less than 5 s.
"""
FRESH_MS: Final = 500
"""How long an answer stands for those who ask next: less than `PATIENCE_MS`, so that who waits on asks anew."""


class StoreOutage:
    """Belongs to the event loop. However many ask, there is one question at a time."""

    def __init__(
        self,
        trouble: Callable[[], Awaitable[str | None]],
        *,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
        others_reach: Callable[[], Coroutine[Any, Any, bool]] | None = None,
    ) -> None:
        """`trouble` says why this broker does not reach the store, None when it does; `others_reach` asks whether any
        other broker does, None for a broker that is alone with it.
        """
        self._trouble = trouble
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._asking: asyncio.Task[str | None] | None = None
        self._given_up: str | None = None
        self._given_up_ms = 0
        self._known: str | None = None
        self._known_ms = clock.monotonic_ms() - FRESH_MS
        self.others_reach = others_reach

    async def limit(self, asking: Coroutine[Any, Any, T]) -> T:
        """What `asking` returns or raises. Raises ApiError REQUEST_TIMED_OUT, and cancels it, once it has waited and no
        broker reaches the store; it is not begun where that was found out a moment ago.
        """
        if self._given_up is not None and self._clock.monotonic_ms() - self._given_up_ms < FRESH_MS:
            asking.close()
            raise timed_out(self._given_up)
        deciding = self._tasks.spawn(_caught(asking), "a change for a client")
        watching = self._tasks.spawn(self._seen(), "watch the metadata store for a client")
        try:
            await asyncio.wait((deciding, watching), return_when=asyncio.FIRST_COMPLETED)
            if not deciding.done():
                raise timed_out(watching.result())
            outcome = deciding.result()
            if isinstance(outcome, _Failed):
                raise outcome.error
            return outcome
        finally:
            deciding.cancel()
            watching.cancel()

    async def reason(self) -> str | None:
        """Why no broker reaches the store; None when one does."""
        if self._is_fresh:
            return self._known
        asking = self._asking
        if asking is None or asking.done():
            asking = self._asking = self._tasks.spawn(self._ask(), "ask whether any broker reaches the metadata store")
        return await asyncio.shield(asking)

    async def _seen(self) -> str:
        begun_ms = self._clock.monotonic_ms()
        while True:
            await self._timer.sleep(PATIENCE_MS)
            reason = await self.reason()
            now_ms = self._clock.monotonic_ms()
            if reason is not None and now_ms - begun_ms >= OUTAGE_MS:
                self._given_up, self._given_up_ms = reason, now_ms
                return reason

    async def _ask(self) -> str | None:
        others = None
        if self.others_reach is not None:
            others = self._tasks.spawn(self.others_reach(), "ask the other brokers for the metadata store")
        reason = await self._trouble()
        if reason is not None and others is not None and await others:
            reason = None
        self._known, self._known_ms = reason, self._clock.monotonic_ms()
        return reason

    @property
    def _is_fresh(self) -> bool:
        return self._clock.monotonic_ms() - self._known_ms < FRESH_MS


class _Failed(Struct):
    """What a change ended with: an error of its client, not of the task that waited for it."""

    error: Exception


async def _caught(asking: Coroutine[Any, Any, T]) -> T | _Failed:
    try:
        return await asking
    except Exception as error:
        return _Failed(error)


def timed_out(reason: str) -> ApiError:
    """What a client is told that the store kept waiting."""
    return ApiError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"{reason}; it is not known whether the change was made, and it may still be made when the store answers again",
    )
