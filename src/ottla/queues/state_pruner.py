"""Keeps the logs of delivery states short: each state is written anew, and what came before is deleted (KIP-932)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.coordination.runtime import CoordinatorRuntime
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import ShareStateShard, StateAnswer
from ottla.replication.partition import Partition
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

PRUNE_INTERVAL_MS: Final = 300_000
"""How often the logs are looked at; Kafka's `share.coordinator.state.topic.prune.interval.ms` has this default."""

RECORDS_MIN: Final = 1_000
RECORDS_PER_STATE_MIN: Final = 10
"""A log is pruned when it has so many records, and so many for each state: then most of it is superseded."""


class StatePruner:
    """Looks at the partitions of `__share_group_state` that this broker leads, from time to time.

    Belongs to the event loop; nothing here blocks.
    """

    __slots__ = ("_partitions", "_runtime", "_task", "_timer")

    def __init__(self, runtime: CoordinatorRuntime[ShareStateShard], timer: Timer) -> None:
        self._runtime = runtime
        self._timer = timer
        self._partitions: dict[int, Partition] = {}
        self._task: TimerTask | None = None

    def elected(self, partition: Partition) -> None:
        """This broker leads a partition from now on."""
        self._partitions[partition.index] = partition
        if self._task is None:
            self._task = self._timer.schedule(PRUNE_INTERVAL_MS, self._look)

    def resigned(self, index: int) -> None:
        """This broker leads a partition no longer."""
        self._partitions.pop(index, None)

    def close(self) -> None:
        """Look at nothing any more."""
        self._partitions.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _look(self) -> None:
        self._task = self._timer.schedule(PRUNE_INTERVAL_MS, self._look) if self._partitions else None
        for partition in tuple(self._partitions.values()):
            self._prune(partition)

    def _prune(self, partition: Partition) -> None:
        shard = self._runtime.active_shard(partition.index)
        # What is committed now is before everything that is written from now on.
        end = partition.high_watermark
        if shard is None or end - partition.log.log_start_offset < max(
            RECORDS_MIN, RECORDS_PER_STATE_MIN * shard.count
        ):
            return
        # Without a key nothing is written, and the answer comes when what was written before is committed.
        keys = shard.keys or (None,)
        waiting = len(keys)
        error = ErrorCode.NONE

        def on_written(answer: Answer) -> None:
            nonlocal waiting, error
            waiting -= 1
            error = error or answer.error
            if waiting == 0 and error is ErrorCode.NONE:
                self._delete_before(partition, end)

        for key in keys:
            self._runtime.submit(partition.index, _writes_anew(key), on_written, StateAnswer)

    def _delete_before(self, partition: Partition, offset: int) -> None:
        if self._partitions.get(partition.index) is not partition:
            return
        try:
            partition.delete_records_before(offset)
        except ApiError as error:
            logger.info("%s is not pruned: %s", partition.topic_partition, error)


def _writes_anew(key: ShareKey | None) -> Callable[[ShareStateShard, int, Waiter], Outcome]:
    return lambda shard, now_ms, waiter: shard.handle_snapshot(now_ms, key, waiter)
