"""A log that goes further back than the brokers keep it: what has expired comes from an archive.

```
  offsets      0 ........ 500 ........ 900 ...... 1000
  archive      [------------- up to 900 ]
  broker                  [ begins at 500 ----------- ]
  this log     [------------------------------------- ]
```

Every reader sees one log that begins where the archive begins. The archive is read only for offsets that the brokers
no longer have; `ottla archive run` writes an archive. Its directory must exist on every machine that runs tasks.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import NO_OFFSET, ListedOffset, OffsetAt
from ottla.client.errors import OffsetOutOfRangeError
from ottla.client.io.cluster_metadata import TopicMetadata
from ottla.model.topic_partition import TopicPartition
from ottla.native import crc32c
from ottla.records.arrow_batches import SEGMENT_OFFSETS, batch_without_records, batches
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.options import OptionError

_ROWS = 10_000
_FORMAT = 1


class _Header(Struct):
    format: int


class _Range(Struct):
    start: int
    end: int
    file: str | None = None
    max_timestamp_ms: int | None = None
    is_lost: bool = False


class _Partition(Struct):
    partition: int
    ranges: list[_Range]


class _Topic(Struct):
    topic_id: str
    partitions: list[_Partition]


class ArchivedLog:
    """A `LogReader` over another, and an archive. The manifest of a topic is read when it is first needed."""

    def __init__(self, client: LogReader, archive: str) -> None:
        self._client = client
        self._path = Path(archive)
        self._ranges: dict[TopicPartition, list[_Range]] = {}
        self._reading: dict[TopicPartition, tuple[int, Iterator[Any], int]] = {}
        found = _read(self._path / "archive.json", _Header)
        if found is None:
            raise OptionError(f"option archive: there is no archive in {archive} (on every machine that runs tasks)")
        if found.format != _FORMAT:
            raise OptionError(f"option archive: {archive} has format {found.format}, this version reads {_FORMAT}")

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics that the brokers have."""
        return self._client.topics()

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """These topics. Raises TopicNotFoundError."""
        return self._client.metadata(topics)

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a consumer group."""
        return self._client.committed_offsets(group_id, partitions)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group without members."""
        self._client.commit_offsets(group_id, offsets)

    def list_offsets(self, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets at timestamps or edges, in the archive where the brokers have nothing as early."""
        found = self._client.list_offsets(at)
        older = [each for each, when in at.items() if when == OffsetAt.EARLIEST or when >= 0]
        begins = self._client.list_offsets(dict.fromkeys(older, int(OffsetAt.EARLIEST))) if older else {}
        for each in older:
            ranges = self._before(each, begins[each].offset)
            if not ranges:
                continue
            if at[each] == OffsetAt.EARLIEST:
                found[each] = ListedOffset(ranges[0].start, -1, found[each].leader_epoch)
            else:
                first = self._at_time(each, ranges, at[each])
                if first is not None and (found[each].offset == NO_OFFSET or first < found[each].offset):
                    found[each] = ListedOffset(first, at[each], found[each].leader_epoch)
        return found

    def fetch_raw(self, topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> FetchedBatches:
        """Record batches from an offset on. Those from the archive are encoded again, with the same offsets."""
        place = TopicPartition(topic, partition)
        if place in self._reading and self._reading[place][0] == offset:
            return self._next(place)
        try:
            return self._client.fetch_raw(topic, partition, offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
        except OffsetOutOfRangeError:
            held = next((each for each in self._archived(place) if each.start <= offset < each.end), None)
            if held is None or held.is_lost:
                raise
            self._reading[place] = (offset, self._rows(place, held, offset), held.end)
            return self._next(place)

    def _next(self, place: TopicPartition) -> FetchedBatches:
        """The next rows of the file that is read, and at its end the offsets without a record that it ends with."""
        offset, rows, end = self._reading.pop(place)
        records = next(rows, None)
        data = b""
        after = end
        if records is not None:
            made = list(batches(records))
            data = b"".join(batch for _, _, batch in made)
            after = made[-1][1] + 1
            self._reading[place] = (after, rows, end)
        else:
            after = min(end, offset + SEGMENT_OFFSETS)
            data = batch_without_records(offset, after - 1)
            if after < end:
                self._reading[place] = (after, rows, end)
        if after == end:
            self._reading.pop(place, None)
        return FetchedBatches(place, offset, memoryview(data), end, end, offset)

    def _rows(self, place: TopicPartition, held: _Range, offset: int) -> Iterator[Any]:
        if held.file is None:
            return
        # Here, because every Python worker of Spark imports this module, and few read an archive.
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self._path / "topics" / place.topic / held.file)
        for group in range(file.num_row_groups):
            # Files are in the order of their offsets: whole groups before the one that is wanted are passed over.
            last = file.metadata.row_group(group).column(_column(file, "offset")).statistics
            if last is not None and last.has_min_max and last.max < offset:
                continue
            for records in file.iter_batches(_ROWS, row_groups=[group]):
                offsets = records["offset"].to_pylist() if records["offset"][0].as_py() < offset else None
                begin = 0 if offsets is None else sum(each < offset for each in offsets)
                if begin < records.num_rows:
                    yield records.slice(begin)

    def _at_time(self, place: TopicPartition, ranges: list[_Range], timestamp_ms: int) -> int | None:
        """The first offset of the archive whose record is that young."""
        import pyarrow.parquet as pq

        for each in ranges:
            if each.file is None or each.max_timestamp_ms is None or each.max_timestamp_ms < timestamp_ms:
                continue
            file = pq.ParquetFile(self._path / "topics" / place.topic / each.file)
            for records in file.iter_batches(_ROWS, columns=["offset", "timestamp"]):
                stamps = records["timestamp"].cast("int64").to_pylist()
                row = next((row for row, stamp in enumerate(stamps) if stamp // 1000 >= timestamp_ms), None)
                if row is not None:
                    offset: int = records["offset"][row].as_py()
                    return offset
        return None

    def _before(self, place: TopicPartition, begin: int) -> list[_Range]:
        """What the archive has before the brokers begin; nothing where offsets in between are in neither."""
        ranges = self._archived(place)
        if not ranges or ranges[-1].end < begin:
            return []
        lost = [index for index, each in enumerate(ranges) if each.is_lost and each.start < begin]
        kept = ranges[lost[-1] + 1 :] if lost else ranges
        return kept if kept and kept[0].start < begin else []

    def _archived(self, place: TopicPartition) -> list[_Range]:
        if place not in self._ranges:
            self._ranges[place] = []
            topic = _read(self._path / "topics" / place.topic / "topic.json", _Topic)
            # The offsets of a topic that was created again are those of other records.
            if topic is not None and topic.topic_id == str(self._client.metadata([place.topic])[place.topic].topic_id):
                found = (each.ranges for each in topic.partitions if each.partition == place.partition)
                self._ranges[place] = next(found, [])
        return self._ranges[place]


def with_archive(client: LogReader, archive: str | None) -> LogReader:
    """The client, or an `ArchivedLog` over it if `archive` is set. Raises OptionError if the archive does not exist."""
    return client if archive is None else ArchivedLog(client, archive)


def _column(file: Any, name: str) -> int:
    names: list[str] = [file.metadata.schema.column(number).path for number in range(file.metadata.num_columns)]
    return names.index(name)


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        body, _, rest = path.read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if rest != b"%08x\n" % crc32c(body):
        raise OptionError(f"option archive: {path} is cut or was altered; `ottla archive verify` shows more")
    return msgspec.json.decode(body, type=kind)
