"""Which of several addresses answers first, on the event loop: none that hangs is waited for.

address 1  |------------------------- silent ----->| cancelled
address 2        |-- refused
address 3           |---- answers: this one is used
           0 s   1 s
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from ottla.client.address import Address
from ottla.client.errors import NO_CONNECTION, ClientError
from ottla.runtime.tasks import Tasks


class Closable(Protocol):
    """What is closed when it was made too late."""

    def close(self) -> None:
        """End it."""
        ...


C = TypeVar("C", bound=Closable)


async def first_to_answer(
    addresses: Sequence[Address], connect: Callable[[Address], Awaitable[C]], next_after_ms: int
) -> tuple[C | None, dict[Address, ClientError]]:
    """The connection that is made first, and why others were not; see `ClientIo.connect_first`.

    Raises what `connect` raises beside `NO_CONNECTION`.
    """
    made: list[C] = []
    errors: dict[Address, ClientError] = {}

    async def attempt(address: Address) -> None:
        try:
            made.append(await connect(address))
        except ClientError as error:
            errors[address] = error

    tasks = Tasks("first-to-answer")
    begun = 0
    running: set[asyncio.Task[None]] = set()
    try:
        while not made and (running or begun < len(addresses)):
            if begun < len(addresses):
                running.add(tasks.spawn(attempt(addresses[begun]), "connect"))
                begun += 1
            patience_s = next_after_ms / 1000 if begun < len(addresses) else None
            _, running = await asyncio.wait(running, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            for error in errors.values():
                if not isinstance(error, NO_CONNECTION):
                    raise error
        return (made.pop(0) if made else None), errors
    finally:
        await tasks.close()
        for late in made:
            late.close()
