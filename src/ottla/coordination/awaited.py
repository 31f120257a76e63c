"""Waiting for the answer of a coordinator in a coroutine."""

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.coordination.outcome import Waiter


async def awaited(ask: Callable[[Waiter], object]) -> Any:
    """The answer that a coordinator gives to the waiter; `ask` submits the request with it."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def waiter(answer: Any) -> None:
        if not answered.done():
            answered.set_result(answer)

    ask(waiter)
    return await answered
