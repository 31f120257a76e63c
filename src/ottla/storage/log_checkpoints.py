"""What is remembered of the logs from time to time, and at the end, so that the next start is quick.

A recovery point promises that everything below it is on disk, and can be found without being read again: so before it
moves, the leader epochs are written, the transaction indexes synced, and a snapshot of the producers written when much
would have to be replayed.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import Disk
from ottla.runtime.parallel import map_in_threads
from ottla.storage.file_names import LEADER_EPOCH_CHECKPOINT
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory, read_or_forget
from ottla.storage.log_loader import Checkpoints
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_resources import LogResources

SNAPSHOT_EVERY_BYTES: Final = 16 << 20


class LogCheckpoints:
    """The checkpoints of one data directory: read once for the loading, then written from the event loop.

    Each file has one writer at a time, who looks at the logs at its turn: what is forgotten or lowered stays so.
    """

    __slots__ = (
        "_directory",
        "_high_watermarks",
        "_high_watermarks_lock",
        "_locks",
        "_log_starts",
        "_recovery_points",
        "_recovery_points_lock",
        "_resources",
        "_starts_lock",
        "_starts_wanted",
        "_starts_written",
        "high_watermark_of",
    )

    def __init__(self, directory: LogDirectory, resources: LogResources, locks: LogLocks) -> None:
        self._directory = directory
        self._resources = resources
        self._locks = locks
        # What the files hold; no recovery points at all when there is no such file.
        self._recovery_points: Mapping[TopicPartition, int] | None = None
        self._log_starts: Mapping[TopicPartition, int] = {}
        self._high_watermarks: Mapping[TopicPartition, int] = {}
        self.high_watermark_of: Callable[[Log], int] = _own_end
        """What of a log is committed."""
        self._recovery_points_lock = asyncio.Lock()
        self._high_watermarks_lock = asyncio.Lock()
        # Who waits for this one is served by the next write together with everybody else who waits.
        self._starts_lock = asyncio.Lock()
        self._starts_wanted = 0
        self._starts_written = 0

    def read(self) -> None:
        """Read the files. BLOCKING."""
        self._recovery_points = read_or_forget(self._directory.recovery_points)
        self._log_starts = read_or_forget(self._directory.log_starts) or {}
        self._high_watermarks = read_or_forget(self._directory.replication_offsets) or {}

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """What was committed of a log when the file was last written; 0 when it does not say."""
        return self._high_watermarks.get(topic_partition, 0)

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
        async with self._recovery_points_lock:
            if self._recovery_points is not None and not forgotten.isdisjoint(self._recovery_points):
                await self._write_points(
                    {name: point for name, point in self._recovery_points.items() if name not in forgotten}
                )
        async with self._starts_lock:
            if not forgotten.isdisjoint(self._log_starts):
                starts = {name: start for name, start in self._log_starts.items() if name not in forgotten}
                await self._resources.in_thread(self._directory.log_starts.write, starts)
                self._log_starts = starts
        async with self._high_watermarks_lock:
            if not forgotten.isdisjoint(self._high_watermarks):
                kept = {name: offset for name, offset in self._high_watermarks.items() if name not in forgotten}
                await self._resources.in_thread(self._directory.replication_offsets.write, kept)
                self._high_watermarks = kept

    async def lower_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        """What is appended above `offset` from now on has not been on disk. Raises OSError.

        The caller holds the log until it ends there.
        """
        async with self._recovery_points_lock:
            points = self._recovery_points
            if points is not None and points.get(topic_partition, 0) > offset:
                await self._write_points({**points, topic_partition: offset})

    async def write_recovery_points(self, logs: Callable[[], Iterable[Log]]) -> None:
        """Move the recovery points of all logs to where they are flushed. Raises OSError.

        That of a log whose files somebody is changing stays where it is.
        """
        async with self._recovery_points_lock:
            known, held = self._recovery_points or {}, self._locks.held
            points: dict[TopicPartition, int] = {}
            prepared: list[tuple[Log, list[str], list[str]]] = []
            for log in logs():
                name = log.topic_partition
                if name in held:
                    points[name] = known.get(name, 0)
                    continue
                points[name] = log.flushed_end_offset
                if log.snapshots.bytes_since >= SNAPSHOT_EVERY_BYTES:
                    log.take_snapshot()
                obsolete = []
                if log.snapshots.some_may_be_obsolete:
                    obsolete = log.snapshots.take_obsolete({segment.base_offset for segment in log.segments})
                indexes = log.unsynced_transaction_indexes()
                if obsolete or indexes or log.leader_epochs.is_dirty:
                    prepared.append((log, obsolete, indexes))
            # Nobody holds them, so this does not wait; from here on nobody gives their directories to other logs.
            async with self._locks.hold(log.topic_partition for log, *_ in prepared):
                await self._resources.in_thread(map_in_threads, self._prepare, prepared)
            for log, *_ in prepared:
                log.transaction_indexes_synced(points[log.topic_partition])
            await self._write_points(points)

    async def secure(self, log: Log, offset: int, logs: Callable[[], Iterable[Log]]) -> bool:
        """See that the recovery point of a log is at least `offset`, which is flushed; whether it is. Raises OSError.

        It stays below while somebody is changing the files of the log.
        """
        if self._recovery_point_of(log) < offset:
            await self.write_recovery_points(logs)
        return self._recovery_point_of(log) >= offset

    def _recovery_point_of(self, log: Log) -> int:
        return (self._recovery_points or {}).get(log.topic_partition, -1)

    async def _write_points(self, points: Mapping[TopicPartition, int]) -> None:
        await self._resources.in_thread(self._directory.recovery_points.write, points)
        self._recovery_points = points

    def _prepare(self, each: tuple[Log, list[str], list[str]]) -> None:
        """What must be on disk before the recovery point of a log moves, and the snapshots it needs no more."""
        log, obsolete_snapshots, indexes = each
        for path in indexes:
            with suppress(FileNotFoundError):  # its first entry is not written yet
                self._resources.disk.sync_file(path)
        if log.leader_epochs.is_dirty:
            write_leader_epochs(self._resources.disk, log)
        for path in obsolete_snapshots:
            self._resources.disk.remove(path)

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

    async def write_high_watermarks(self, logs: Callable[[], Iterable[Log]]) -> None:
        """Remember what is committed. Raises OSError."""
        async with self._high_watermarks_lock:
            offsets = {log.topic_partition: self.high_watermark_of(log) for log in logs()}
            await self._resources.in_thread(self._directory.replication_offsets.write, offsets)
            self._high_watermarks = offsets

    async def write_last(self, logs: Sequence[Log]) -> None:
        """All logs are closed: write everything a start goes by. Raises OSError."""
        await self._resources.in_thread(self._write_final_snapshots, logs)
        await self.write_recovery_points(lambda: logs)
        await self.write_log_starts(lambda: logs)
        await self.write_high_watermarks(lambda: logs)

    def _write_final_snapshots(self, logs: Sequence[Log]) -> None:
        for log in logs:
            if not _is_new(log) and log.snapshots.newest_offset != log.log_end_offset:
                self._resources.disk.write(log.snapshots.path(log.log_end_offset), log.producers.snapshot())


def _own_end(log: Log) -> int:
    """What is committed of a log that has one replica: what it counts as its own."""
    return log.flushed_end_offset if log.config.flush_before_ack else log.written_end_offset


def write_leader_epochs(disk: Disk, log: Log) -> None:
    """Make the leader epochs of a log durable; the caller holds the log. BLOCKING. Raises OSError."""
    log.leader_epochs.write(disk, f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}")


def _is_new(log: Log) -> bool:
    """Whether a log holds nothing and remembers nobody: a start without its snapshot finds the same."""
    return not log.size and not len(log.producers) and log.snapshots.newest_offset < 0
