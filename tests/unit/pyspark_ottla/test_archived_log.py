"""Reads that begin before the log does go on from an archive."""

import pickle
from pathlib import Path

import pytest

from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.archive import running
from ottla.pipelines.archive.archive import Archive
from ottla.runtime.clock import ManualClock
from pyspark_ottla import DefaultSource
from pyspark_ottla.archived_log import ArchivedLog
from pyspark_ottla.data_loss import DataLossError
from pyspark_ottla.options import OptionError
from tests.unit.pipelines.archive.model_cluster import ModelCluster
from tests.unit.pyspark_ottla.model_log import ModelLog

BASE = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "includeHeaders": "true"}
PLACE = TopicPartition("t", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def row(offset: int) -> tuple:
    """Not all offsets have a record; some keys and values are null."""
    return (offset * 1000, b"k%d" % offset if offset % 3 else None, b"%d" % offset, [("h", None)] if offset % 2 else [])


def archived(log: ModelLog, path: Path, *runs: list[int]) -> None:
    """An archive with a file a run, of a topic with the id that the log's has."""
    cluster = ModelCluster(topic_id=log.topic_id("t"))
    archive = Archive.open_or_create(str(path), "model")
    for offsets in runs:
        cluster.append(*(row(offset) for offset in offsets), offsets=offsets)
        running.run(archive, cluster, ("t",), ManualClock())


def expired(log: ModelLog, start: int, end: int) -> None:
    """The log has the records from `start` to `end` only."""
    [partition] = log.create("t")
    partition.start = partition.end = start
    partition.append(*(row(offset) for offset in range(start, end)))


def read(made) -> list[tuple]:
    found = []
    for partition in made.partitions():
        for batch in pickle.loads(pickle.dumps(made)).read(pickle.loads(pickle.dumps(partition))):
            for each in batch.to_pylist():
                headers = [(header["key"], header["value"]) for header in each["headers"] or ()]
                stamp = int(each["timestamp"].timestamp() * 1000)
                found.append((each["offset"], (stamp, each["key"], each["value"], headers)))
    return found


def reader(**given: str):
    source = DefaultSource({**BASE, **given})
    return source.reader(source.schema())


def test_a_batch_reads_what_expired_from_the_archive_and_the_rest_from_the_log(log, path):
    expired(log, 50, 60)
    offsets = [*range(3, 40), 43, 44, 48, *range(50, 55)]
    archived(log, path, offsets[:30], offsets[30:38], offsets[38:])
    expected = [(offset, row(offset)) for offset in [*offsets[:-5], *range(50, 60)]]
    assert read(reader(archive=str(path))) == expected
    assert read(reader(archive=str(path), startingOffsets='{"t":{"0":35}}')) == [
        each for each in expected if each[0] >= 35
    ]
    assert read(reader(archive=str(path), startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":41}}')) == [
        each for each in expected if 7 <= each[0] < 41
    ]
    assert read(reader(archive=str(path), startingTimestamp="42000", endingTimestamp="52000")) == [
        each for each in expected if 42 <= each[0] < 52
    ]


def test_a_stream_whose_offsets_have_expired_goes_on_from_the_archive(log, path):
    expired(log, 50, 60)
    archived(log, path, [*range(55)])
    source = DefaultSource({**BASE, "archive": str(path), "startingOffsets": "earliest"})
    made = source.streamReader(source.schema())
    start = made.initialOffset()
    end = made.latestOffset(start, made.getDefaultReadLimit())
    offsets = [
        each["offset"]
        for partition in made.partitions(start, end)
        for batch in made.read(partition)
        for each in batch.to_pylist()
    ]
    assert sorted(offsets) == [*range(60)]


def test_large_files_are_read_from_where_they_are_needed(log, path):
    expired(log, 30_000, 30_001)
    archived(log, path, [*range(30_000)])
    offsets = [offset for offset, _ in read(reader(archive=str(path), startingOffsets='{"t":{"0":19999}}'))]
    assert offsets == [*range(19_999, 30_001)]


def test_without_the_archive_the_same_read_is_a_loss(log, path):
    expired(log, 50, 60)
    archived(log, path, [*range(50)])
    with pytest.raises(DataLossError, match="offsets 7 to 49 were deleted"):
        read(reader(startingOffsets='{"t":{"0":7}}'))


@pytest.mark.parametrize("kind", ["too old", "another topic", "lost in between"])
def test_an_archive_that_does_not_reach_the_log_is_not_taken_for_it(log, path, kind):
    expired(log, 50, 60)
    if kind == "too old":
        archived(log, path, [*range(40)])
    elif kind == "another topic":
        archived(log, path, [*range(50)])
        log.create("t")
        [partition] = log.partitions["t"]
        partition.start, partition.end = 50, 60
    else:
        archived(log, path, [*range(10)])
        cluster = ModelCluster(topic_id=log.topic_id("t"), start=50, end=50)
        cluster.append(*(row(offset) for offset in range(50, 55)))
        running.run(Archive.open(str(path)), cluster, ("t",), ManualClock())
    assert ArchivedLog(log, str(path)).list_offsets({PLACE: int(OffsetAt.EARLIEST)})[PLACE].offset == 50
    with pytest.raises(DataLossError, match="offsets 7 to 49 were deleted"):
        read(reader(archive=str(path), startingOffsets='{"t":{"0":7}}'))


def test_a_directory_without_an_archive_is_told(log, path):
    log.create("t")
    with pytest.raises(OptionError, match="there is no archive in"):
        read(reader(archive=str(path)))
    archived(log, path, [0])
    manifest = path / "topics" / "t" / "topic.json"
    manifest.write_bytes(manifest.read_bytes()[:-2])
    with pytest.raises(OptionError, match=r"topic.json is cut or was altered"):
        read(reader(archive=str(path)))
