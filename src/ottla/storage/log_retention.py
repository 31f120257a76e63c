"""Retention over all logs of a data directory; `retention.py` decides which segments go."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.storage.log import Log
from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_resources import LogResources
from ottla.storage.segment_removal import SegmentRemoval

logger: Final = logging.getLogger(__name__)

LOGS_PER_TURN: Final = 100
"""How many logs are looked at before others have their turn on the event loop: a millisecond or two."""


class LogRetention:
    """Belongs to the event loop. A log whose files somebody else is changing keeps nobody waiting: its turn is last."""

    def __init__(
        self,
        catalogue: LogCatalogue,
        resources: LogResources,
        removal: SegmentRemoval,
        locks: LogLocks,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._resources = resources
        self._removal = removal
        self._locks = locks
        self._clock = clock

    async def apply(self) -> int:
        """Delete the segments that are too old, too much, or before the log start; forget producers long silent.

        Returns how many segments went.
        """
        now_ms = self._clock.now_ms()
        logs = self._catalogue.logs()
        count, busy = 0, list[Log]()
        for start in range(0, len(logs), LOGS_PER_TURN):
            expiring = await self._expiring(logs[start : start + LOGS_PER_TURN], now_ms)
            held = self._locks.held
            busy += [log for log in expiring if log.topic_partition in held]
            count += await self._expire([log for log in expiring if log.topic_partition not in held], now_ms)
        return count + await self._expire(busy, now_ms)

    async def _expiring(self, logs: Sequence[Log], now_ms: int) -> list[Log]:
        """Those of which segments are to go."""
        unreadable = await self._resources.in_thread(_prepare_expiry, logs)
        expiring = []
        for log in logs:
            log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
            if log in unreadable:
                logger.warning("retention of %s: %s", log.topic_partition, unreadable[log])
            elif log.expired_count(now_ms):
                expiring.append(log)
        return expiring

    async def _expire(self, logs: Sequence[Log], now_ms: int) -> int:
        return sum(await asyncio.gather(*(self._expire_log(log, now_ms) for log in logs)))

    async def _expire_log(self, log: Log, now_ms: int) -> int:
        async with self._locks.hold([log.topic_partition]):
            if not self._catalogue.holds(log):
                return 0
            try:
                await self._resources.in_thread(log.prepare_expiry)  # again: others may have had it meanwhile
                expired = await log.expire_segments(now_ms)
                if expired:
                    snapshot = log.snapshots.path(log.segments[0].base_offset)
                    await self._removal.remove(expired, snapshot, log.config.file_delete_delay_ms)
            except (OSError, ApiError) as error:
                logger.warning("retention of %s: %s", log.topic_partition, error)
                return 0
            return len(expired)


def _prepare_expiry(logs: Sequence[Log]) -> dict[Log, OSError]:
    """Read what the retention of some logs needs to know; the logs that could not be read. BLOCKING."""
    unreadable = {}
    for log in logs:
        try:
            log.prepare_expiry()
        except OSError as error:
            unreadable[log] = error
    return unreadable
