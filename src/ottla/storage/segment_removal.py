"""Deleting files so that whoever still reads them can finish: renamed first, removed some time later."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.file_names import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX
from ottla.storage.log_resources import LogResources
from ottla.storage.log_segment import LogSegment

logger: Final = logging.getLogger(__name__)


class SegmentRemoval:
    """Removes segments and whole logs. Belongs to the event loop. What a crash leaves is removed at the next start."""

    __slots__ = ("_resources", "_tasks", "_timer")

    def __init__(self, resources: LogResources, timer: Timer, tasks: Tasks) -> None:
        self._resources = resources
        self._timer = timer
        self._tasks = tasks

    async def remove(self, segments: list[LogSegment], snapshot: str, delay_ms: int) -> None:
        """Rename the files of segments now and remove them after `delay_ms`. Raises OSError.

        `snapshot` is that of the producers at the end of the last of them, which becomes durable first: it is all that
        is left of producers whose batches go.
        """
        self._resources.retire(segments)
        renamed = await self._tasks.in_thread(self._rename, segments, snapshot)
        self.remove_files_later(renamed, delay_ms)

    def remove_files_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files after `delay_ms`."""
        self._timer.schedule(delay_ms, lambda: self._in_background(self._resources.disk.remove, paths))

    def remove_trees_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove directories after `delay_ms`."""
        self._timer.schedule(delay_ms, lambda: self._in_background(self._resources.disk.remove_tree, paths))

    def _in_background(self, remove: Callable[[str], None], paths: Sequence[str]) -> None:
        self._tasks.spawn(self._remove(remove, paths), "remove deleted files")

    def _rename(self, segments: list[LogSegment], snapshot: str) -> list[str]:
        disk = self._resources.disk
        if disk.exists(snapshot):
            disk.sync_file(snapshot)
        renamed = []
        for segment in segments:
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
                path = segment.path(suffix)
                if disk.exists(path):
                    disk.rename(path, path + DELETED_SUFFIX, durable=False)
                    renamed.append(path + DELETED_SUFFIX)
        return renamed

    async def _remove(self, remove: Callable[[str], None], paths: Sequence[str]) -> None:
        """Those that cannot be removed now are removed at the next start."""
        for path in paths:
            try:
                await self._tasks.in_thread(remove, path)
            except OSError as error:
                logger.warning("could not delete %s: %s", path, error)
