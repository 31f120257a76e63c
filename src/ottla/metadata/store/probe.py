"""Whether the metadata store answers: asked when somebody wants to know, with a time limit, and now and then."""

import asyncio
from typing import Final

from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.store.interface import MetadataStore, StoreError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

PROBE_MS: Final = 2_000
"""A store that works answers in milliseconds. A command that asks is to end within a few seconds."""

PROBE_EVERY_MS: Final = 5_000
"""So long the age of an image may be overstated while nobody asks."""

CATCH_UP_MS: Final = 500
"""How long an image may take to reach what the store has: another broker has decided something just now."""


class StoreProbe:
    """Belongs to the event loop. However many ask, the store has one question at a time."""

    def __init__(
        self,
        store: MetadataStore,
        publisher: MetadataPublisher,
        *,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
        timeout_ms: int = PROBE_MS,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._timeout_ms = timeout_ms
        self._asking: asyncio.Task[str | None] | None = None
        self._next: TimerTask | None = None
        self._is_closed = False
        self.current_ms = -1
        """The time at which the image was last known to have all that the store has; -1 before the first answer."""

    def start(self) -> None:
        """Ask now, and then every few seconds."""
        self._tasks.spawn(self._repeat(), "ask whether the metadata store answers")

    def close(self) -> None:
        """Ask no more."""
        self._is_closed = True
        if self._next is not None:
            self._next.cancel()

    async def trouble(self) -> str | None:
        """Why the store cannot be asked; None when it answers."""
        if self._asking is None or self._asking.done():
            self._asking = self._tasks.spawn(self._ask(), "ask whether the metadata store answers")
        done, _ = await asyncio.wait([self._asking], timeout=self._timeout_ms / 1000)
        if not done:
            return f"the metadata store has not answered within {self._timeout_ms / 1000:g} s"
        return self._asking.result() if not self._asking.cancelled() else "this broker stops"

    async def _repeat(self) -> None:
        await self.trouble()
        if not self._is_closed:
            self._next = self._timer.schedule(PROBE_EVERY_MS, self.start)

    async def _ask(self) -> str | None:
        try:
            end_offset = await self._store.probe()
        except StoreError as error:
            return f"the metadata store cannot be used: {error}"
        reached = self._publisher.reached(end_offset)
        await asyncio.wait([reached], timeout=CATCH_UP_MS / 1000)
        if reached.done():
            self.current_ms = self._clock.now_ms()
        reached.cancel()
        return None
