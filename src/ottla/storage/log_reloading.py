"""Putting the files of a log that is open in order, and loading it again: after a cut, or after writes that failed."""

import logging
from bisect import bisect_left
from typing import Final

from ottla.storage.file_names import SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.log import Log
from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_checkpoints import LogCheckpoints, write_leader_epochs
from ottla.storage.log_loader import Checkpoints, LoadedLog, LogLoader, make_durable
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_resources import LogResources
from ottla.storage.open_file import OpenFile

_BASE_OFFSET_BYTES: Final = 8
"""The base offset of a batch comes first in it."""

logger: Final = logging.getLogger(__name__)


class LogReloader:
    """Belongs to the event loop. Each log is held while it is worked on; one that is deleted by then is passed over."""

    def __init__(
        self, catalogue: LogCatalogue, resources: LogResources, checkpoints: LogCheckpoints, locks: LogLocks
    ) -> None:
        self._catalogue = catalogue
        self._resources = resources
        self._checkpoints = checkpoints
        self._locks = locks

    async def truncate(self, log: Log, offset: int) -> None:
        """Remove everything from `offset` on; a batch that contains it goes as a whole. Raises ApiError, OSError.

        After an error the log cannot be read or written, until a `resume` of the directory loads it again.
        """
        async with self._locks.hold([log.topic_partition]):
            if offset >= log.log_end_offset or not self._catalogue.holds(log):
                return
            await log.abandon()
            await self._checkpoints.lower_recovery_point(log.topic_partition, offset)
            try:
                found = await self._resources.in_thread(self._cut, log, offset, self._catalogue.loader(log))
            except OSError as error:
                self._resources.writer.fail("write", error)
                raise
            log.reopen(found.state)

    async def restart(self, log: Log, offset: int) -> None:
        """Remove everything and go on at `offset`, wherever the log was. Raises ApiError, OSError as `truncate` does.

        A crash in the middle leaves some of the oldest segments, or an empty log.
        """
        async with self._locks.hold([log.topic_partition]):
            if not self._catalogue.holds(log):
                return
            await log.abandon()
            log.log_start_offset = offset
            await self._checkpoints.lower_recovery_point(log.topic_partition, offset)
            await self._checkpoints.write_log_starts(self._catalogue.checkpointed)
            try:
                found = await self._resources.in_thread(self._empty, log, offset, self._catalogue.loader(log))
            except OSError as error:
                self._resources.writer.fail("write", error)
                raise
            log.reopen(found.state)

    async def reload(self, log: Log) -> None:
        """Load a log again whose writes may have failed: what got into its files whole is kept.

        One that is settled is left as it is. Raises ApiError, OSError.
        """
        async with self._locks.hold([log.topic_partition]):
            if log.is_settled or not self._catalogue.holds(log):
                return
            await log.abandon()
            found = await self._resources.in_thread(self._load_flushed, log, self._catalogue.loader(log))
            if found.cut is not None:
                logger.warning("%s", found.cut)
            log.reopen(found.state)

    async def reopen(self, log: Log) -> None:
        """Load a log again that the caller holds and has abandoned. Raises OSError as `truncate` does."""
        try:
            found = await self._resources.in_thread(self._load_flushed, log, self._catalogue.loader(log))
        except OSError as error:
            self._resources.writer.fail("write", error)
            raise
        log.reopen(found.state)

    def _cut(self, log: Log, offset: int, loader: LogLoader) -> LoadedLog:
        disk, files, indexes = self._resources.disk, self._resources.files, self._resources.indexes
        write_leader_epochs(disk, log)
        segments = list(log.segments)
        kept_count = max(bisect_left(segments, offset, key=lambda segment: segment.base_offset), 1)
        newest = segments[kept_count - 1]
        found = newest.find_batch(offset, newest.size, files, indexes) if newest.size else None
        self._resources.retire(segments)
        for segment in reversed(segments[kept_count:]):
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(segment.path(suffix))
        sound_up_to = newest.base_offset
        if found is not None:
            position, _ = found
            # What was synced below the cut need not be read again: a segment is large, and who is cut is to follow.
            base_offset = OpenFile(disk, newest.log_path).pread(_BASE_OFFSET_BYTES, position)
            sound_up_to = max(sound_up_to, min(int.from_bytes(base_offset), log.flushed_end_offset))
            disk.truncate(newest.log_path, position)
            disk.sync_file(newest.log_path)
        disk.sync_dir(log.directory)
        return self._load(loader, Checkpoints(False, sound_up_to, log.log_start_offset))

    def _empty(self, log: Log, offset: int, loader: LogLoader) -> LoadedLog:
        disk = self._resources.disk
        segments = list(log.segments)
        self._resources.retire(segments)
        log.leader_epochs.truncate_from_end(0)
        write_leader_epochs(disk, log)
        for segment in reversed(segments):
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(segment.path(suffix))
        for name in disk.file_sizes(log.directory):
            if name.endswith(SNAPSHOT_SUFFIX):
                disk.remove(f"{log.directory}/{name}")
        disk.sync_dir(log.directory)
        return self._load(loader, Checkpoints(False, offset, offset))

    def _load_flushed(self, log: Log, loader: LogLoader) -> LoadedLog:
        write_leader_epochs(self._resources.disk, log)
        for segment in log.segments:
            index = segment.transaction_index_in_memory
            if index is not None:
                self._resources.disk.write(segment.path(TRANSACTION_INDEX_SUFFIX), index.to_bytes())
        return self._load(loader, Checkpoints(False, log.flushed_end_offset, log.log_start_offset))

    def _load(self, loader: LogLoader, checkpoints: Checkpoints) -> LoadedLog:
        found = loader.load(checkpoints)
        make_durable(self._resources.disk, [found])
        return found
