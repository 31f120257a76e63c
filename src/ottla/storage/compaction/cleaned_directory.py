"""What the cleaner knows of a data directory: its logs, and up to where each was compacted."""

import asyncio
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from ottla.model.topic_partition import TopicPartition
from ottla.storage.log_catalogue import LogCatalogue
from ottla.storage.log_checkpoints import LogCheckpoints
from ottla.storage.log_directory import read_or_forget
from ottla.storage.log_resources import LogResources
from ottla.storage.offset_checkpoint import OffsetCheckpointFile
from ottla.storage.segment_removal import SegmentRemoval


class CleanerCheckpoint:
    """`cleaner-offset-checkpoint`: up to where each log was compacted. What is lost of it is compacted again."""

    __slots__ = ("_file", "_lock", "_resources", "cleaned_up_to")

    def __init__(self, file: OffsetCheckpointFile, resources: LogResources) -> None:
        self.cleaned_up_to: Final[dict[TopicPartition, int]] = {}
        self._file = file
        self._resources = resources
        self._lock = asyncio.Lock()

    def read(self) -> None:
        """Read the file. BLOCKING. Raises OSError."""
        self.cleaned_up_to.clear()
        self.cleaned_up_to.update(read_or_forget(self._file) or {})

    async def remember(self, topic_partition: TopicPartition, end_offset: int) -> None:
        """A log was compacted up to an offset. Raises OSError."""
        self.cleaned_up_to[topic_partition] = end_offset
        await self._write()

    async def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Logs of these names are gone: others may get the names. Raises OSError."""
        known = [name for name in topic_partitions if self.cleaned_up_to.pop(name, None) is not None]
        if known:
            await self._write()

    async def _write(self) -> None:
        async with self._lock:
            await self._resources.in_thread(self._file.write, dict(self.cleaned_up_to))


class CleanedDirectory(Struct, frozen=True, eq=False):
    """The parts of a data directory that compaction works with."""

    catalogue: LogCatalogue
    resources: LogResources
    checkpoint: CleanerCheckpoint
    checkpoints: LogCheckpoints
    removal: SegmentRemoval
