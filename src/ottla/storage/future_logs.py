"""The copies of logs that are on their way into a data directory: made, removed, and found at the start.

orders-0.5f0cd2b7e0fb4c0f9a3c3d8b8a5d6f10-future/       what was copied of orders-0 so far
"""

import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.storage.file_names import PARTITION_METADATA, future_directory_name
from ottla.storage.log import Log
from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_checkpoints import LogCheckpoints
from ottla.storage.log_loader import Checkpoints
from ottla.storage.log_resources import LogResources
from ottla.storage.log_state import LogState
from ottla.storage.partition_metadata import format_partition_metadata
from ottla.storage.producer_room import ProducerRoom
from ottla.storage.segment_removal import SegmentRemoval

logger: Final = logging.getLogger(__name__)

PRODUCERS_MAX: Final = 1_000
"""Producers that all copies into a directory remember together, beside those with open transactions: what is known of
them in the end comes from the log itself."""


class FutureLogs:
    """Those of one directory. Belongs to the event loop."""

    __slots__ = ("_catalogue", "_checkpoints", "_path", "_removal", "_resources")

    def __init__(
        self,
        path: str,
        catalogue: LogCatalogue,
        checkpoints: LogCheckpoints,
        resources: LogResources,
        removal: SegmentRemoval,
    ) -> None:
        self._path = path
        self._catalogue = catalogue
        self._checkpoints = checkpoints
        self._resources = replace(resources, producers=ProducerRoom(PRODUCERS_MAX))
        self._removal = removal

    async def begin(self, log: Log, first_offset: int) -> Log:
        """Make an empty copy of a log, to begin at `first_offset`. Raises ApiError KAFKA_STORAGE_ERROR, OSError."""
        name, resources = log.topic_partition, self._resources
        if resources.writer.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._path} is offline: {resources.writer.failure}")
        await self._checkpoints.forget([name])
        directory = f"{self._path}/{future_directory_name(name, resources.rng.uuid())}"
        state = await resources.in_thread(self._make, log, directory, first_offset)
        future = self._catalogue.futures[name] = Log(name, log.topic_id, directory, log.config, resources, state)
        return future

    async def remove(self, future: Log, *, keep_files: bool) -> None:
        """The copy is not wanted any more, or is a log now; with `keep_files` a start finds it."""
        if self._catalogue.futures.get(future.topic_partition) is not future:
            return  # it has taken its place
        del self._catalogue.futures[future.topic_partition]
        try:
            await future.abandon_for_good()
        except ApiError as error:
            logger.debug("%s could not be written out: %s", future.directory, error.message)
        if not keep_files:
            self._removal.remove_trees_later([future.directory], 0)

    def take_unfinished(self, is_offline: Callable[[TopicPartition], bool]) -> list[TopicPartition]:
        """The logs of which a copy was begun before the start; what is left of it is removed.

        Not of a log that `is_offline`: the copy may be all there is of it.
        """
        unfinished = {path: name for path, name in self._catalogue.unfinished.items() if not is_offline(name)}
        for path in unfinished:
            del self._catalogue.unfinished[path]
        self._removal.remove_trees_later(list(unfinished), 0)
        return list(unfinished.values())

    def _make(self, log: Log, directory: str, first_offset: int) -> LogState:
        """BLOCKING. Raises OSError."""
        disk = self._resources.disk
        disk.make_dir(directory)
        disk.write(f"{directory}/{PARTITION_METADATA}", format_partition_metadata(log.topic_id))
        loader = self._catalogue.loader_at(log.topic_partition, directory, log.config)
        return loader.load(Checkpoints(was_clean=True, log_start_offset=first_offset)).state
