"""Pauses of a simulated event loop, whose time is that of the run."""

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.runtime.turns import next_turn


async def pause(call_later: Callable[..., asyncio.TimerHandle], seconds: float) -> None:
    """Go on after a time of the loop whose `call_later` this is."""
    if seconds <= 0:
        await next_turn()
        return
    over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    handle = call_later(seconds, _end, over)
    try:
        await over
    finally:
        handle.cancel()


def _end(over: "asyncio.Future[Any]") -> None:
    if not over.done():
        over.set_result(None)
