"""Putting a copy of a log in its place, in another data directory.

    /disk1/orders-0                     /disk2/orders-0.<unique>-future        copied, but for the last appends
1   appends wait, the rest is copied, the copy completed and synced
2   /disk1/orders-0                     /disk2/orders-0                        both whole, nothing was appended since
3   /disk1/orders-0.<unique>-delete     /disk2/orders-0                        appends go on in /disk2

A crash before 2 leaves the log where it was, and a copy that is made anew. Between 2 and 3 there are two that are the
same; the one that was begun later is taken, so that the move holds. What fails is undone, and the log goes on where it
was; where that fails as well, step 3 is left for later, and it goes on in its new place.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.model.errors import ApiError
from ottla.native.errors import KernelError
from ottla.runtime.clock import Clock
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.file_names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, deleted_directory_name
from ottla.storage.log import Log
from ottla.storage.log_copy import LogCopy, StaleCopyError
from ottla.storage.log_loader import Checkpoints, make_durable
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_state import LogState

logger: Final = logging.getLogger(__name__)


class LogSwap:
    """One swap of one log. Belongs to the event loop; the log is held while it is done."""

    def __init__(
        self,
        copy: LogCopy,
        source: DirectoryLogs,
        target: DirectoryLogs,
        locks: LogLocks,
        hold_appends: Callable[[Log], Callable[[], None]],
        clock: Clock,
    ) -> None:
        self._copy = copy
        self._log = copy.log
        self._future = copy.future
        self._source = source
        self._target = target
        self._locks = locks
        self._hold_appends = hold_appends
        self._clock = clock
        name = copy.log.topic_partition
        unique = source.resources.rng.uuid()
        self._old_path = copy.log.directory
        self._deleted_path = f"{source.path}/{deleted_directory_name(name, unique)}"
        self._new_path = f"{target.path}/{name}"

    async def run(self) -> None:
        """Have the log lie in the target; nearly everything is copied and on disk.

        Raises StaleCopyError when the log was changed meanwhile; OSError, ApiError, KernelError when it stays where it
        was.
        """
        async with self._locks.hold([self._log.topic_partition]):
            if not self._source.catalogue.holds(self._log) or self._target.catalogue.is_closed:
                raise StaleCopyError
            release = self._hold_appends(self._log)
            try:
                await self._complete()
                await self._take_place()
            finally:
                release()

    async def _complete(self) -> None:
        """Step 1, and the name of step 2."""
        log, future, target = self._log, self._future, self._target
        await log.abandon()
        try:
            while await self._copy.step(self._clock.now_ms()):
                pass
            future.delete_records_before(log.log_start_offset)
            await future.close()
            await target.checkpoints.write_log_starts(target.catalogue.checkpointed)
            await target.resources.in_thread(self._complete_files)
        except (OSError, ApiError, KernelError, StaleCopyError):
            await target.resources.in_thread(self._give_name_back)
            await self._source.reloader.reopen(log)
            raise

    def _complete_files(self) -> None:
        """What the copy lacks, and its name. BLOCKING."""
        disk, log, path = self._target.resources.disk, self._log, self._future.directory
        log.leader_epochs.write(disk, f"{path}/{LEADER_EPOCH_CHECKPOINT}")
        log.leader_epochs.is_dirty = True  # where it was, if it has to stay there
        # Who wrote what retention or compaction removed is known to the log only.
        snapshot = self._future.snapshots.path(log.log_end_offset)
        disk.write(snapshot, log.producers.snapshot())
        disk.sync_file(snapshot)
        disk.sync_file(f"{path}/{PARTITION_METADATA}")
        disk.sync_dir(path)
        disk.rename(path, self._new_path)

    async def _take_place(self) -> None:
        """Step 3."""
        log, source, target = self._log, self._source, self._target
        rename = target.resources.disk.rename
        try:
            state = await target.resources.in_thread(self._load_new)
            log.move(self._new_path, target.resources, state)  # before: readers never look for what is renamed
            await source.resources.in_thread(rename, self._old_path, self._deleted_path)
        except OSError as error:
            try:
                await self._go_back()
            except OSError as another:
                if log.directory != self._new_path:
                    raise
                logger.warning(
                    "%s stays in %s, because writing to %s failed: %s",
                    log.topic_partition,
                    target.path,
                    source.path,
                    another,
                )
                source.catalogue.delete_later(log.topic_partition, self._old_path)
            else:
                raise error
        source.catalogue.release(log)
        target.catalogue.futures.pop(log.topic_partition, None)
        target.catalogue.adopt(log)
        log.take_appends()
        source.removal.remove_trees_later([self._deleted_path], log.config.file_delete_delay_ms)

    async def _go_back(self) -> None:
        """Go on where the log was. Raises OSError when it cannot be read there."""
        log, source = self._log, self._source
        state = await source.resources.in_thread(self._load_old)
        log.move(self._old_path, source.resources, state, identity_is_durable=False)
        log.take_appends()
        await self._target.resources.in_thread(self._give_name_back)

    def _load_new(self) -> LogState:
        """BLOCKING. Raises OSError."""
        log = self._log
        loader = self._target.catalogue.loader_at(log.topic_partition, self._new_path, log.config)
        found = loader.load(Checkpoints(was_clean=True, log_start_offset=log.log_start_offset))
        make_durable(self._target.resources.disk, [found])
        return found.state

    def _load_old(self) -> LogState:
        """BLOCKING. Raises OSError."""
        log, disk = self._log, self._source.resources.disk
        if disk.exists(self._deleted_path):  # renamed, but perhaps not for good
            disk.rename(self._deleted_path, self._old_path)
        log.leader_epochs.write(disk, f"{self._old_path}/{LEADER_EPOCH_CHECKPOINT}")
        loader = self._source.catalogue.loader_at(log.topic_partition, self._old_path, log.config)
        found = loader.load(Checkpoints(False, log.log_end_offset, log.log_start_offset))
        make_durable(disk, [found])
        return found.state

    def _give_name_back(self) -> None:
        """The copy is a copy again. BLOCKING."""
        disk = self._target.resources.disk
        try:
            if disk.exists(self._new_path):
                disk.rename(self._new_path, self._future.directory)
        except OSError as error:
            logger.warning(
                "%s exists twice; the second copy is set aside at the next start: %s", self._log.topic_partition, error
            )
