"""Picks the logs that are to be compacted, the dirtiest first, and compacts one after the other.

every `log.cleaner.backoff.ms`: look at all compacted logs --> the one with the largest dirty share --> a pass --> look
again, until none is worth a pass. `log.cleaner.threads` passes run side by side, never two over one log.

Where each log was compacted up to stands in `cleaner-offset-checkpoint`; what is lost of it is compacted again.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Self

from msgspec import Struct

from ottla.native.errors import KernelError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.batch_scan import CorruptSegmentError, scan_batches
from ottla.storage.compaction.cleaned_directory import CleanedDirectory
from ottla.storage.compaction.dirty_range import CompactionFacts, DirtyRange, dirty_range
from ottla.storage.compaction.log_compaction import CompactionInterruptedError, CompactionResult, LogCompaction
from ottla.storage.compaction.pace import Pace
from ottla.storage.compaction.stream_cleaning import StreamCleaning
from ottla.storage.log import Log
from ottla.storage.log_config import LONG_MAX
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment
from ottla.storage.open_file import OpenFiles

logger: Final = logging.getLogger(__name__)

SECRET_BYTES: Final = 16


class CleanerConfig(Struct, frozen=True):
    """The settings `log.cleaner.*` of the broker. Sizes in bytes, times in milliseconds."""

    threads: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 32 << 20
    """What the tables of keys of all passes take together."""
    io_max_bytes_per_second: float = float("inf")

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """What the broker's settings say."""
        return cls(
            threads=settings.integer("log.cleaner.threads"),
            backoff_ms=settings.integer("log.cleaner.backoff.ms"),
            dedupe_buffer_bytes=settings.integer("log.cleaner.dedupe.buffer.size"),
            io_max_bytes_per_second=settings.number("log.cleaner.io.max.bytes.per.second"),
        )


