"""Gives out producer ids, each once in the life of the cluster.

block in use  |....######|
next block    |##########|  in hand, so that new producers go on while nothing can be decided
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.model.errors import ApiError
from ottla.runtime.tasks import Tasks

logger = logging.getLogger(__name__)


class ProducerIdAllocator:
    """Takes ids from a block of its own, and has the next one in hand before that is used up.

    What is left of the blocks is lost when the broker stops: ids are never given twice, not even after a crash, because
    a block is durable before its first id leaves. Belongs to the event loop.
    """

    def __init__(self, allocate_block: Callable[[], Awaitable[range]], tasks: Tasks) -> None:
        self._allocate_block = allocate_block
        self._tasks = tasks
        self._block = self._next_block = range(0)
        self._allocation = asyncio.Lock()
        self._is_refilling = False

    async def next(self) -> int:
        """An id nobody has had. Raises what the controller raises when there is no new block."""
        if not self._block and not self._next_block:
            async with self._allocation:
                if not self._block and not self._next_block:
                    self._block = await self._allocate_block()
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        producer_id, self._block = self._block[0], self._block[1:]
        self.prepare()
        return producer_id

    def prepare(self) -> None:
        """Have a block in hand before anybody needs it."""
        if not self._next_block and not self._is_refilling:
            self._is_refilling = True
            self._tasks.spawn(self._take_next(), "producer ids ahead")

    async def _take_next(self) -> None:
        try:
            async with self._allocation:
                if not self._next_block:
                    self._next_block = await self._allocate_block()
        except ApiError as error:
            logger.debug("there is no block of producer ids yet: %s", error)  # the next id asks again
        finally:
            self._is_refilling = False
