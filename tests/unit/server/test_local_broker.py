"""A broker that starts waits for a controller to count on it, and not for ever, nor when it is to stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.runtime.clock import SystemClock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server import local_broker
from ottla.server.local_broker import ACTIVE_WITHIN_MS, LocalBroker, _until_active
from ottla.server.open_files import OpenFileShares


async def turns() -> None:
    """Let everybody who can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_it_waits_until_the_controller_counts_on_it_or_its_time_is_up_or_it_is_to_stop():
    tasks = Tasks()
    for end in ("active", "time", "stop", "stopped before"):
        timer, stop = ManualTimer(), asyncio.Event()
        server: Any = SimpleNamespace(is_active=False)
        environment: Any = SimpleNamespace(clock=timer.clock, timer=timer)
        if end == "stopped before":
            stop.set()
        waiting = tasks.spawn(_until_active(server, environment, stop), end)
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


@asynccontextmanager
async def broker_at(directory: Path, metadata: str | None = None) -> AsyncIterator[LocalBroker]:
    """A broker on a free port; with `metadata`, one of several."""
    settings = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = await LocalBroker.start(settings, OpenFileShares.of(1_000), SystemClock(), metadata=metadata)
    try:
        yield broker
    finally:
        await broker.stop()


async def test_the_first_of_several_is_started_again_beside_a_controller_without_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone with its store it sends no heartbeats, so no other controller would ever count on it."""
    shared = f"embedded:{tmp_path / 'first'}"
    async with broker_at(tmp_path / "first", shared), broker_at(tmp_path / "second", shared):
        pass
    async with broker_at(tmp_path / "second", shared):  # the controller
        monkeypatch.setattr(local_broker, "ACTIVE_WITHIN_MS", 10**9)
        async with asyncio.timeout(60), broker_at(tmp_path / "first") as first:
            assert first.server.is_active
