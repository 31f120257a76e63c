"""The manifest of an archive.

```
  ARCHIVE/
    archive.json                    format, and of which cluster
    groups.json                     positions of consumer groups in the archived topics
    topics/flights.events/
      topic.json                    topic id, settings, and by partition the ranges of offsets and their files
      0/00000000000000000000-00000000000000120000.parquet     the records of [0, 120000)
```

The ranges of a partition, those with a file and those without, follow each other from its `start` to its `end` without
a hole. Offsets of a range that no record has are legal: compaction, markers and aborted transactions leave them. A
range without a file has no record at all, or, if it `is_lost`, had some that expired before they were archived.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

FORMAT = 1
"""The format of the directory. An archive of another format is refused."""


class ArchiveError(Exception):
    """An archive cannot be opened, written, read or restored. The message is one line: which, why, what to do."""


class ArchiveHeader(Struct, frozen=True):
    """The cluster that the archive belongs to."""

    cluster_id: str | None
    format: int = FORMAT


class Epoch(Struct, frozen=True, array_like=True):
    """The leader epoch of batches from `start` on, up to the next `Epoch`."""

    epoch: int
    start_offset: int


class ArchivedRange(Struct, frozen=True, omit_defaults=True):
    """The offsets `start <= offset < end`. `file`, relative to the topic's directory, contains their records.

    `crc32c` is of the whole file; timestamps are in milliseconds, None without a record.
    """

    start: int
    end: int
    file: str | None = None
    rows: int = 0
    bytes: int = 0
    crc32c: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    epochs: tuple[Epoch, ...] = ()
    is_lost: bool = False


class ArchivedPartition(Struct, frozen=True):
    """The archived ranges of a partition, in order and without holes."""

    partition: int
    start: int
    ranges: tuple[ArchivedRange, ...] = ()

    @property
    def end(self) -> int:
        """The offset where the next run begins."""
        return self.ranges[-1].end if self.ranges else self.start

    @property
    def files(self) -> tuple[ArchivedRange, ...]:
        """The ranges that have a file."""
        return tuple(each for each in self.ranges if each.file is not None)

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(each.rows for each in self.ranges)

    @property
    def lost(self) -> int:
        """The number of offsets that expired before they were archived."""
        return sum(each.end - each.start for each in self.ranges if each.is_lost)

    def extended(self, ranges: Iterable[ArchivedRange]) -> "ArchivedPartition":
        """A copy with more ranges at the end; adjacent ranges of one kind without a file are merged."""
        found = list(self.ranges)
        for each in ranges:
            assert each.start == (found[-1].end if found else self.start)
            assert each.end > each.start
            last = found[-1] if found else None
            if last is not None and last.file is each.file is None and last.is_lost == each.is_lost:
                found[-1] = ArchivedRange(last.start, each.end, is_lost=each.is_lost)
            else:
                found.append(each)
        return ArchivedPartition(self.partition, self.start, tuple(found))


class ArchivedTopic(Struct, frozen=True):
    """A topic with its own settings. `retired` has the files that left it, and when (ms since 1970)."""

    name: str
    topic_id: str
    replication_factor: int
    settings: dict[str, str]
    partitions: tuple[ArchivedPartition, ...] = ()
    retired: dict[str, int] = {}
    archived_ms: int = 0

    def with_partition(self, partition: ArchivedPartition) -> "ArchivedTopic":
        """A copy with this partition replaced."""
        others = [each for each in self.partitions if each.partition != partition.partition]
        ordered = sorted([*others, partition], key=lambda each: each.partition)
        return msgspec.structs.replace(self, partitions=tuple(ordered))


class GroupPosition(Struct, frozen=True):
    """The committed offset of a consumer group in a partition, with its metadata."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str = ""


class GroupPositions(Struct, frozen=True):
    """The committed offsets of all groups at the start of the newest run, so none is after the archived records."""

    positions: tuple[GroupPosition, ...] = ()
    taken_ms: int = 0
