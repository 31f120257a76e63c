"""Flushing logs by time (`flush.ms`), for a broker that acknowledges what is written and not yet on disk."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from ottla.model.errors import ApiError
from ottla.runtime.turns import in_turns
from ottla.storage.log import Log

logger: Final = logging.getLogger(__name__)


async def flush_due_logs(logs: Sequence[Log], now_ms: int) -> int:
    """Flush the logs that hold something unflushed and were last flushed `flush.ms` ago; returns how many.

    One whose last flush nobody knows counts as flushed now, as in Kafka a log that was just opened.
    """
    count = 0
    async for some in in_turns(logs):
        due = [log for log in some if _is_due(log, now_ms)]
        await asyncio.gather(*(_flush(log, now_ms) for log in due))
        count += len(due)
    return count


def _is_due(log: Log, now_ms: int) -> bool:
    if log.last_flush_ms is None:
        log.last_flush_ms = now_ms
    # A flush of the future was before the clock went back.
    is_recent = 0 <= now_ms - log.last_flush_ms < log.config.flush_ms
    return log.flushed_end_offset < log.log_end_offset and not is_recent


async def _flush(log: Log, now_ms: int) -> None:
    log.last_flush_ms = now_ms
    try:
        await log.flush()
    except ApiError as error:
        logger.debug("%s was not flushed: %s", log.topic_partition, error.message)
