"""Checkpoint files: a few numbers in text, replaced as a whole.

0                version
2                entries
orders 0 4711    topic, partition, offset        (leader-epoch-checkpoint: epoch, start offset)
orders 1 815
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.disk import Disk

_VERSION: Final = 0


class MalformedCheckpointError(InvalidInputError):
    """A checkpoint file is not what it claims to be."""


def format_checkpoint(entries: Iterable[Sequence[object]]) -> bytes:
    """The file that holds `entries`."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "\n".join((str(_VERSION), str(len(lines)), *lines, "")).encode()


def parse_checkpoint(data: bytes, fields: int) -> list[list[str]]:
    """The entries of a file, each of `fields` words. Raises MalformedCheckpointError."""
    try:
        version, count, *lines = data.decode().splitlines()
        entries = [line.split() for line in lines if line.strip()]
        if int(version) != _VERSION:
            raise MalformedCheckpointError(f"checkpoint version {version} is not known")
        if int(count) != len(entries) or any(len(entry) != fields for entry in entries):
            raise MalformedCheckpointError(f"{count} entries of {fields} fields are announced, others are there")
    except ValueError as error:
        raise MalformedCheckpointError(f"not a checkpoint: {error}") from error
    return entries


class OffsetCheckpointFile:
    """One offset for each partition of a data directory. Both methods are BLOCKING."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def read(self) -> dict[TopicPartition, int] | None:
        """The offsets; None when there is no file. Raises MalformedCheckpointError, OSError."""
        if not self._disk.exists(self.path):
            return None
        entries = parse_checkpoint(self._disk.read_bytes(self.path), 3)
        try:
            return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
        except ValueError as error:
            raise MalformedCheckpointError(f"{self.path}: {error}") from error

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file, durably."""
        self._disk.write_atomic(self.path, format_checkpoint((*key, offset) for key, offset in offsets.items()))
