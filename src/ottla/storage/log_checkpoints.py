"""What is remembered of the logs from time to time, and at the end, so that the next start is quick.

A recovery point promises that everything below it is on disk, and can be found without being read again: so before it
moves, the leader epochs are written, and a snapshot of the producers when much would have to be replayed.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    offset_file_name,
)
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory, read_or_forget
from ottla.storage.log_loader import Checkpoints, LogLoader
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_state import LogState

logger: Final = logging.getLogger(__name__)

SNAPSHOT_EVERY_BYTES: Final = 16 << 20


class LogCheckpoints:
    """Reads the checkpoints of a data directory once, for the loading, and writes them, from the event loop."""

    __slots__ = ("_directory", "_log_starts", "_recovery_points", "_resources")

    def __init__(self, directory: LogDirectory, resources: LogResources) -> None:
        self._directory = directory
        self._resources = resources
        self._recovery_points: Mapping[TopicPartition, int] | None = None
        self._log_starts: Mapping[TopicPartition, int] = {}

    def of(self, topic_partition: TopicPartition) -> Checkpoints:
        """What the directory remembers of one log. BLOCKING at the first call."""
        if self._recovery_points is None:
            self._recovery_points = read_or_forget(self._directory.recovery_points)
            self._log_starts = read_or_forget(self._directory.log_starts)
        return Checkpoints(
            self._directory.was_clean,
            self._recovery_points.get(topic_partition),
            self._log_starts.get(topic_partition, 0),
        )

    async def write_recovery_points(self, logs: Sequence[Log]) -> None:
        """Move the recovery points of all logs to where they are flushed. Raises OSError."""
        points = {log.topic_partition: log.flushed_end_offset for log in logs}
        obsolete = []
        for log in logs:
            if log.bytes_since_snapshot >= SNAPSHOT_EVERY_BYTES:
                log.take_snapshot()
            obsolete += log.take_obsolete_snapshots()
        await self._resources.in_thread(self._write_recovery_points, logs, points, obsolete)

    async def write_log_starts(self, logs: Iterable[Log]) -> None:
        """Remember the log starts that lie inside a segment: the others can be seen in its name. Raises OSError."""
        starts = {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments[0].base_offset
        }
        await self._resources.in_thread(self._directory.log_starts.write, starts)

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
        await self.write_log_starts(logs)
        await self.write_high_watermarks(logs)
        return True

    async def truncate(self, log: Log, offset: int, loader: LogLoader) -> None:
        """Cut a log at the batch that contains `offset` and load it again. Raises ApiError, OSError."""
        await log.abandon()
        segments = list(log.segments)
        for segment in segments:
            self._resources.files.forget(segment.log_path)
            for suffix in SEGMENT_SUFFIXES:
                self._resources.indexes.forget(segment.path(suffix))
        log.reopen(await self._resources.in_thread(self._truncate, log, segments, offset, loader))

    def _write_recovery_points(
        self, logs: Sequence[Log], points: Mapping[TopicPartition, int], obsolete: Sequence[str]
    ) -> None:
        for log in logs:
            if log.leader_epochs.is_dirty:
                log.leader_epochs.write(self._resources.disk, f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}")
        self._directory.recovery_points.write(points)
        for path in obsolete:
            self._resources.disk.remove(path)

    def _write_final_snapshots(self, logs: Sequence[Log]) -> None:
        for log in logs:
            if log.snapshot_offset != log.log_end_offset:
                name = offset_file_name(log.log_end_offset, SNAPSHOT_SUFFIX)
                self._resources.disk.write(f"{log.directory}/{name}", log.producers.snapshot())

    def _truncate(self, log: Log, segments: list[LogSegment], offset: int, loader: LogLoader) -> LogState:
        disk, files, indexes = self._resources.disk, self._resources.files, self._resources.indexes
        point = offset
        for segment in reversed(segments):
            if segment.base_offset >= offset and segment is not segments[0]:
                for suffix in SEGMENT_SUFFIXES:
                    disk.remove(segment.path(suffix))
                continue
            found = segment.find_batch(offset, segment.size, files, indexes) if segment.size else None
            if found is not None:
                position, _ = found
                point = min(offset, segment.base_offset if position == 0 else offset)
                disk.truncate(segment.log_path, position)
                disk.sync_file(segment.log_path)
            files.forget(segment.log_path)
            break
        disk.sync_dir(log.directory)
        log.leader_epochs.write(disk, f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}")
        points = dict(read_or_forget(self._directory.recovery_points))
        points[log.topic_partition] = min(point, points.get(log.topic_partition, 0))
        self._directory.recovery_points.write(points)
        return loader.load(Checkpoints(False, None, log.log_start_offset)).state
