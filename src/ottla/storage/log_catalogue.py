r"""The logs of one data directory by their names: finding them at the start, making them, deleting them.

nothing --make--> log --delete--> renamed to ...-delete --later--> nothing
                             \--> the rename failed: passed over, and tried again by `finish_deletions`
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError, InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.clock import Clock
from ottla.runtime.parallel import map_in_threads, processor_count
from ottla.runtime.turns import in_turns
from ottla.storage.file_names import (
    PARTITION_METADATA,
    deleted_directory_name,
    is_deleted_directory_name,
    parse_future_directory_name,
    parse_log_directory_name,
    stray_directory_name,
)
from ottla.storage.log import Log
from ottla.storage.log_checkpoints import LogCheckpoints
from ottla.storage.log_config import LogConfig
from ottla.storage.log_directory import LogDirectory
from ottla.storage.log_loader import Checkpoints, LoadedLog, LogLoader
from ottla.storage.log_locks import LogLocks
from ottla.storage.log_resources import LogResources
from ottla.storage.partition_metadata import UNKNOWN_TOPIC_ID, format_partition_metadata, parse_partition_metadata
from ottla.storage.segment_removal import SegmentRemoval

logger: Final = logging.getLogger(__name__)

LARGE_TO_CHECK_BYTES: Final = 1 << 20
"""From here on the reading of a log outweighs the way to another thread, and what threads cost each other."""


class LogCatalogue:
    """`load` runs first, in any thread; everything else belongs to the event loop.

    Who makes or deletes logs holds their names, so a log is not made before the one of its name is out of its way.
    """

    def __init__(
        self,
        directory: LogDirectory,
        resources: LogResources,
        checkpoints: LogCheckpoints,
        removal: SegmentRemoval,
        locks: LogLocks,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._resources = resources
        self._checkpoints = checkpoints
        self._removal = removal
        self._locks = locks
        self._clock = clock
        self._logs: dict[TopicPartition, Log] = {}
        self.futures: Final[dict[TopicPartition, Log]] = {}
        """Copies of logs that are on their way into the directory (`future_logs`)."""
        self.unfinished: dict[str, TopicPartition] = {}
        """Directories of such copies that were there at the start."""
        self._undeleted: dict[str, TopicPartition] = {}
        """The directories of logs that were deleted and could not be renamed."""
        self._unsynced: set[str] = set()
        self.leftovers: list[str] = []
        """The directories of deleted logs that were there at the start."""
        self.is_closed = False

    def find(self, topic_partition: TopicPartition) -> Log | None:
        """The log of a partition, or None."""
        return self._logs.get(topic_partition)

    def holds(self, log: Log) -> bool:
        """Whether a log is still the one of its name and its files may be changed: look again whenever you waited."""
        return not self.is_closed and self._logs.get(log.topic_partition) is log

    def logs(self) -> tuple[Log, ...]:
        """All logs."""
        return tuple(self._logs.values())

    def discard(self) -> None:
        """Know nothing of the logs that were loaded, because the others could not be."""
        for log in self._logs.values():
            log.producers.leave()
        self._logs.clear()
        self._unsynced.clear()
        self.leftovers.clear()
        self.unfinished.clear()

    def checkpointed(self) -> tuple[Log, ...]:
        """All logs, and the copies of those that are on their way here: what the checkpoints speak of."""
        return (*self._logs.values(), *self.futures.values())

    @property
    def count(self) -> int:
        """How many logs lie in the directory, or will."""
        return len(self._logs) + len(self.futures)

    def release(self, log: Log) -> None:
        """The log lies in another directory now; whoever calls this holds it."""
        del self._logs[log.topic_partition]

    def delete_later(self, name: TopicPartition, path: str) -> None:
        """What lies at `path` is no log any more and could not be renamed: `finish_deletions` does it."""
        self._undeleted[path] = name

    def adopt(self, log: Log) -> None:
        """The log lies here now; whoever calls this holds it."""
        self._logs[log.topic_partition] = log

    def close(self) -> None:
        """From now on no log is made, deleted, cut or loaded again."""
        self.is_closed = True

    def loader(self, log: Log) -> LogLoader:
        """What loads a log again."""
        return self.loader_at(log.topic_partition, log.directory, log.config)

    def load(self) -> list[LoadedLog]:
        """Load every log in the directory, with recovery when it was not closed cleanly. BLOCKING. Raises OSError."""
        directories = self._log_directories()
        self._checkpoints.read()
        if not directories:
            self._checkpoints.begin()
        loaded, large = [], []
        for path, topic_partition in directories:
            loader = self.loader_at(topic_partition, path, LogConfig())
            if loader.bytes_to_check(self._checkpoints.of(topic_partition)) < LARGE_TO_CHECK_BYTES:
                loaded.append(self._load_log(loader))
            else:
                large.append(loader)
        # One after another, but side by side those of which much has to be checked.
        return loaded + map_in_threads(self._load_log, large, threads=processor_count(), items_per_task=1)

    async def create(self, names: Sequence[TopicPartition], topic_id: UUID, config: LogConfig) -> list[Log]:
        """Make the logs of partitions of one topic; those that are there are taken when they are this topic's.

        Raises ApiError KAFKA_STORAGE_ERROR when the directory is offline or another topic's log is in the way.
        """
        async with self._locks.hold(names):
            self._require_open()
            missing = [name for name in names if name not in self._logs]
            if missing:
                await self._make(missing, topic_id, config)
            claimed: list[Log] = []
            async for some in in_turns(names):
                claimed += [await self._claim(self._logs[name], topic_id, config) for name in some]
            return claimed

    async def delete(self, names: Collection[TopicPartition]) -> None:
        """Take logs away: their directories are renamed at once and removed after `file.delete.delay.ms`.

        Unknown ones are passed over. What cannot be renamed is out of the catalogue nevertheless, with a word in the
        log, and tried again later.
        """
        async with self._locks.hold(names):
            self._require_open()
            found = [self._logs.pop(name, None) for name in names]
            logs = [log for log in found if log is not None]
            if logs:
                async for some in in_turns(logs):
                    await asyncio.gather(*map(_let_go, some))
                directories = {log.directory: log.topic_partition for log in logs}
                await self._rename_deleted(directories, logs[0].config.file_delete_delay_ms)

    async def set_aside(self, names: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Take logs away without removing anything: their directories get names that no log has, which are returned.

        Unknown ones are passed over. What cannot be renamed is out of the catalogue nevertheless, with a word in the
        log, and there again after the next start.
        """
        async with self._locks.hold(names):
            self._require_open()
            logs = [log for name in names if (log := self._logs.pop(name, None)) is not None]
            async for some in in_turns(logs):
                await asyncio.gather(*map(_let_go, some))
            wanted = {log.topic_partition: self._stray_path(log.topic_partition) for log in logs}
            return await self._resources.in_thread(self._rename_strays, wanted)

    def _rename_strays(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        """BLOCKING."""
        renamed = {}
        for name, path in wanted.items():
            try:
                self._resources.disk.rename(self._path(name), path, durable=False)
            except OSError as error:
                logger.warning("could not rename %s, it stays: %s", self._path(name), error)
                continue
            renamed[name] = path
        if renamed:
            self._resources.disk.sync_dir(self._directory.path)
        return renamed

    async def finish_deletions(self) -> None:
        """Rename what could not be renamed when it was deleted."""
        for path, name in tuple(self._undeleted.items()):
            async with self._locks.hold([name]):
                if path in self._undeleted and not self.is_closed:
                    await self._rename_deleted({path: name}, delay_ms=0)

    async def sync_unsynced(self) -> None:
        """Make durable what was made anew at the start and may be only in memory. Raises OSError."""
        await self._resources.in_thread(map_in_threads, self._sync_if_there, sorted(self._unsynced))

    def _require_open(self) -> None:
        if self.is_closed:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._directory.path} is being closed")

    async def _make(self, names: Sequence[TopicPartition], topic_id: UUID, config: LogConfig) -> None:
        writer = self._resources.writer
        if writer.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the data directory is offline: {writer.failure}")
        loaders = {name: self.loader_at(name, self._path(name), config) for name in names}
        try:
            await self._checkpoints.forget(names)
            found, leftovers = await self._resources.in_thread(self._make_directories, loaders, topic_id)
        except OSError as error:
            writer.fail("open", error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"could not make {self._path(names[0])}: {error}") from error
        async for some in in_turns(names):
            for name in some:
                path, state = self._path(name), found[name].state
                self._undeleted.pop(path, None)
                self._logs[name] = Log(name, topic_id, path, config, self._resources, state, identity_is_durable=False)
        if leftovers:
            self._removal.remove_trees_later(leftovers, config.file_delete_delay_ms)

    def _make_directories(
        self, loaders: Mapping[TopicPartition, LogLoader], topic_id: UUID
    ) -> tuple[dict[TopicPartition, LoadedLog], list[str]]:
        """The new logs, and the directories that were in the way and renamed. BLOCKING.

        What is there under the name of no log is left of a creation or a deletion that failed. The log I/O thread makes
        the names durable before it reports the first sync of a file.
        """
        disk, metadata = self._resources.disk, format_partition_metadata(topic_id)
        found, leftovers = {}, []
        for name, loader in loaders.items():
            if disk.exists(loader.directory):
                leftovers.append(self._deleted_path(name))
                disk.rename(loader.directory, leftovers[-1], durable=False)
            disk.make_dir(loader.directory, durable=False)
            disk.write(f"{loader.directory}/{PARTITION_METADATA}", metadata)
            found[name] = loader.load(Checkpoints(was_clean=True))
        return found, leftovers

    async def _claim(self, log: Log, topic_id: UUID, config: LogConfig) -> Log:
        """See that a log is this topic's."""
        if log.topic_id == UNKNOWN_TOPIC_ID:
            path = f"{log.directory}/{PARTITION_METADATA}"
            await self._resources.in_thread(
                self._resources.disk.write_atomic, path, format_partition_metadata(topic_id)
            )
            log.topic_id = topic_id
        elif log.topic_id != topic_id:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory} holds another topic, {log.topic_id}")
        log.config = config
        return log

    async def _rename_deleted(self, directories: Mapping[str, TopicPartition], delay_ms: int) -> None:
        wanted = {path: self._deleted_path(name) for path, name in directories.items()}
        renamed = await self._resources.in_thread(self._rename, wanted)
        for path, name in directories.items():
            if path in renamed:
                self._undeleted.pop(path, None)
            else:
                self._undeleted[path] = name
        self._removal.remove_trees_later([wanted[path] for path in renamed], delay_ms)

    def _rename(self, wanted: Mapping[str, str]) -> set[str]:
        """Rename directories; returns the old names of those that are not there any more. BLOCKING."""
        disk = self._resources.disk
        renamed = set()
        for old, new in wanted.items():
            try:
                disk.rename(old, new, durable=False)
            except FileNotFoundError:
                pass
            except OSError as error:
                logger.warning("could not rename the deleted log %s, retrying: %s", old, error)
                continue
            renamed.add(old)
        try:
            disk.sync_dir(self._directory.path)
        except OSError as error:
            logger.warning("could not sync the deletion of logs; they may come back after a power failure: %s", error)
        return renamed

    def _log_directories(self) -> list[tuple[str, TopicPartition]]:
        """The directories of logs, and in `leftovers` what waited to be removed."""
        disk = self._resources.disk
        found = []
        for name in disk.list_dir(self._directory.path):
            path = f"{self._directory.path}/{name}"
            topic_partition = parse_log_directory_name(name)
            if is_deleted_directory_name(name):
                self.leftovers.append(path)
            elif (copied := parse_future_directory_name(name)) is not None:
                self.unfinished[path] = copied
            elif topic_partition is not None and disk.is_dir(path):
                found.append((path, topic_partition))
        return found

    def _load_log(self, loader: LogLoader) -> LoadedLog:
        name, directory = loader.topic_partition, loader.directory
        found = loader.load(self._checkpoints.of(name))
        topic_id = self._read_topic_id(directory)
        if topic_id != UNKNOWN_TOPIC_ID and not self._directory.was_clean:
            found = replace(found, to_sync=(*found.to_sync, f"{directory}/{PARTITION_METADATA}"))
        self._logs[name] = Log(name, topic_id, directory, loader.config, self._resources, found.state)
        return found

    def _read_topic_id(self, directory: str) -> UUID:
        path = f"{directory}/{PARTITION_METADATA}"
        try:
            return parse_partition_metadata(self._resources.disk.read_bytes(path))
        except FileNotFoundError:
            return UNKNOWN_TOPIC_ID
        except InvalidInputError as error:
            logger.warning("ignoring %s: %s", path, error)
            return UNKNOWN_TOPIC_ID

    def loader_at(self, topic_partition: TopicPartition, directory: str, config: LogConfig) -> LogLoader:
        """What loads the files of a log."""
        resources = self._resources
        return LogLoader(
            topic_partition,
            directory,
            config,
            resources.disk,
            resources.writer,
            self._clock.now_ms(),
            self._unsynced,
            resources.rng,
        )

    def _path(self, name: TopicPartition) -> str:
        return f"{self._directory.path}/{name}"

    def _deleted_path(self, name: TopicPartition) -> str:
        return f"{self._directory.path}/{deleted_directory_name(name, self._resources.rng.uuid())}"

    def _stray_path(self, name: TopicPartition) -> str:
        return f"{self._directory.path}/{stray_directory_name(name, self._resources.rng.uuid())}"

    def _sync_if_there(self, path: str) -> None:
        if self._resources.disk.exists(path):
            self._resources.disk.sync_file(path)


async def _let_go(log: Log) -> None:
    try:
        await log.abandon_for_good()
    except ApiError as error:
        logger.warning("deleting %s although it could not be flushed: %s", log.topic_partition, error.message)