class LogCleaner:
    """The cleaner of all data directories, which share its threads and its table of keys. Belongs to the event loop."""

    def __init__(
        self,
        directories: Sequence[CleanedDirectory],
        locks: LogLocks,
        *,
        clock: Clock,
        timer: Timer,
        tasks: Tasks,
        config: CleanerConfig,
    ) -> None:
        self.config = config
        self._directories = directories
        self._locks = locks
        self._clock = clock
        self._timer = timer
        self._tasks = tasks
        self._pace = Pace(clock, timer)
        self._streams = StreamCleaning()
        self._picking = asyncio.Lock()
        """Held by who looks for a log to compact: the next one chooses among those that are left."""
        self._in_progress: set[Log] = set()
        self._uncleanable: set[Log] = set()
        self._due: TimerTask | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._working = 0
        self._is_stopping = False

    def start(self) -> None:
        """Begin; the first look comes after the back-off."""
        self._due = self._timer.schedule(self.config.backoff_ms, self._look)

    def configure(self, config: CleanerConfig) -> None:
        """Go on with other settings; a pass that is under way ends with its own table of keys."""
        if config == self.config:
            return
        if config.io_max_bytes_per_second != self.config.io_max_bytes_per_second:
            self._pace.forgive()
        self.config = config
        if self._due is not None:
            self._due.cancel()
            self.start()

    async def stop(self) -> None:
        """Interrupt the passes and wait until each has let go of its log."""
        self._is_stopping = True
        if self._due is not None:
            self._due.cancel()
        self._pace.forgive()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def run_once(self) -> CompactionResult | None:
        """Compact the dirtiest log; None when none is worth a pass. A failure is logged, and its log passed over."""
        picked = await self._pick()
        if picked is None:
            return None
        directory, log, dirty = picked
        try:
            return await self._compact(directory, log, dirty)
        except CompactionInterruptedError:
            return None
        except (KernelError, CorruptSegmentError) as error:
            self._uncleanable.add(log)
            logger.error("%s is not compacted any more until the broker starts again: %s", log.topic_partition, error)
        except OSError as error:
            logger.warning("could not compact %s, retrying: %s", log.topic_partition, error)
        finally:
            self._in_progress.discard(log)
        return None

    @property
    def _memory_bytes(self) -> int:
        return max(1, self.config.dedupe_buffer_bytes // max(1, self.config.threads))

    def _look(self) -> None:
        self._due = None
        self._workers = [self._tasks.spawn(self._work(), "log cleaner") for _ in range(self.config.threads)]
        self._working = len(self._workers)
        if not self._working:
            self.start()

    async def _work(self) -> None:
        try:
            while not self._is_stopping and await self.run_once() is not None:
                pass
        finally:
            self._working -= 1
            if not self._working and not self._is_stopping:
                self.start()

    async def _pick(self) -> tuple[CleanedDirectory, Log, DirtyRange] | None:
        """The log to be compacted next, with its directory; it is in progress from here on."""
        async with self._picking:
            now_ms = self._clock.now_ms()
            self._streams.forget_deleted()
            best: tuple[CleanedDirectory, Log, DirtyRange] | None = None
            for directory in self._directories:
                if directory.resources.writer.failure is not None:
                    continue
                for log in [log for log in directory.catalogue.logs() if self._is_candidate(log)]:
                    dirty = await self._look_at(directory, log, now_ms)
                    if dirty is not None and (best is None or _urgency(dirty) > _urgency(best[2])):
                        best = directory, log, dirty
            if best is not None:
                self._in_progress.add(best[1])
            return best

    def _is_candidate(self, log: Log) -> bool:
        return (
            ("compact" in log.config.cleanup_policy or log.config.is_stream)
            and len(log.segments) > 1
            and log not in self._in_progress
            and log not in self._uncleanable
        )

    async def _look_at(self, directory: CleanedDirectory, log: Log, now_ms: int) -> DirtyRange | None:
        """The dirty range of a log that is worth a pass."""
        if log.config.is_stream:
            try:
                return await self._streams.look(directory, log, self._memory_bytes)
            except (OSError, CorruptSegmentError, KernelError):
                return None  # as below
        segments = list(log.segments)
        resources = directory.resources
        try:
            facts = await resources.in_thread(_facts, segments, log, resources)
        except (OSError, CorruptSegmentError):
            return None  # a segment went meanwhile, or cannot be read: whoever reads it says so
        dirty = dirty_range(
            facts,
            cleaned_up_to=directory.checkpoint.cleaned_up_to.get(log.topic_partition),
            log_start_offset=log.log_start_offset,
            stable_end_offset=log.stable_end_offset,
            now_ms=now_ms,
            config=log.config,
        )
        return dirty if dirty.is_worth_a_pass(log.config.min_cleanable_dirty_ratio) else None

    async def _compact(self, directory: CleanedDirectory, log: Log, dirty: DirtyRange) -> CompactionResult:
        begun_ms = self._clock.monotonic_ms()
        snapshots = self._streams.snapshots_of(log) if log.config.is_stream else None
        newest = None if snapshots is None else snapshots.newest
        end_offset = dirty.uncleanable if newest is None else max(dirty.uncleanable, newest[1])
        if not await directory.checkpoints.secure(log, end_offset, directory.catalogue.checkpointed):
            raise CompactionInterruptedError
        compaction = LogCompaction(
            log,
            dirty,
            directory.resources,
            memory_bytes=self._memory_bytes,
            secret=directory.resources.rng.token_bytes(SECRET_BYTES),
            now_ms=self._clock.now_ms(),
            pace=self._take_time,
            remove_later=lambda paths: directory.removal.remove_files_later(paths, log.config.file_delete_delay_ms),
            hold=lambda: self._locks.hold([log.topic_partition]),
            is_wanted=lambda: directory.catalogue.holds(log) and not self._is_stopping,
            snapshots=snapshots,
        )
        result = await compaction.run()
        if directory.catalogue.holds(log):
            await directory.checkpoint.remember(log.topic_partition, result.end_offset)
        if snapshots is not None:
            self._streams.cleaned(log, dirty)
        logger.info(
            "compacted %s up to offset %d: kept %d of %d records and %d of %d bytes, in %d ms",
            log.topic_partition,
            result.end_offset,
            result.records_kept,
            result.records_read,
            result.bytes_kept,
            result.bytes_read,
            self._clock.monotonic_ms() - begun_ms,
        )
        return result

    async def _take_time(self, count: int) -> None:
        await self._pace.spend(count, self.config.io_max_bytes_per_second)


def _facts(segments: Sequence[LogSegment], log: Log, resources: LogResources) -> list[CompactionFacts]:
    """BLOCKING."""
    wants_age = log.config.max_compaction_lag_ms < LONG_MAX
    return [
        CompactionFacts(
            segment.base_offset,
            segment.size,
            segment.max_timestamp(resources.indexes).timestamp if log.config.min_compaction_lag_ms else -1,
            _first_timestamp(segment, resources.files) if wants_age else -1,
        )
        for segment in segments
    ]


def _first_timestamp(segment: LogSegment, files: OpenFiles) -> int:
    if not segment.size:
        return -1
    first = next(scan_batches(files.get(segment), 0, segment.size), None)
    return -1 if first is None else first.max_timestamp


def _urgency(dirty: DirtyRange) -> tuple[bool, float]:
    return dirty.is_overdue, dirty.ratio
