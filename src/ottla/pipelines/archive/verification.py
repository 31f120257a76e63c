"""Verifies the files of an archive against its manifest."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.file_writer import arrow_schema, checksum_of
from ottla.pipelines.archive.manifest import ArchivedPartition, ArchivedRange, ArchivedTopic

_ROWS: Final = 65_536


class VerifiedPartition(Struct, frozen=True):
    """A partition and its faults, one line each, which begins with the file. Without faults it is sound."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    files: int
    bytes: int
    damage: tuple[str, ...]


def verify(archive: Archive, topics: list[ArchivedTopic]) -> Iterator[VerifiedPartition]:
    """Yields each partition of these topics when it has been read.

    Raises ArchiveError where what is kept of groups, which belongs to no topic, is damaged.
    """
    archive.groups()
    for topic in topics:
        directory = archive.topic_directory(topic.name)
        for partition in topic.partitions:
            damage = [*_ranges(partition)]
            for each in partition.files:
                damage += [f"{each.file}: {reason}" for reason in _file(archive, directory, topic, partition, each)]
            yield VerifiedPartition(
                topic.name,
                partition.partition,
                partition.start,
                partition.end,
                partition.rows,
                len(partition.files),
                sum(each.bytes for each in partition.files),
                tuple(damage),
            )


def _ranges(partition: ArchivedPartition) -> Iterator[str]:
    expected = partition.start
    for each in partition.ranges:
        if each.start != expected or each.end <= each.start:
            yield f"topic.json: offsets {each.start} to {each.end} do not follow offset {expected}"
        expected = each.end


def _file(
    archive: Archive, directory: Path, topic: ArchivedTopic, partition: ArchivedPartition, each: ArchivedRange
) -> Iterator[str]:
    assert each.file is not None
    path = directory / each.file
    if not archive.disk.exists(path):
        yield f"it is missing, with the records of offsets {each.start} to {each.end}"
        return
    size = archive.disk.size(path)
    if size != each.bytes:
        yield f"it has {size} bytes, and had {each.bytes} when it was written"
        return
    if checksum_of(path, archive.disk) != each.crc32c:
        yield "its checksum is not that of what was written: it was altered"
        return
    yield from _content(path, topic, partition, each)


def _content(path: Path, topic: ArchivedTopic, partition: ArchivedPartition, each: ArchivedRange) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        if not file.schema_arrow.equals(arrow_schema()):
            yield "its columns are not those of an archive"
            return
        rows, last = 0, each.start - 1
        # All columns are read, so that every page is decoded.
        for batch in file.iter_batches(_ROWS):
            offsets = batch["offset"]
            bounds = pc.min_max(offsets).as_py()
            before = pa.concat_arrays([pa.array([last], pa.int64()), offsets[:-1]])
            if not pc.all(pc.greater(offsets, before)).as_py() or bounds["max"] >= each.end:
                yield f"its offsets do not grow, or are not between {each.start} and {each.end}"
                return
            if not pc.all(pc.equal(batch["partition"], partition.partition)).as_py() or not (
                pc.all(pc.equal(batch["topic"], topic.name)).as_py()
            ):
                yield "it has records of another partition"
                return
            rows, last = rows + batch.num_rows, bounds["max"]
        if rows != each.rows:
            yield f"it has {rows} records, and had {each.rows} when it was written"
    except (pa.ArrowException, OSError) as error:
        yield f"it cannot be read: {error}"
