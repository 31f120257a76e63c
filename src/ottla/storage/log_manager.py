"""The logs of one data directory: finding them, making and deleting them, and what is done for them now and then."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import LogIo as NativeLogIo
from ottla.runtime.clock import Clock
from ottla.runtime.disk import Disk, StrPath
from ottla.runtime.parallel import map_in_threads, processor_count
from ottla.runtime.rng import Rng, SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.file_names import (
    PARTITION_METADATA,
    deleted_directory_name,
    is_deleted_directory_name,
    parse_log_directory_name,
)
from ottla.storage.index_cache import IndexCache
from ottla.storage.load_report import LoadReport
from ottla.storage.log import Log
from ottla.storage.log_checkpoints import LogCheckpoints
from ottla.storage.log_config import LogConfig
from ottla.storage.log_directory import LogDirectory
from ottla.storage.log_flushing import flush_due_logs
from ottla.storage.log_io import LogIo
from ottla.storage.log_loader import Checkpoints, LoadedLog, LogLoader, make_durable
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_writer import LogWriter
from ottla.storage.open_file import OpenFiles
from ottla.storage.partition_metadata import format_partition_metadata, parse_partition_metadata
from ottla.storage.pending_append import completion
from ottla.storage.producer_room import PRODUCERS_MAX, ProducerRoom
from ottla.storage.segment_removal import SegmentRemoval

logger: Final = logging.getLogger(__name__)

UNKNOWN_TOPIC_ID: Final = UUID(int=0)
OPEN_FILES_FOR_READING_MAX: Final = 1024
LOGS_PER_TURN: Final = 100
"""How many logs retention looks at before others have their turn on the event loop: a millisecond or two."""
WRITE_PROBE: Final = "write-probe"
WRITE_PROBE_BYTES: Final = 1 << 20
"""What must find room before a directory that was full takes writes again."""
LARGE_TO_CHECK_BYTES: Final = 1 << 20
"""From here on the reading of a log outweighs the way to another thread, and what threads cost each other."""


class LogManager:
    """All logs of a data directory. `load` runs first, in any thread; from `attach` on it belongs to the event loop."""

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
    ) -> None:
        """`open_files_max` limits the segments kept open for reading; those being sent stay open besides, up to
        `read_files_max` together. `producers_max` limits the idempotent producers remembered in all logs.
        """
        self.path = os.fspath(path)
        self.on_failure: Callable[[OSError], None] | None = None
        self._disk = disk
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._rng = rng or SystemRng()
        self._directory = LogDirectory(self.path, disk)
        self._writer = LogWriter(log_io(), self._fail)
        files, indexes = OpenFiles(disk, open_files_max, read_files_max), IndexCache(disk)
        self._resources = LogResources(
            disk, self._writer, files, indexes, tasks.in_thread, ProducerRoom(producers_max), self._rng
        )
        self._removal = SegmentRemoval(self._resources, timer, tasks)
        self._checkpoints = LogCheckpoints(self._directory, self._resources)
        self._logs: dict[TopicPartition, Log] = {}
        self._unsynced: set[str] = set()
        # One at a time changes which files a log has.
        self._files_change = asyncio.Lock()
        self._is_closing = False

    @property
    def cork(self) -> LogWriter:
        """Gathers what a run of requests appends (`ottla.runtime.cork`)."""
        return self._writer

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted by the logs and not yet written."""
        return self._writer.queued_bytes

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
        return self._logs.get(topic_partition)

    def logs(self) -> tuple[Log, ...]:
        """All logs."""
        return tuple(self._logs.values())

    def load(self) -> LoadReport:
        """Open the directory and load every log in it, with recovery when it was not closed cleanly. BLOCKING.

        Raises DirectoryError when the directory is in use, OSError.
        """
        begun_ms = self._clock.monotonic_ms()
        self._directory.open()
        directories = self._log_directories()
        self._checkpoints.read()
        if not directories:
            self._checkpoints.begin()
        loaded = self._load_logs(directories)
        make_durable(self._disk, loaded)
        if self._directory.was_failing:
            self._directory.mark_sound()
        took_ms = self._clock.monotonic_ms() - begun_ms
        cuts = tuple(found.cut for found in loaded if found.cut is not None)
        scanned_bytes = sum(found.scanned_bytes for found in loaded)
        damaged = tuple(segment for found in loaded for segment in found.damaged)
        return LoadReport(len(loaded), self._directory.was_clean, scanned_bytes, cuts, took_ms, damaged)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the event loop drive the writes from now on."""
        self._writer.attach(loop)

    async def identify(self, cluster_id: str, node_id: int) -> None:
        """See that the directory is this node's, or make it so. Raises DirectoryError, OSError."""
        await self._tasks.in_thread(self._directory.identify, cluster_id, node_id, self._rng)

    async def create_log(self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """Make the log of a partition, or return the one there is when it has the same topic id.

        Raises ApiError KAFKA_STORAGE_ERROR when the directory is offline or another topic's log is in the way.
        """
        (log,) = await self.create_logs([topic_partition], topic_id, config)
        return log

    async def create_logs(
        self, topic_partitions: Sequence[TopicPartition], topic_id: UUID, config: LogConfig
    ) -> list[Log]:
        """`create_log` for several partitions of one topic, in one go."""
        missing = [name for name in topic_partitions if name not in self._logs]
        if missing:
            await self._make_logs(missing, topic_id, config)
        return [await self._claim(self._logs[name], topic_id, config) for name in topic_partitions]

    async def _make_logs(self, names: Sequence[TopicPartition], topic_id: UUID, config: LogConfig) -> None:
        self.require_online()
        loaders = {name: self._loader(name, f"{self.path}/{name}", config) for name in names}
        try:
            await self._checkpoints.forget(names)
            found = await self._tasks.in_thread(self._create, loaders, topic_id)
        except OSError as error:
            self._writer.fail("open", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"could not make {self.path}/{names[0]}: {error}") from error
        for name, loaded in found.items():
            self._logs[name] = Log(
                name,
                topic_id,
                f"{self.path}/{name}",
                config,
                self._resources,
                loaded.state,
                identity_is_durable=False,
            )

    async def _claim(self, log: Log, topic_id: UUID, config: LogConfig) -> Log:
        """See that a log is this topic's."""
        if log.topic_id == UNKNOWN_TOPIC_ID:
            path = f"{log.directory}/{PARTITION_METADATA}"
            await self._tasks.in_thread(self._disk.write_atomic, path, format_partition_metadata(topic_id))
            log.topic_id = topic_id
        elif log.topic_id != topic_id:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory} holds another topic, {log.topic_id}")
        log.config = config
        return log

    async def delete_log(self, topic_partition: TopicPartition) -> None:
        """Take a log away: its directory is renamed at once and removed after `file.delete.delay.ms`.

        An unknown one is passed over. Raises OSError when it cannot be renamed.
        """
        await self.delete_logs([topic_partition])

    async def delete_logs(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """`delete_log` for several, in one go."""
        found = [self._logs.pop(name, None) for name in topic_partitions]
        logs = [log for log in found if log is not None]
        if not logs:
            return
        await asyncio.gather(*map(self._let_go, logs))
        renamed = {
            log.directory: f"{self.path}/{deleted_directory_name(log.topic_partition, self._rng.uuid())}"
            for log in logs
        }
        async with self._files_change:
            await self._tasks.in_thread(self._rename_all, renamed)
        self._removal.remove_trees_later(list(renamed.values()), logs[0].config.file_delete_delay_ms)

    async def _let_go(self, log: Log) -> None:
        try:
            await log.abandon_for_good()
        except ApiError as error:
            logger.warning("%s is deleted although it could not be written out: %s", log.topic_partition, error.message)

    def _rename_all(self, renamed: Mapping[str, str]) -> None:
        for old, new in renamed.items():
            self._disk.rename(old, new, durable=False)
        self._disk.sync_dir(self.path)

    async def truncate_log(self, log: Log, offset: int) -> None:
        """Remove everything from `offset` on; a batch that contains it goes as a whole. Raises ApiError, OSError."""
        async with self._files_change:
            if offset >= log.log_end_offset:
                return
            await self._checkpoints.truncate(log, offset, self._loader(log.topic_partition, log.directory, log.config))

    async def resume(self) -> None:
        """Take writes again after a failure that can pass, when there is room for them.

        Logs that were being written are loaded again as after a crash: what had been flushed is there, and of what came
        after it everything that got into the files whole. Raises OSError, ApiError when it is too early or something
        else is wrong; the directory stays offline then, and this may be tried again.
        """
        assert self._writer.failure_can_pass, "only what can pass is tried again"
        await self._tasks.in_thread(self._probe)
        await completion(self._writer.resume)
        for log in self.logs():
            async with self._files_change:
                if self._is_closing:
                    return
                if not log.is_settled and self._logs.get(log.topic_partition) is log:
                    await self._checkpoints.reload(log, self._loader(log.topic_partition, log.directory, log.config))
        self._writer.resumed()

    def _probe(self) -> None:
        path = f"{self.path}/{WRITE_PROBE}"
        self._disk.write_atomic(path, bytes(WRITE_PROBE_BYTES))
        self._disk.remove(path)

    async def apply_retention(self) -> int:
        """Delete the segments that are too old, too much, or before the log start; forget producers long silent.

        Returns how many segments went.
        """
        now_ms = self._clock.now_ms()
        count = 0
        logs = self.logs()
        for start in range(0, len(logs), LOGS_PER_TURN):
            count += await self._retain(logs[start : start + LOGS_PER_TURN], now_ms)
        return count

    async def _retain(self, logs: Sequence[Log], now_ms: int) -> int:
        """Retention of some logs, between which and the next ones the event loop has its turn."""
        count = 0
        async with self._files_change:
            unreadable = await self._tasks.in_thread(_prepare_expiry, logs)
            for log in logs:
                log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
                try:
                    if log in unreadable:
                        raise unreadable[log]
                    count += len(await self._expire(log, now_ms))
                except (OSError, ApiError) as error:
                    logger.warning("retention of %s: %s", log.topic_partition, error)
        return count

    async def _expire(self, log: Log, now_ms: int) -> list[LogSegment]:
        expired = log.expire_segments(now_ms)
        if expired and not log.size:
            # The newest went too: wait until the thread has synced it and let go of it.
            await log.flush()
        if expired:
            snapshot = log.snapshots.path(log.segments[0].base_offset)
            await self._removal.remove(expired, snapshot, log.config.file_delete_delay_ms)
        return expired

    async def flush_due(self) -> int:
        """Flush the logs whose `flush.ms` has passed since their last flush; returns how many."""
        return await flush_due_logs(self.logs(), self._clock.now_ms())

    async def checkpoint_recovery_points(self) -> None:
        """Remember up to where each log is on disk, so that recovery need not look below. Raises OSError."""
        await self._checkpoints.write_recovery_points(self.logs())

    async def checkpoint_log_starts(self) -> None:
        """Make durable where every log starts; those who ask at the same time share a write. Raises OSError."""
        await self._checkpoints.write_log_starts(self.logs)

    async def space(self) -> tuple[int, int]:
        """The size of the file system that holds the directory, and what is free in it, in bytes. Raises OSError."""
        return await self._tasks.in_thread(self._disk.space, self.path)

    async def checkpoint_high_watermarks(self) -> None:
        """Remember what is committed. Raises OSError."""
        await self._checkpoints.write_high_watermarks(self.logs())

    async def close(self, *, clean: bool = True) -> None:
        """Write everything out and end the log I/O thread; with `clean` also mark the directory as complete.

        A directory that is offline is not marked. Raises OSError.
        """
        self._is_closing = True
        async with self._files_change:
            complete = clean and await self._checkpoints.close_logs(self.logs())
            if complete:
                await self._tasks.in_thread(map_in_threads, self._sync_if_there, sorted(self._unsynced))
        self._writer.detach()
        await self._tasks.in_thread(self._writer.finish)
        self._writer.poll()
        await self._tasks.in_thread(self._directory.close, clean=complete and self._writer.failure is None)

    def _log_directories(self) -> list[tuple[str, TopicPartition]]:
        """The directories of logs; what waited to be removed is."""
        found = []
        for name in self._disk.list_dir(self.path):
            path = f"{self.path}/{name}"
            topic_partition = parse_log_directory_name(name)
            if is_deleted_directory_name(name):
                self._disk.remove_tree(path)
            elif topic_partition is not None and self._disk.is_dir(path):
                found.append((name, topic_partition))
        return found

    def _load_logs(self, directories: Sequence[tuple[str, TopicPartition]]) -> list[LoadedLog]:
        """Load one log after another, but side by side those of which much has to be checked."""
        loaded, large = [], []
        for name, topic_partition in directories:
            loader = self._loader(topic_partition, f"{self.path}/{name}", LogConfig())
            if loader.bytes_to_check(self._checkpoints.of(topic_partition)) < LARGE_TO_CHECK_BYTES:
                loaded.append(self._load_log(loader))
            else:
                large.append(loader)
        return loaded + map_in_threads(self._load_log, large, threads=processor_count(), items_per_task=1)

    def _load_log(self, loader: LogLoader) -> LoadedLog:
        name, directory = loader.topic_partition, loader.directory
        found = loader.load(self._checkpoints.of(name))
        topic_id = self._read_topic_id(directory)
        if topic_id != UNKNOWN_TOPIC_ID and not self._directory.was_clean:
            found = replace(found, to_sync=(*found.to_sync, f"{directory}/{PARTITION_METADATA}"))
        self._logs[name] = Log(name, topic_id, directory, loader.config, self._resources, found.state)
        return found

    def _loader(self, topic_partition: TopicPartition, directory: str, config: LogConfig) -> LogLoader:
        return LogLoader(
            topic_partition,
            directory,
            config,
            self._disk,
            self._writer,
            self._clock.now_ms(),
            self._unsynced,
            self._rng,
        )

    def _create(self, loaders: Mapping[TopicPartition, LogLoader], topic_id: UUID) -> dict[TopicPartition, LoadedLog]:
        # The log I/O thread makes the names durable before it reports the first sync of a file.
        metadata = format_partition_metadata(topic_id)
        found = {}
        for name, loader in loaders.items():
            directory = f"{self.path}/{name}"
            self._disk.make_dir(directory, durable=False)
            self._disk.write(f"{directory}/{PARTITION_METADATA}", metadata)
            found[name] = loader.load(Checkpoints(was_clean=True))
        return found

    def _sync_if_there(self, path: str) -> None:
        if self._disk.exists(path):
            self._disk.sync_file(path)

    def _read_topic_id(self, directory: str) -> UUID:
        path = f"{directory}/{PARTITION_METADATA}"
        try:
            return parse_partition_metadata(self._disk.read_bytes(path))
        except FileNotFoundError:
            return UNKNOWN_TOPIC_ID
        except InvalidInputError as error:
            logger.warning("%s is not used: %s", path, error)
            return UNKNOWN_TOPIC_ID

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


def _prepare_expiry(logs: Sequence[Log]) -> dict[Log, OSError]:
    """Read what the retention of some logs needs to know; the logs that could not be read. BLOCKING."""
    unreadable = {}
    for log in logs:
        try:
            log.prepare_expiry()
        except OSError as error:
            unreadable[log] = error
    return unreadable
