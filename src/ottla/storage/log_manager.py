"""All logs of one data directory, for the rest of the broker.

LogCatalogue      which logs there are: found, made, deleted      LogLocks: who changes the files of which log
LogRetention      old segments go                                 LogReloader: cut, loaded again
LogCheckpoints    what the next start goes by                     resume: writes are taken again
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import LogIo as NativeLogIo
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk, StrPath
from ottla.runtime.rng import Rng, SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.compaction.log_cleaner import CleanerConfig, LogCleaner
from ottla.storage.file_names import CLEANER_CHECKPOINT
from ottla.storage.index_cache import IndexCache
from ottla.storage.load_report import LoadReport
from ottla.storage.log import Log
from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_checkpoints import LogCheckpoints
from ottla.storage.log_config import LogConfig
from ottla.storage.log_directory import LogDirectory
from ottla.storage.log_flushing import flush_due_logs
from ottla.storage.log_io import LogIo
from ottla.storage.log_loader import make_durable
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_reloading import LogReloader
from ottla.storage.log_resources import LogResources
from ottla.storage.log_resumption import resume
from ottla.storage.log_retention import LogRetention
from ottla.storage.log_writer import LogWriter
from ottla.storage.offset_checkpoint import OffsetCheckpointFile
from ottla.storage.open_file import OpenFiles
from ottla.storage.producer_room import PRODUCERS_MAX, ProducerRoom
from ottla.storage.segment_removal import SegmentRemoval

if TYPE_CHECKING:
    from ottla.storage.log_io_trace import Histogram

logger: Final = logging.getLogger(__name__)

OPEN_FILES_FOR_READING_MAX: Final = 1024


class LogManager:
    """`load` runs first, in any thread; from `attach` on it belongs to the event loop."""

    def __init__(
        self,
        path: StrPath,
        *,
        disk: Disk,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
        rng: Rng | None = None,
        log_io: Callable[[], LogIo] = NativeLogIo,
        open_files_max: int = OPEN_FILES_FOR_READING_MAX,
        read_files_max: int | None = None,
        producers_max: int = PRODUCERS_MAX,
        cleaner: CleanerConfig = CleanerConfig(),  # noqa: B008 (frozen)
    ) -> None:
        """`open_files_max` limits the segments kept open for reading; those being sent stay open besides, up to
        `read_files_max` together. `producers_max` limits the idempotent producers remembered in all logs.
        """
        self.path = os.fspath(path)
        self.on_failure: Callable[[OSError], None] | None = None
        self._clock = clock
        self._tasks = tasks
        self._writer = LogWriter(log_io(), self._fail)
        self._directory = LogDirectory(self.path, disk)
        self._locks = LogLocks()
        files, indexes = OpenFiles(disk, open_files_max, read_files_max), IndexCache(disk)
        self._resources = resources = LogResources(
            disk, self._writer, files, indexes, tasks.in_thread, ProducerRoom(producers_max), rng or SystemRng()
        )
        self._removal = removal = SegmentRemoval(resources, timer, tasks)
        self._checkpoints = LogCheckpoints(self._directory, resources, self._locks)
        self._catalogue = LogCatalogue(self._directory, resources, self._checkpoints, removal, self._locks, clock)
        self._retention = LogRetention(self._catalogue, resources, removal, self._locks, clock)
        self._reloader = LogReloader(self._catalogue, resources, self._checkpoints, self._locks)
        self.cleaner = LogCleaner(
            self._catalogue,
            resources,
            OffsetCheckpointFile(disk, f"{self.path}/{CLEANER_CHECKPOINT}"),
            self._checkpoints,
            removal,
            self._locks,
            clock=clock,
            timer=timer,
            tasks=tasks,
            config=cleaner,
        )
        """Compacts the logs that ask for it, from `cleaner.start()` on."""

    @property
    def cork(self) -> LogWriter:
        """Gathers what a run of requests appends (`ottla.runtime.cork`)."""
        return self._writer

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by the logs and not yet written."""
        return self._writer.queued_bytes

    def io_trace(self) -> "dict[str, Histogram]":
        """Where the time of appends went so far: how groups waited, were written and synced, how large they were."""
        return self._writer.io_trace()

    @property
    def failure(self) -> OSError | None:
        """Why the directory is offline, if it is: reads go on, appends are refused."""
        return self._writer.failure

    @property
    def failure_can_pass(self) -> bool:
        """Whether `resume` may bring the directory back: it is full or may not be written, and nothing was lost."""
        return self._writer.failure_can_pass

    def require_online(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR while the directory cannot be written."""
        if self._writer.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the data directory is offline: {self._writer.failure}")

    def log(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, or None."""
        return self._catalogue.find(topic_partition)

    def logs(self) -> tuple[Log, ...]:
        """All logs."""
        return self._catalogue.logs()

    def load(self) -> LoadReport:
        """Open the directory and load every log in it, with recovery when it was not closed cleanly. BLOCKING.

        Raises DirectoryError when the directory is in use, OSError.
        """
        begun_ms = self._clock.monotonic_ms()
        self._directory.open()
        loaded = self._catalogue.load()
        self.cleaner.read()
        make_durable(self._resources.disk, loaded)
        if self._directory.was_failing:
            self._directory.mark_sound()
        took_ms = self._clock.monotonic_ms() - begun_ms
        cuts = tuple(found.cut for found in loaded if found.cut is not None)
        scanned_bytes = sum(found.scanned_bytes for found in loaded)
        damaged = tuple(segment for found in loaded for segment in found.damaged)
        return LoadReport(len(loaded), self._directory.was_clean, scanned_bytes, cuts, took_ms, damaged)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the event loop drive the writes from now on, and remove what was left of deleted logs beside it."""
        self._writer.attach(loop)
        if self._catalogue.leftovers:
            self._removal.remove_trees_later(self._catalogue.leftovers, 0)

    async def identify(self, cluster_id: str, node_id: int) -> bool:
        """See that the directory is this node's, or make it so; whether it was. Raises DirectoryError, OSError."""
        return await self._tasks.in_thread(self._directory.identify, cluster_id, node_id, self._resources.rng)

    async def create_log(self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """Make the log of a partition, or return the one there is when it has the same topic id.

        Raises ApiError KAFKA_STORAGE_ERROR when the directory is offline or another topic's log is in the way.
        """
        (log,) = await self._catalogue.create([topic_partition], topic_id, config)
        return log

    async def create_logs(
        self, topic_partitions: Sequence[TopicPartition], topic_id: UUID, config: LogConfig
    ) -> list[Log]:
        """`create_log` for several partitions of one topic, in one go."""
        return await self._catalogue.create(topic_partitions, topic_id, config)

    async def delete_log(self, topic_partition: TopicPartition) -> None:
        """Take a log away: its directory is renamed at once and removed after `file.delete.delay.ms`.

        An unknown one is passed over; one that cannot be renamed is gone as well, and renamed later.
        """
        await self.delete_logs([topic_partition])

    async def delete_logs(self, topic_partitions: Collection[TopicPartition]) -> None:
        """`delete_log` for several, in one go."""
        await self._catalogue.delete(topic_partitions)
        await self.cleaner.forget(topic_partitions)

    async def set_aside(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Take logs away without removing anything; where they lie now, which no start looks at. Raises OSError."""
        renamed = await self._catalogue.set_aside(topic_partitions)
        await self.cleaner.forget(renamed)
        return renamed

    async def truncate_log(self, log: Log, offset: int) -> None:
        """Remove everything from `offset` on; a batch that contains it goes as a whole. Raises ApiError, OSError."""
        await self._reloader.truncate(log, offset)

    async def resume(self) -> None:
        """Take writes again after a failure that can pass; see `log_resumption.resume`."""
        await resume(self.path, self._resources, self._catalogue, self._reloader)

    async def apply_retention(self) -> int:
        """Delete the segments that are too old, too much, or before the log start; forget producers long silent.

        Returns how many segments went.
        """
        await self._catalogue.finish_deletions()
        return await self._retention.apply()

    async def flush_due(self) -> int:
        """Flush the logs whose `flush.ms` has passed since their last flush; returns how many."""
        return await flush_due_logs(self.logs(), self._clock.now_ms())

    async def checkpoint_recovery_points(self) -> None:
        """Remember up to where each log is on disk, so that recovery need not look below. Raises OSError."""
        await self._checkpoints.write_recovery_points(self.logs)

    async def checkpoint_log_starts(self) -> None:
        """Make durable where every log starts; those who ask at the same time share a write. Raises OSError."""
        await self._checkpoints.write_log_starts(self.logs)

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """What was committed of a log, as far as the start found it written down; 0 when nothing was."""
        return self._checkpoints.high_watermark(topic_partition)

    @property
    def high_watermark_of(self) -> Callable[[Log], int]:
        """What of a log is committed; for one with a single replica what it counts as its own."""
        return self._checkpoints.high_watermark_of

    @high_watermark_of.setter
    def high_watermark_of(self, committed: Callable[[Log], int]) -> None:
        self._checkpoints.high_watermark_of = committed

    async def checkpoint_high_watermarks(self) -> None:
        """Remember what is committed. Raises OSError."""
        await self._checkpoints.write_high_watermarks(self.logs)

    async def space(self) -> tuple[int, int]:
        """The size of the file system that holds the directory, and what is free in it, in bytes. Raises OSError."""
        return await self._tasks.in_thread(self._resources.disk.space, self.path)

    async def close(self, *, clean: bool = True) -> None:
        """Write everything out and end the log I/O thread; with `clean` also mark the directory as complete.

        Who is changing the files of a log finishes first, who comes later does nothing. A directory that is offline is
        not marked. Raises OSError.
        """
        self._catalogue.close()
        await self.cleaner.stop()
        logs = self.logs()
        async with self._locks.hold({log.topic_partition for log in logs} | set(self._locks.held)):
            complete = clean and await _close_all(logs)
        if complete:
            await self._checkpoints.write_last(logs)
            await self._catalogue.sync_unsynced()
        self._writer.detach()
        await self._tasks.in_thread(self._writer.finish)
        self._writer.poll()
        await self._tasks.in_thread(self._directory.close, clean=complete and self._writer.failure is None)

    async def _mark_failing(self) -> None:
        try:
            await self._tasks.in_thread(self._directory.mark_failing)
        except OSError as error:
            logger.warning("restart the machine, not only the broker: the failure could not be noted: %s", error)

    def _fail(self, error: OSError) -> None:
        if not self._writer.failure_can_pass:
            self._tasks.spawn(self._mark_failing(), "note the failure of the disk")
        if self.on_failure is not None:
            self.on_failure(error)
        else:
            logger.error("data directory %s is offline: %s", self.path, error)


async def _close_all(logs: Sequence[Log]) -> bool:
    """Complete every log; whether everything is on disk."""
    results = await asyncio.gather(*(log.close() for log in logs), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, ApiError):
            raise failure
    return not failures
