"""Gives out producer ids, each once in the life of the cluster."""

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIdAllocator:
    """Takes ids from a block of its own and asks for another when it is used up.

    What is left of a block is lost when the broker stops: ids are never given twice, not even after a crash, because a
    block is durable before its first id leaves. Belongs to the event loop.
    """

    def __init__(self, allocate_block: Callable[[], Awaitable[range]]) -> None:
        self._allocate_block = allocate_block
        self._block = range(0)
        self._allocation = asyncio.Lock()

    async def next(self) -> int:
        """An id nobody has had. Raises what the controller raises when there is no new block."""
        if not self._block:
            async with self._allocation:
                if not self._block:
                    self._block = await self._allocate_block()
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id
