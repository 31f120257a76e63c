r"""The logs of one data directory, and the thread that writes them.

LogCatalogue      which logs there are: found, made, deleted      LogLocks: who changes the files of which log
LogRetention      old segments go                                 LogReloader: cut, loaded again
LogCheckpoints    what the next start goes by                     resume: writes are taken again

configured --load--> loaded --a write fails--> offline, reads go on --resume--> loaded
            \--> left out: it cannot be read, its logs are nowhere  --resume--> loaded
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.model.errors import ApiError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.storage.compaction.cleaned_directory import CleanedDirectory, CleanerCheckpoint
from ottla.storage.file_names import CLEANER_CHECKPOINT
from ottla.storage.log import Log
from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_checkpoints import LogCheckpoints
from ottla.storage.log_directory import LogDirectory
from ottla.storage.log_flushing import flush_due_logs
from ottla.storage.log_io import LogIo
from ottla.storage.log_loader import LoadedLog, make_durable
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_reloading import LogReloader
from ottla.storage.log_resources import LogResources
from ottla.storage.log_resumption import resume
from ottla.storage.log_retention import LogRetention
from ottla.storage.log_writer import LogWriter
from ottla.storage.offset_checkpoint import OffsetCheckpointFile
from ottla.storage.segment_removal import SegmentRemoval

if TYPE_CHECKING:
    from ottla.storage.future_logs import FutureLogs

logger: Final = logging.getLogger(__name__)


class DirectoryLogs:
    """`load` runs first, in any thread; from `attach` on it belongs to the event loop."""

    def __init__(
        self,
        path: str,
        io: LogIo,
        resources: Callable[[LogWriter], LogResources],
        removal: Callable[[LogResources], SegmentRemoval],
        locks: LogLocks,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        """`resources` are shared with the other directories, but for the writer; so are `locks`."""
        self.path = path
        self.on_failure: Callable[[OSError], None] | None = None
        self.writer = LogWriter(io, self._fail)
        """Its failure is why the directory is offline, if it is: reads go on, appends are refused."""
        self._clock = clock
        self._tasks = tasks
        self._locks = locks
        self._identity: tuple[str, int] | None = None
        self._load_failure: OSError | None = None
        self.resources = own = resources(self.writer)
        """Access to this disk, and what is shared with the other directories."""
        self.directory = LogDirectory(path, own.disk, own.rng)
        self.removal = removal(own)
        self.checkpoints = LogCheckpoints(self.directory, own, locks)
        self.catalogue = LogCatalogue(self.directory, own, self.checkpoints, self.removal, locks, clock)
        self.reloader = LogReloader(self.catalogue, own, self.checkpoints, locks)
        self._retention = LogRetention(self.catalogue, own, self.removal, locks, clock)
        cleaner_checkpoint = CleanerCheckpoint(OffsetCheckpointFile(own.disk, f"{path}/{CLEANER_CHECKPOINT}"), own)
        self.cleaned = CleanedDirectory(self.catalogue, own, cleaner_checkpoint, self.checkpoints, self.removal)
        """What the cleaner has to know."""

    @property
    def failure(self) -> OSError | None:
        """Why nothing can be written here: the directory is offline, or was left out."""
        return self.writer.failure or self._load_failure

    @property
    def failure_can_pass(self) -> bool:
        """Whether `resume` may bring the directory back: nothing was lost by what failed, or it was never loaded."""
        return self.writer.failure_can_pass or (self.writer.failure is None and self._load_failure is not None)

    @property
    def is_loaded(self) -> bool:
        """Whether the logs in it are known."""
        return self._load_failure is None

    @property
    def directory_id(self) -> UUID | None:
        """By what the metadata knows the directory; None while it cannot be read."""
        return self.directory.directory_id if self.is_loaded else None

    @cached_property
    def futures(self) -> "FutureLogs":
        """The copies of logs that are on their way here."""
        from ottla.storage.future_logs import FutureLogs  # late: few brokers move anything

        return FutureLogs(self.path, self.catalogue, self.checkpoints, self.resources, self.removal)

    def logs(self) -> tuple[Log, ...]:
        """All logs in it."""
        return self.catalogue.logs()

    def holds(self, log: Log) -> bool:
        """Whether a log lies here."""
        return self.catalogue.find(log.topic_partition) is log

    def leave_out(self, error: OSError) -> None:
        """The directory cannot be loaded: go on without it. In any thread, before anything else."""
        self._load_failure = error
        self.catalogue.discard()
        try:
            self.directory.close(clean=False)
        except OSError as another:
            logger.debug("%s could not be let go of: %s", self.path, another)

    def open(self) -> None:
        """Take the directory for this process. BLOCKING. Raises DirectoryError, OSError."""
        self.directory.open()

    def load(self) -> list[LoadedLog]:
        """Load every log in the directory, which is open, with recovery when it was not closed cleanly. BLOCKING.

        Raises OSError.
        """
        loaded = self.catalogue.load()
        self.cleaned.checkpoint.read()
        make_durable(self.resources.disk, loaded)
        if self.directory.was_failing:
            self.directory.mark_sound()
        return loaded

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the event loop drive the writes from now on, and remove what was left of deleted logs beside it."""
        self.writer.attach(loop)
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        if self.catalogue.leftovers:
            self.removal.remove_trees_later(self.catalogue.leftovers, 0)

    async def identify(self, cluster_id: str, node_id: int) -> bool:
        """See that the directory is this node's, or make it so; whether it was. Raises DirectoryError, OSError."""
        self._identity = cluster_id, node_id
        return not self.is_loaded or await self._tasks.in_thread(self.directory.identify, cluster_id, node_id)

    async def resume(self) -> None:
        """Take writes again after a failure that can pass (`log_resumption.resume`), or load what was left out.

        Raises OSError, ApiError when it is too early or something else is wrong.
        """
        if self.is_loaded:
            await resume(self.path, self.resources, self.catalogue, self.reloader)
            return
        await self._tasks.in_thread(self._load_again)
        self._load_failure = None
        self._remove_leftovers()

    def _load_again(self) -> None:
        try:
            self.directory.open()
            if self._identity is not None:
                self.directory.identify(*self._identity)
            self.load()
        except OSError as error:
            self.leave_out(error)
            raise

    async def apply_retention(self) -> int:
        """Delete the segments that are too old, too much, or before the log start; forget producers long silent.

        Returns how many segments went.
        """
        await self.catalogue.finish_deletions()
        return await self._retention.apply()

    async def flush_due(self) -> int:
        """Flush the logs whose `flush.ms` has passed since their last flush; returns how many."""
        return await flush_due_logs(self.logs(), self._clock.now_ms())

    async def checkpoint_recovery_points(self) -> None:
        """Remember up to where each log is on disk, so that recovery need not look below. Raises OSError."""
        await self.checkpoints.write_recovery_points(self.catalogue.checkpointed)

    async def checkpoint_log_starts(self) -> None:
        """Make durable where every log starts; those who ask at the same time share a write. Raises OSError."""
        await self.checkpoints.write_log_starts(self.catalogue.checkpointed)

    async def checkpoint_high_watermarks(self) -> None:
        """Remember what is committed. Raises OSError."""
        await self.checkpoints.write_high_watermarks(self.catalogue.checkpointed)

    async def space(self) -> tuple[int, int]:
        """The size of the file system that holds the directory, and what is free in it, in bytes. Raises OSError."""
        return await self._tasks.in_thread(self.resources.disk.space, self.path)

    async def close(self, *, clean: bool) -> None:
        """Write everything out and end the log I/O thread; with `clean` also mark the directory as complete.

        Who is changing the files of a log finishes first, who comes later does nothing. A directory that is offline is
        not marked. Raises OSError.
        """
        self.catalogue.close()
        logs = self.logs()
        async with self._locks.hold({log.topic_partition for log in logs} | set(self._locks.held)):
            complete = clean and self.is_loaded and await _close_all(logs)
        if complete:
            await self.checkpoints.write_last(logs)
            await self.catalogue.sync_unsynced()
        self.writer.detach()
        await self._tasks.in_thread(self.writer.finish)
        self.writer.poll()
        await self._tasks.in_thread(self.directory.close, clean=complete and self.writer.failure is None)

    async def _mark_failing(self) -> None:
        try:
            await self._tasks.in_thread(self.directory.mark_failing)
        except OSError as error:
            logger.warning(
                "could not store a marker of the disk failure: restart the machine, not only the broker: %s", error
            )

    def _fail(self, error: OSError) -> None:
        if not self.writer.failure_can_pass:
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
