"""Updates an archive: reads each partition from the end of the archive up to the last stable offset.

What consumers of committed records see is archived, and nothing else: records of transactions that are open wait for
the next run, those of aborted ones are offsets without a record.

For each file: write it under another name, sync, rename, then name it in the topic's manifest. Whoever is killed on the
way leaves files that no manifest names, which the next run removes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.consuming.offsets import IsolationLevel, ListedOffset, OffsetAt
from ottla.client.errors import OffsetOutOfRangeError
from ottla.client.io.cluster_metadata import ClusterMetadata, TopicMetadata
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.file_writer import RangeFile
from ottla.pipelines.archive.log_reader import LogSource, read
from ottla.pipelines.archive.manifest import (
    ArchivedPartition,
    ArchivedRange,
    ArchivedTopic,
    ArchiveError,
    GroupPosition,
    GroupPositions,
)
from ottla.runtime.clock import Clock

FILE_BYTES: Final = 128 << 20
RETAIN_MS: Final = 60 * 60 * 1000
"""How long replaced files stay, for readers that have read an older manifest."""


class ArchivedCluster(LogSource, Protocol):
    """The requests of a run to the cluster, such as `ottla.client.blocking.BlockingClient`."""

    def cluster(self) -> ClusterMetadata:
        """The id of the cluster and its brokers."""
        ...

    def topics(self) -> dict[str, TopicMetadata]:
        """All topics."""
        ...

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The settings of the topic that differ from the defaults."""
        ...

    def list_offsets(
        self, at: Mapping[TopicPartition, int], *, isolation: IsolationLevel
    ) -> dict[TopicPartition, ListedOffset]:
        """The first and the end offsets of partitions."""
        ...

    def group_ids(self) -> list[str]:
        """The groups that commit offsets."""
        ...

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group."""
        ...


class PartitionRun(Struct, frozen=True):
    """The result of a run for a partition: its offsets, the number of records, and of lost offsets."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    lost: int


def run(
    archive: Archive,
    cluster: ArchivedCluster,
    names: Sequence[str],
    clock: Clock,
    *,
    file_bytes: int = FILE_BYTES,
    told: Callable[[PartitionRun], None] = lambda _: None,
) -> list[PartitionRun]:
    """Archive these topics, or all but internal ones if `names` is empty. Call it within `archive.locked()`.

    Raises ArchiveError and ClientError; what was archived before that stays.
    """
    topics = cluster.topics()
    wanted = list(names) or sorted(name for name, topic in topics.items() if not topic.is_internal)
    for name in wanted:
        if name not in topics:
            raise ArchiveError(f"topic {name!r} does not exist; `ottla topic list` shows those that do")
    archived = {topic.name for topic in archive.topics()}
    positions = _positions(cluster, archived | set(wanted))
    done = []
    for name in wanted:
        topic = _begin(archive, cluster, topics[name], clock)
        places = [TopicPartition(name, each.partition) for each in topics[name].partitions]
        begins = cluster.list_offsets(
            dict.fromkeys(places, int(OffsetAt.EARLIEST)), isolation=IsolationLevel.READ_COMMITTED
        )
        ends = cluster.list_offsets(
            dict.fromkeys(places, int(OffsetAt.LATEST)), isolation=IsolationLevel.READ_COMMITTED
        )
        if not topic.partitions:
            # Before the first file: all partitions are restored of a run that is killed, and no file lies without one.
            starts = tuple(ArchivedPartition(place.partition, begins[place].offset) for place in places)
            topic = msgspec.structs.replace(topic, partitions=starts)
            archive.save(topic)
        for place in places:
            topic, outcome = _partition(
                archive, cluster, topic, place, begins[place].offset, ends[place].offset, file_bytes
            )
            done.append(outcome)
            told(outcome)
        archive.save(msgspec.structs.replace(topic, archived_ms=clock.now_ms()))
    archive.save_groups(GroupPositions(positions, clock.now_ms()))
    return done


