"""What is remembered of the logs from time to time, and at the end, so that the next start is quick.

A recovery point promises that everything below it is on disk, and can be found without being read again: so before it
moves, the leader epochs are written, and a snapshot of the producers when much would have to be replayed.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.parallel import map_in_threads
from ottla.storage.file_names import LEADER_EPOCH_CHECKPOINT, SEGMENT_SUFFIXES
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory, read_or_forget
from ottla.storage.log_loader import Checkpoints, LoadedLog, LogLoader, make_durable
from ottla.storage.log_resources import LogResources
from ottla.storage.log_state import LogState

logger: Final = logging.getLogger(__name__)

SNAPSHOT_EVERY_BYTES: Final = 16 << 20


class LogCheckpoints:
    """The checkpoints of one data directory: read once for the loading, then written from the event loop."""

    __slots__ = (
        "_directory",
        "_log_starts",
        "_recovery_points",
        "_resources",
        "_starts_lock",
        "_starts_wanted",
        "_starts_written",
    )

    def __init__(self, directory: LogDirectory, resources: LogResources) -> None:
        self._directory = directory
        self._resources = resources
        # What the files hold; no recovery points at all when there is no such file.
        self._recovery_points: Mapping[TopicPartition, int] | None = None
        self._log_starts: Mapping[TopicPartition, int] = {}
        # One writer at a time; who waits for it is served by the next write together with everybody else who waits.
        self._starts_lock = asyncio.Lock()
        self._starts_wanted = 0
        self._starts_written = 0

    def read(self) -> None:
        """Read the files. BLOCKING."""
        self._recovery_points = read_or_forget(self._directory.recovery_points)
        self._log_starts = read_or_forget(self._directory.log_starts) or {}

    def begin(self) -> None:
        """Nothing is in the directory yet: from now on a log without a recovery point is a young one. BLOCKING."""
        self._recovery_points = {}
        self._directory.recovery_points.write({})

    def of(self, topic_partition: TopicPartition) -> Checkpoints:
        """What the directory remembers of one log. A log that the recovery points do not name is younger than they."""
        points = self._recovery_points
        return Checkpoints(
            self._directory.was_clean,
            None if points is None else points.get(topic_partition, 0),
            self._log_starts.get(topic_partition, 0),
            self._directory.was_failing,
        )

    async def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Remember nothing of earlier logs of these names: new ones are about to be made. Raises OSError."""
        forgotten = frozenset(topic_partitions)
        if self._recovery_points is not None and not forgotten.isdisjoint(self._recovery_points):
            points = {name: point for name, point in self._recovery_points.items() if name not in forgotten}
            await self._resources.in_thread(self._directory.recovery_points.write, points)
            self._recovery_points = points
        async with self._starts_lock:
            if not forgotten.isdisjoint(self._log_starts):
                starts = {name: start for name, start in self._log_starts.items() if name not in forgotten}
                await self._resources.in_thread(self._directory.log_starts.write, starts)
                self._log_starts = starts

    async def write_recovery_points(self, logs: Sequence[Log]) -> None:
        """Move the recovery points of all logs to where they are flushed. Raises OSError."""
        points = {log.topic_partition: log.flushed_end_offset for log in logs}
        obsolete = []
        for log in logs:
            if log.snapshots.bytes_since >= SNAPSHOT_EVERY_BYTES:
                log.take_snapshot()
            if log.snapshots.some_may_be_obsolete:
                obsolete += log.snapshots.take_obsolete({segment.base_offset for segment in log.segments})
        await self._resources.in_thread(self._write_recovery_points, logs, points, obsolete)
        self._recovery_points = points

    async def write_log_starts(self, logs: Callable[[], Iterable[Log]]) -> None:
        """Make the first offsets of all logs durable, as they are now or later. Raises OSError.

        One that is the beginning of a segment is written as well, although its name says the same: the segment before
        it may still be there after a crash, and what was deleted on request must not come back with it.
        """
        self._starts_wanted += 1
        wanted = self._starts_wanted
        async with self._starts_lock:
            if self._starts_written >= wanted:
                return
            covered = self._starts_wanted
            starts = {log.topic_partition: log.log_start_offset for log in logs() if log.log_start_offset}
            await self._resources.in_thread(self._directory.log_starts.write, starts)
            self._log_starts = starts
            self._starts_written = covered

    async def write_high_watermarks(self, logs: Iterable[Log]) -> None:
        """Remember what is committed, which with a single replica is what it counts as its own. Raises OSError."""
        offsets = {
            log.topic_partition: log.flushed_end_offset if log.config.flush_before_ack else log.written_end_offset
            for log in logs
        }
        await self._resources.in_thread(self._directory.replication_offsets.write, offsets)

    async def close_logs(self, logs: Sequence[Log]) -> bool:
        """Complete every log and write all checkpoints; whether everything is on disk."""
        results = await asyncio.gather(*(log.close() for log in logs), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, ApiError):
                raise failure
        if failures:
            return False
        await self._resources.in_thread(self._write_final_snapshots, logs)
        await self.write_recovery_points(logs)
        await self.write_log_starts(lambda: logs)
        await self.write_high_watermarks(logs)
        return True

    async def truncate(self, log: Log, offset: int, loader: LogLoader) -> None:
        """Cut a log at the batch that contains `offset` and load it again. Raises ApiError, OSError."""
        await log.abandon()
        log.reopen(await self._resources.in_thread(self._truncate, log, offset, loader))

    async def reload(self, log: Log, loader: LogLoader) -> None:
        """Load a log again after writes failed: what got into its files whole is kept. Raises ApiError, OSError."""
        await log.abandon()
        found = await self._resources.in_thread(self._reload, log, loader)
        if found.cut is not None:
            logger.warning("%s", found.cut)
        log.reopen(found.state)

    def _write_recovery_points(
        self, logs: Sequence[Log], points: Mapping[TopicPartition, int], obsolete: Sequence[str]
    ) -> None:
        map_in_threads(self._write_leader_epochs, [log for log in logs if log.leader_epochs.is_dirty])
        self._directory.recovery_points.write(points)
        for path in obsolete:
            self._resources.disk.remove(path)

    def _write_leader_epochs(self, log: Log) -> None:
        log.leader_epochs.write(self._resources.disk, f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}")

    def _write_final_snapshots(self, logs: Sequence[Log]) -> None:
        for log in logs:
            if not _is_new(log) and log.snapshots.newest_offset != log.log_end_offset:
                self._resources.disk.write(log.snapshots.path(log.log_end_offset), log.producers.snapshot())

    def _truncate(self, log: Log, offset: int, loader: LogLoader) -> LogState:
        disk, files, indexes = self._resources.disk, self._resources.files, self._resources.indexes
        self._lower_recovery_point(log.topic_partition, offset)
        self._write_leader_epochs(log)
        segments = list(log.segments)
        cut_at = max(bisect_left(segments, offset, key=lambda segment: segment.base_offset), 1)
        kept, removed = segments[:cut_at], segments[cut_at:]
        cut = kept[-1]
        found = cut.find_batch(offset, cut.size, files, indexes) if cut.size else None
        self._resources.retire(segments)
        for segment in reversed(removed):
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(segment.path(suffix))
        if found is not None:
            disk.truncate(cut.log_path, found[0])
            disk.sync_file(cut.log_path)
        disk.sync_dir(log.directory)
        return self._load(loader, Checkpoints(False, cut.base_offset, log.log_start_offset)).state

    def _reload(self, log: Log, loader: LogLoader) -> LoadedLog:
        self._write_leader_epochs(log)
        return self._load(loader, Checkpoints(False, log.flushed_end_offset, log.log_start_offset))

    def _load(self, loader: LogLoader, checkpoints: Checkpoints) -> LoadedLog:
        found = loader.load(checkpoints)
        make_durable(self._resources.disk, [found])
        return found

    def _lower_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        """What is appended above `offset` from now on has not been on disk. BLOCKING."""
        points = self._recovery_points
        if points is not None and points.get(topic_partition, 0) > offset:
            self._recovery_points = {**points, topic_partition: offset}
            self._directory.recovery_points.write(self._recovery_points)


def _is_new(log: Log) -> bool:
    """Whether a log holds nothing and remembers nobody: a start without its snapshot finds the same."""
    return not log.size and not len(log.producers) and log.snapshots.newest_offset < 0
