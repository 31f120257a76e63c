"""A broker that starts waits for a controller to count on it, and not for ever, nor when it is to stop."""

import asyncio
from types import SimpleNamespace
from typing import Any

from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.local_broker import ACTIVE_WITHIN_MS, _until_active


async def turns() -> None:
    """Let everybody who can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_waits_until_the_controller_counts_on_it_or_its_time_is_up_or_it_is_to_stop():
    tasks = Tasks()
    for end in ("active", "time", "stop", "stopped before"):
        timer, stop = ManualTimer(), asyncio.Event()
        server: Any = SimpleNamespace(is_active=False)
        doors: Any = SimpleNamespace(clock=timer.clock, timer=timer)
        if end == "stopped before":
            stop.set()
        waiting = tasks.spawn(_until_active(server, doors, stop), end)
        await turns()
        assert waiting.done() == (end == "stopped before")
        if end == "active":
            server.is_active = True
        elif end == "stop":
            stop.set()
        timer.advance(ACTIVE_WITHIN_MS - 1 if end == "time" else 10)
        while not waiting.done():
            await turns()
            timer.advance(1)
        assert (timer.clock.monotonic_ms() >= ACTIVE_WITHIN_MS) == (end == "time")
    await tasks.close()
