"""Merges small files of an archive into large ones. Offsets and records stay the same."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.file_writer import RangeFile
from ottla.pipelines.archive.manifest import ArchivedPartition, ArchivedRange, ArchivedTopic, ArchiveError
from ottla.pipelines.archive.running import remove_unnamed
from ottla.runtime.clock import Clock

_ROWS: Final = 65_536


class CompactedTopic(Struct, frozen=True):
    """The number of files of a topic that were merged, and the number of new files."""

    topic: str
    replaced: int
    made: int


def compact(archive: Archive, topics: Iterable[ArchivedTopic], target_bytes: int, clock: Clock) -> list[CompactedTopic]:
    """Merge adjacent files that together have up to `target_bytes`. Call it within `archive.locked()`.

    The manifest of a topic is replaced partition by partition; the old files stay for an hour. Raises ArchiveError for
    a file that does not hold what the manifest says: its topic stays as it was.
    """
    done = []
    for each in topics:
        topic, replaced, made = remove_unnamed(archive, each, clock.now_ms()), 0, 0
        for partition in topic.partitions:
            groups = plan(partition, target_bytes)
            if not groups:
                continue
            ranges = list(partition.ranges)
            old: list[str] = []
            for group in groups:
                joined = _join(archive, topic, partition, group)
                first = ranges.index(group[0])
                ranges[first : first + len(group)] = [joined]
                old += [member.file for member in group if member.file is not None]
                replaced, made = replaced + len(group), made + 1
            topic = topic.with_partition(ArchivedPartition(partition.partition, partition.start, tuple(ranges)))
            topic = msgspec.structs.replace(topic, retired=topic.retired | dict.fromkeys(old, clock.now_ms()))
            archive.save(topic)
        if topic != each:
            archive.save(topic)
        done.append(CompactedTopic(topic.name, replaced, made))
    return done


def plan(partition: ArchivedPartition, target_bytes: int) -> list[list[ArchivedRange]]:
    """Groups of two or more adjacent files, each with as many files as fit into the target size."""
    if target_bytes < 1:
        raise ValueError(f"files cannot be compacted to {target_bytes} bytes")
    groups: list[list[ArchivedRange]] = [[]]
    for each in partition.ranges:
        if each.file is None:
            groups.append([])
        elif sum(member.bytes for member in groups[-1]) + each.bytes <= target_bytes:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [group for group in groups if len(group) > 1]


def _join(
    archive: Archive, topic: ArchivedTopic, partition: ArchivedPartition, group: list[ArchivedRange]
) -> ArchivedRange:
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory = archive.topic_directory(topic.name)
    made = RangeFile(directory / str(partition.partition), group[0].start, archive.disk)
    try:
        for each in group:
            rows = made.rows
            assert each.file is not None
            try:
                for batch in pq.ParquetFile(directory / each.file).iter_batches(_ROWS):
                    made.add(batch)
            except (pa.ArrowException, OSError) as error:
                raise ArchiveError(
                    f"{directory / each.file}: it cannot be read: {error}; `ottla archive verify` shows more"
                ) from error
            if made.rows - rows != each.rows:
                raise ArchiveError(
                    f"{directory / each.file}: it has {made.rows - rows} records, and had {each.rows} when it was "
                    "written; `ottla archive verify` shows more"
                )
            made.add_epochs(each.epochs)
        return made.finish(group[-1].end)
    except BaseException:
        made.discard()
        raise