def remove_unnamed(archive: Archive, topic: ArchivedTopic, now_ms: int, retain_ms: int = RETAIN_MS) -> ArchivedTopic:
    """Remove files that the topic's manifest does not name, and those that left it `retain_ms` ago."""
    kept = {path: since for path, since in topic.retired.items() if since > now_ms - retain_ms}
    named = {each.file for partition in topic.partitions for each in partition.files} | kept.keys()
    directory = archive.topic_directory(topic.name)
    for number in archive.disk.list_dir(directory) if archive.disk.exists(directory) else ():
        if not archive.disk.is_dir(directory / number):
            continue
        for name in archive.disk.list_dir(directory / number):
            if f"{number}/{name}" not in named:
                archive.disk.remove(directory / number / name)
    return topic if kept == topic.retired else msgspec.structs.replace(topic, retired=kept)


def _begin(archive: Archive, cluster: ArchivedCluster, found: TopicMetadata, clock: Clock) -> ArchivedTopic:
    known = archive.topic(found.name)
    topic_id = str(found.topic_id)
    if known is not None and known.topic_id != topic_id:
        raise ArchiveError(
            f"topic {found.name!r} was deleted and created again since it was archived (its id was {known.topic_id}, "
            f"now it is {topic_id}); archive it to another directory"
        )
    replicas = max((len(each.replicas) for each in found.partitions), default=1)
    settings = cluster.topic_settings(found.name)
    if known is None:
        return ArchivedTopic(found.name, topic_id, replicas, settings)
    known = remove_unnamed(archive, known, clock.now_ms())
    return msgspec.structs.replace(known, replication_factor=replicas, settings=settings)


def _partition(
    archive: Archive,
    cluster: ArchivedCluster,
    topic: ArchivedTopic,
    place: TopicPartition,
    earliest: int,
    end: int,
    file_bytes: int,
) -> tuple[ArchivedTopic, PartitionRun]:
    known = next((each for each in topic.partitions if each.partition == place.partition), None)
    partition = known or ArchivedPartition(place.partition, earliest)
    begun, rows_before, lost_before = partition.end, partition.rows, partition.lost
    if end < begun:
        raise ArchiveError(
            f"{place} ends at offset {end}, and the archive has it up to {begun}: the broker lost records; "
            "archive it to another directory"
        )
    directory = archive.topic_directory(topic.name) / str(place.partition)
    while partition.end < end:
        if earliest > partition.end:
            partition = partition.extended([ArchivedRange(partition.end, min(earliest, end), is_lost=True)])
            continue
        try:
            found = _write_file(archive, cluster, place, directory, partition.end, end, file_bytes)
        except OffsetOutOfRangeError:
            # Expired meanwhile: what is gone is lost, and the rest is read.
            at = cluster.list_offsets({place: int(OffsetAt.EARLIEST)}, isolation=IsolationLevel.READ_COMMITTED)
            if at[place].offset <= earliest:
                raise
            earliest = at[place].offset
            continue
        partition = partition.extended([found])
        topic = topic.with_partition(partition)
        archive.save(topic)
    outcome = PartitionRun(*place, begun, partition.end, partition.rows - rows_before, partition.lost - lost_before)
    return topic.with_partition(partition), outcome


def _write_file(
    archive: Archive,
    cluster: ArchivedCluster,
    place: TopicPartition,
    directory: Path,
    start: int,
    end: int,
    file_bytes: int,
) -> ArchivedRange:
    """One file from `start` on, or, where there is no record up to `end`, a range without one."""
    file: RangeFile | None = None
    try:
        for piece in read(cluster, place, start, end):
            if piece.records:
                file = file or RangeFile(directory, start, archive.disk)
                for records in piece.records:
                    file.add(records)
            if file is not None:
                file.add_epochs(piece.epochs)
                if file.written_bytes >= file_bytes:
                    return file.finish(piece.end)
        return ArchivedRange(start, end) if file is None else file.finish(end)
    except BaseException:
        if file is not None:
            file.discard()
        raise


def _positions(cluster: ArchivedCluster, topics: set[str]) -> tuple[GroupPosition, ...]:
    return tuple(
        GroupPosition(group, *place, committed.offset, committed.metadata)
        for group in cluster.group_ids()
        for place, committed in sorted(cluster.committed_offsets(group).items())
        if place.topic in topics
    )
