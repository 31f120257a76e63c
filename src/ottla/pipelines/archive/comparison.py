"""Compares the log of a partition with the archived records.

Both are read once, in order, and compared in whole Arrow batches: offset, timestamp and its type, key, value and
headers of every record. A checksum would need the same reads, and could not say which offsets differ.

```
  archive    [100 .. 103]  [107]
  log        [100 .. 103]  [107]  [120]      offset 120: the log has records that the archive does not have
```
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from ottla.client.consuming.offsets import IsolationLevel
from ottla.model.topic_partition import TopicPartition
from ottla.native.errors import KernelError
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.log_reader import LogSource, read
from ottla.pipelines.archive.manifest import ArchivedPartition

_ROWS: Final = 65_536


class ComparedPartition(Struct, frozen=True):
    """The result for a partition. `difference` names the first offsets that differ, and how; None if all are equal."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    difference: str | None = None


def compare(
    archive: Archive, topic: str, partition: ArchivedPartition, log: LogSource, start: int, end: int
) -> ComparedPartition:
    """Read the whole log, from `start` to `end`, uncommitted records included, and compare it.

    Raises ClientError, and ArchiveError for a log that cannot be read to its end.
    """
    found = _Rows(_restored(log, TopicPartition(topic, partition.partition), start, end))
    try:
        difference = _first_difference(_Rows(archived_records(archive, topic, partition)), found, partition.end, end)
    except KernelError as error:
        difference = f"offset {found.next_offset or start}: the log cannot be decoded: {error}"
    if difference is None and (start, end) != (partition.start, partition.end):
        difference = (
            f"the log has offsets {start} to {end}, and should have offsets {partition.start} to {partition.end}"
        )
    return ComparedPartition(topic, partition.partition, start, end, found.taken, difference)


def archived_records(archive: Archive, topic: str, partition: ArchivedPartition) -> Iterator[Any]:
    """The archived records of a partition, in order of offsets, as Arrow record batches."""
    import pyarrow.parquet as pq

    for each in partition.files:
        assert each.file is not None
        yield from pq.ParquetFile(archive.topic_directory(topic) / each.file).iter_batches(_ROWS)


def _restored(log: LogSource, place: TopicPartition, start: int, end: int) -> Iterator[Any]:
    for piece in read(log, place, start, end, isolation=IsolationLevel.READ_UNCOMMITTED):
        yield from piece.records


class _Rows:
    """Rows that come in batches of any size, and are taken in others."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.taken = 0
        self.next_offset: int | None = None
        self._batches = batches
        self._rest: Any = None

    def ready(self) -> int:
        """The number of rows available now; 0 at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return 0
        return int(self._rest.num_rows)

    def first_offset(self) -> int:
        """The offset of the row that is taken next; there is one."""
        return int(self._rest["offset"][0].as_py())

    def take(self, count: int) -> Any:
        """So many rows, at most as many as are ready."""
        taken, self._rest = self._rest.slice(0, count), self._rest.slice(count)
        self.taken += count
        self.next_offset = int(taken["offset"][count - 1].as_py()) + 1
        return taken


def _first_difference(archived: _Rows, found: _Rows, archive_end: int, log_end: int) -> str | None:
    while count := min(archived.ready(), found.ready()):
        expected, actual = archived.take(count), found.take(count)
        if not expected.equals(actual):
            return _difference(expected, actual)
    if archived.ready():
        return _lacking(archived.first_offset(), archive_end)
    if found.ready():
        return _unknown(found.first_offset(), log_end)
    return None


def _difference(expected: Any, actual: Any) -> str:
    """Of two batches of one length that are not equal."""
    rows = expected.num_rows
    first = bisect_left(
        range(1, rows), True, key=lambda count: not expected.slice(0, count).equals(actual.slice(0, count))
    )
    offset, other = expected["offset"][first].as_py(), actual["offset"][first].as_py()
    if offset < other:
        return _lacking(offset, _end_below(other, expected["offset"].slice(first)))
    if offset > other:
        return _unknown(other, _end_below(offset, actual["offset"].slice(first)))
    end = first + 1
    while end < rows and _is_altered(expected.slice(end, 1), actual.slice(end, 1)):
        end += 1
    names = [
        name
        for name in expected.schema.names
        if not expected[name].slice(first, end - first).equals(actual[name].slice(first, end - first))
    ]
    last = expected["offset"][end - 1].as_py()
    return f"{_offsets(offset, last + 1)}: not as archived: {', '.join(names)}"


def _end_below(limit: int, offsets: Any) -> int:
    """What follows the last of these offsets below a limit; the first is below it."""
    import pyarrow.compute as pc

    return int(pc.max(offsets.filter(pc.less(offsets, limit))).as_py()) + 1


def _is_altered(expected: Any, actual: Any) -> bool:
    return bool(expected["offset"].equals(actual["offset"]) and not expected.equals(actual))


def _lacking(start: int, end: int) -> str:
    return f"{_offsets(start, end)}: the log lacks records of the archive"


def _unknown(start: int, end: int) -> str:
    return f"{_offsets(start, end)}: the log has records that the archive does not have"


def _offsets(start: int, end: int) -> str:
    return f"offset {start}" if end - start == 1 else f"offsets {start} to {end - 1}"
