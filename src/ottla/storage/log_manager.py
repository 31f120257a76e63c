"""All logs of a broker, in one data directory or several, for the rest of the broker.

log.dirs=/disk1,/disk2      DirectoryLogs for each: its own lock, identity, checkpoints, clean marker and log I/O thread
                            shared by all: the names' locks, the caches with their limits, the cleaner

A new log lies where the fewest are, or where it lay before.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import LogIo as NativeLogIo
from ottla.runtime.clock import Clock
from ottla.runtime.cork import Cork, Corks
from ottla.runtime.disk import Disk, StrPath
from ottla.runtime.parallel import map_in_threads
from ottla.runtime.rng import Rng, SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.compaction.log_cleaner import CleanerConfig, LogCleaner
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.file_names import PARTITION_METADATA
from ottla.storage.index_cache import IndexCache
from ottla.storage.load_report import LoadReport
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_directory import UNCLEAN_USE, DirectoryError, DirectoryUse, unusable
from ottla.storage.log_io import LogIo
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_moves import LogMoves
from ottla.storage.log_resources import LogResources
from ottla.storage.log_writer import LogWriter
from ottla.storage.open_file import OpenFiles
from ottla.storage.producer_room import PRODUCERS_MAX, ProducerRoom
from ottla.storage.segment_removal import SegmentRemoval

R = TypeVar("R")
T = TypeVar("T")

OPEN_FILES_FOR_READING_MAX: Final = 1024

PREFERRED_MAX: Final = 10_000
"""Logs that are not there of which the broker remembers where they are to go: who asks may make names up."""

NO_PLACES: Final[Mapping[TopicPartition, UUID | None]] = {}


class LogManager:
    """`load` runs first, in any thread; from `attach` on it belongs to the event loop."""

    def __init__(
        self,
        paths: StrPath | Sequence[StrPath],
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
        """The first of `paths` is the one without which there is no start. `log_io` is called once for each.

        `open_files_max` limits the segments kept open for reading; those being sent stay open besides, up to
        `read_files_max` together. `producers_max` limits the idempotent producers remembered in all logs.
        """
        self.disk = disk
        self._clock = clock
        self._locks = LogLocks()
        self._preferred: dict[TopicPartition, DirectoryLogs] = {}
        self._create_lock = asyncio.Lock()
        """Where a log goes is decided by one at a time."""
        files, indexes = OpenFiles(disk, open_files_max, read_files_max), IndexCache(disk)
        room, shared_rng = ProducerRoom(producers_max), rng or SystemRng()

        def resources(writer: LogWriter) -> LogResources:
            return LogResources(disk, writer, files, indexes, tasks.in_thread, room, shared_rng)

        def removal(resources: LogResources) -> SegmentRemoval:
            return SegmentRemoval(resources, timer, tasks)

        named = [paths] if isinstance(paths, str | os.PathLike) else paths
        self.directories = tuple(
            DirectoryLogs(os.fspath(path), log_io(), resources, removal, self._locks, clock, tasks) for path in named
        )
        self.cork: Cork = (
            self.directories[0].writer
            if len(self.directories) == 1
            else Corks([directory.writer for directory in self.directories])
        )
        """Gathers what a run of requests appends (`ottla.runtime.cork`)."""
        self.cleaner = LogCleaner(
            [directory.cleaned for directory in self.directories],
            self._locks,
            clock=clock,
            timer=timer,
            tasks=tasks,
            config=cleaner,
        )
        """Compacts the logs that ask for it, from `cleaner.start()` on."""
        self.moves = LogMoves(self.directories, self._locks, clock, timer, tasks)
        """Moves logs between the directories."""

    @property
    def path(self) -> str:
        """The first directory."""
        return self.directories[0].path

    @property
    def failure(self) -> OSError | None:
        """Why nothing can be written at all, if so: no directory is online. Reads go on."""
        failures = [directory.failure for directory in self.directories]
        return failures[0] if None not in failures else None

    @property
    def writes_here(self) -> Callable[[], bool]:
        """Tells whether one of the directories may be written without its thread now (`LogWriter.writes_here`)."""
        first, *others = self.directories
        return self._one_writes_here if others else first.writer.writes_here

    def _one_writes_here(self) -> bool:
        for directory in self.directories:  # noqa: SIM110 -- `any` of a generator takes twice as long, at each arrival
            if directory.writer.writes_here():
                return True
        return False

    def require_online(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR while no directory can be written."""
        failure = self.failure
        if failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the data directory is offline: {failure}")

    def log(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, or None."""
        for directory in self.directories:
            log = directory.catalogue.find(topic_partition)
            if log is not None:
                return log
        return None

    def logs(self) -> tuple[Log, ...]:
        """All logs."""
        return tuple(log for directory in self.directories for log in directory.logs())

    def directory_of(self, topic_partition: TopicPartition) -> DirectoryLogs | None:
        """The directory that has the log of a partition, or None."""
        for directory in self.directories:
            if directory.catalogue.find(topic_partition) is not None:
                return directory
        return None

    def load(self) -> LoadReport:
        """Open the directories and load every log in them, with recovery of one that was not closed cleanly. BLOCKING.

        A directory that cannot be read is left out, unless it is the first. Raises DirectoryError when a directory is
        in use or another has its identity, OSError.
        """
        begun_ms = self._clock.monotonic_ms()
        for directory in self.directories:
            self._or_left_out(directory, DirectoryLogs.open)
        self._require_different()
        results = map_in_threads(
            lambda directory: self._or_left_out(directory, DirectoryLogs.load), self.directories, items_per_task=1
        )
        loaded = [found for result in results for found in result or ()]
        return LoadReport(
            len(loaded),
            all(directory.directory.was_clean for directory in self.directories if directory.is_loaded),
            sum(found.scanned_bytes for found in loaded),
            tuple(found.cut for found in loaded if found.cut is not None),
            self._clock.monotonic_ms() - begun_ms,
            tuple(segment for found in loaded for segment in found.damaged),
            tuple(
                f"{directory.path} is left out, what lies in it is offline until it can be read: {directory.failure}"
                for directory in self.directories
                if not directory.is_loaded
            ),
        )

    def _or_left_out(self, directory: DirectoryLogs, work: Callable[[DirectoryLogs], R]) -> R | None:
        if not directory.is_loaded:
            return None
        try:
            return work(directory)
        except OSError as error:
            if isinstance(error, DirectoryError):
                raise
            if directory is self.directories[0]:
                raise unusable(directory.path, error) from error
            directory.leave_out(error)
            return None

    def _require_different(self) -> None:
        seen: dict[UUID, str] = {}
        for directory in self.directories:
            directory_id = directory.directory.known_id
            if directory_id is None or not directory.is_loaded:
                continue
            if directory_id in seen:
                raise DirectoryError(
                    f"{seen[directory_id]} and {directory.path} have the same directory.id in meta.properties, one is "
                    "a copy of the other: give the one that belongs to this broker"
                )
            seen[directory_id] = directory.path

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the event loop drive the writes from now on, and remove what was left of deleted logs beside it."""
        for directory in self.directories:
            directory.attach(loop)

    def require_owner(self, cluster_id: str, node_id: int) -> None:
        """See that the directories are new or this node's; nothing is written. Raises DirectoryError."""
        for each in self.directories:
            if each.is_loaded:
                each.directory.require_owner(cluster_id, node_id)

    async def identify(self, cluster_id: str, node_id: int) -> bool:
        """See that the directories are this node's, or make them so; whether all that hold logs were.

        Raises DirectoryError, OSError.
        """
        known = [
            await directory.identify(cluster_id, node_id) or (number > 0 and not directory.logs())
            for number, directory in enumerate(self.directories)
        ]
        return all(known)

    @property
    def directory_ids(self) -> tuple[UUID, ...]:
        """The ids of the directories that are loaded."""
        return tuple(
            directory_id for directory in self.directories if (directory_id := directory.directory_id) is not None
        )

    @property
    def use(self) -> DirectoryUse:
        """By which sessions the directories were used, all together: the oldest copy counts, and the latest loss."""
        uses = [each.directory.use for each in self.directories if each.is_loaded]
        if any(use.clean_since < 0 for use in uses):
            return UNCLEAN_USE
        return DirectoryUse(
            max((use.clean_since for use in uses), default=-1), min((use.broker_epoch for use in uses), default=-1)
        )

    def used_by(self, broker_epoch: int) -> None:
        """A session of this broker began: what a clean end writes down."""
        for each in self.directories:
            each.directory.use = each.directory.use.by(broker_epoch)

    async def create_log(self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig) -> Log:
        """Make the log of a partition, or return the one there is when it has the same topic id.

        Raises ApiError KAFKA_STORAGE_ERROR when no directory is online or another topic's log is in the way.
        """
        (log,) = await self.create_logs([topic_partition], topic_id, config)
        return log

    async def create_logs(
        self,
        topic_partitions: Sequence[TopicPartition],
        topic_id: UUID,
        config: LogConfig,
        places: Mapping[TopicPartition, UUID | None] = NO_PLACES,
    ) -> list[Log]:
        """`create_log` for several partitions of one topic, in one go; each of `places` in the directory of that id."""
        if len(self.directories) == 1:
            return await self.directories[0].catalogue.create(topic_partitions, topic_id, config)
        async with self._create_lock:
            placed: dict[DirectoryLogs, list[TopicPartition]] = {}
            counts = {each: each.catalogue.count for each in self.directories if each.failure is None}
            for name in topic_partitions:
                directory = self.directory_of(name) or self._directory_by_id(places.get(name))
                preferred = self._preferred.pop(name, None)
                if directory is None and preferred is not None and preferred.failure is None:
                    directory = preferred
                if directory is None:
                    self.require_online()
                    directory = min(counts, key=counts.__getitem__)
                    counts[directory] += 1
                placed.setdefault(directory, []).append(name)
            made: dict[TopicPartition, Log] = {}
            for directory, names in placed.items():
                logs = await directory.catalogue.create(names, topic_id, config)
                made.update(zip(names, logs, strict=True))
            return [made[name] for name in topic_partitions]

    def prefer(self, topic_partition: TopicPartition, directory: DirectoryLogs) -> None:
        """Make a log that is not there in this directory, if it comes. The last `PREFERRED_MAX` are remembered."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = directory
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def directory_at(self, path: str) -> DirectoryLogs | None:
        """The directory that `log.dirs` names so, as an absolute path; None for any other."""
        return next((directory for directory in self.directories if directory.path == path), None)

    def _directory_by_id(self, directory_id: UUID | None) -> DirectoryLogs | None:
        if directory_id is None:
            return None
        for directory in self.directories:
            if directory.directory_id == directory_id:
                return directory
        return None

    def resume_moves(self, is_offline: Callable[[TopicPartition], bool] = lambda _name: False) -> None:
        """Begin the moves anew that the last broker did not finish; of what is offline its copy is left alone."""
        for directory in self.directories:
            for name in directory.futures.take_unfinished(is_offline) if directory.catalogue.unfinished else ():
                log, source = self.log(name), self.directory_of(name)
                if log is not None and source is not None and source is not directory and not self.moves.find(name):
                    self.moves.start(log, source, directory)

    async def settle_duplicates(
        self, topic_id_of: Callable[[TopicPartition], UUID | None], is_used: Callable[[Log], bool]
    ) -> list[str]:
        """Have each log be in one directory: one that was away, or a move that was cut short, may have left it in two.

        That of the topic's id stays, then the one that `is_used`, then the one that has more, then the one that was
        begun later, to which it was moved; the others are set aside. Returns where they lie now, which no start looks
        at. Raises OSError.
        """
        found: dict[TopicPartition, list[tuple[DirectoryLogs, Log]]] = {}
        if len(self.directories) > 1:
            for directory in self.directories:
                for log in directory.logs():
                    found.setdefault(log.topic_partition, []).append((directory, log))
        moved: list[str] = []
        for name, logs in found.items():
            if len(logs) == 1:
                continue
            wanted = topic_id_of(name)
            ranks = [
                (log.topic_id == wanted, is_used(log), log.log_end_offset, await _begun_ms(directory, log))
                for directory, log in logs
            ]
            several = [logs[index] for index in sorted(range(len(logs)), key=ranks.__getitem__)]
            for directory, _ in several[:-1]:
                moved += (await directory.catalogue.set_aside([name])).values()
                await directory.cleaned.checkpoint.forget([name])
        return moved

    async def delete_log(self, topic_partition: TopicPartition) -> None:
        """Take a log away: its directory is renamed at once and removed after `file.delete.delay.ms`.

        An unknown one is passed over; one that cannot be renamed is gone as well, and renamed later.
        """
        await self.delete_logs([topic_partition])

    async def delete_logs(self, topic_partitions: Collection[TopicPartition]) -> None:
        """`delete_log` for several, in one go."""
        await self.moves.cancel(topic_partitions)
        for directory in self.directories:
            await directory.catalogue.delete(topic_partitions)
            await directory.cleaned.checkpoint.forget(topic_partitions)

    async def set_aside(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Take logs away without removing anything; where they lie now, which no start looks at. Raises OSError."""
        renamed: dict[TopicPartition, str] = {}
        for directory in self.directories:
            some = await directory.catalogue.set_aside(topic_partitions)
            await directory.cleaned.checkpoint.forget(some)
            renamed |= some
        return renamed

    async def truncate_log(self, log: Log, offset: int) -> None:
        """Remove everything from `offset` on; a batch that contains it goes as a whole. Raises ApiError, OSError."""
        directory = self.directory_of(log.topic_partition)
        if directory is not None:
            await directory.reloader.truncate(log, offset)

    async def restart_log(self, log: Log, offset: int) -> None:
        """Remove everything in a log, which goes on at `offset`, wherever it was. Raises ApiError, OSError."""
        directory = self.directory_of(log.topic_partition)
        if directory is not None:
            await directory.reloader.restart(log, offset)

    async def apply_retention(self) -> int:
        """Delete the segments that are too old, too much, or before the log start; forget producers long silent.

        Returns how many segments went.
        """
        return sum(await self._in_each(DirectoryLogs.apply_retention))

    async def flush_due(self) -> int:
        """Flush the logs whose `flush.ms` has passed since their last flush; returns how many."""
        return sum(await self._in_each(DirectoryLogs.flush_due))

    async def checkpoint_recovery_points(self) -> None:
        """Remember up to where each log is on disk, so that recovery need not look below. Raises OSError."""
        await self._in_each(DirectoryLogs.checkpoint_recovery_points)

    async def checkpoint_log_starts(self, topic_partitions: Iterable[TopicPartition] | None = None) -> None:
        """Make durable where every log starts; those who ask at the same time share a write. Raises OSError.

        With `topic_partitions` at least of these: directories that have none of them are passed over.
        """
        if topic_partitions is None or len(self.directories) == 1:
            await self._in_each(DirectoryLogs.checkpoint_log_starts)
            return
        wanted = {directory: None for name in topic_partitions if (directory := self.directory_of(name)) is not None}
        await _each(wanted, DirectoryLogs.checkpoint_log_starts)

    async def checkpoint_high_watermarks(self) -> None:
        """Remember what is committed. Raises OSError."""
        await self._in_each(DirectoryLogs.checkpoint_high_watermarks)

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """What was committed of a log, as far as the start found it written down; 0 when nothing was."""
        directory = self.directory_of(topic_partition) or self.directories[0]
        return directory.checkpoints.high_watermark(topic_partition)

    @property
    def high_watermark_of(self) -> Callable[[Log], int]:
        """What of a log is committed; for one with a single replica what it counts as its own."""
        return self.directories[0].checkpoints.high_watermark_of

    @high_watermark_of.setter
    def high_watermark_of(self, committed: Callable[[Log], int]) -> None:
        for directory in self.directories:
            directory.checkpoints.high_watermark_of = committed

    async def close(self, *, clean: bool = True) -> None:
        """Write everything out and end the log I/O threads; with `clean` also mark the directories as complete.

        Who is changing the files of a log finishes first, who comes later does nothing. A directory that is offline is
        not marked. Raises OSError, once all are closed.
        """
        for directory in self.directories:
            directory.catalogue.close()
        await self.moves.stop()
        await self.cleaner.stop()
        await _each(self.directories, lambda directory: directory.close(clean=clean))

    async def _in_each(self, work: Callable[[DirectoryLogs], Awaitable[T]]) -> list[T]:
        return await _each([directory for directory in self.directories if directory.is_loaded], work)


async def _each(directories: Iterable[DirectoryLogs], work: Callable[[DirectoryLogs], Awaitable[T]]) -> list[T]:
    """Work in every directory, whatever becomes of the others; raises the first OSError at the end."""
    results, failure = [], None
    for directory in directories:
        try:
            results.append(await work(directory))
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results


async def _begun_ms(directory: DirectoryLogs, log: Log) -> int:
    """When the copy of a log in this directory was begun: its first file is written then, and never again."""
    resources = directory.resources
    try:
        return await resources.in_thread(resources.disk.modified_ms, f"{log.directory}/{PARTITION_METADATA}")
    except FileNotFoundError:
        return 0
