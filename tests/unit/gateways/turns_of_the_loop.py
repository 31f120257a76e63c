"""Whether a request lets others get on."""

from __future__ import annotations

import asyncio


class TurnsOfTheLoop:
    """Counts the turns of the event loop that others get."""

    def __init__(self) -> None:
        self.count = 0
        self._over = False

    async def __aenter__(self) -> TurnsOfTheLoop:
        self._counting = asyncio.create_task(self._run())
        await asyncio.sleep(0)
        self.count = 0
        return self

    async def _run(self) -> None:
        while not self._over:
            self.count += 1
            await asyncio.sleep(0)

    async def __aexit__(self, *_error: object) -> None:
        self._over = True
        await self._counting
