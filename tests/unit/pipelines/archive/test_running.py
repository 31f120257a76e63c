"""Bringing an archive up to date, killed at any point, and what lies in it then."""

from __future__ import annotations

import itertools
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from ottla.client.consuming.fetch import AbortedTransaction
from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.model.topic_partition import TopicPartition
from ottla.pipelines.archive import running
from ottla.pipelines.archive.archive import Archive
from ottla.pipelines.archive.compacting import compact, plan
from ottla.pipelines.archive.manifest import ArchivedPartition, ArchivedRange, ArchiveError, ArchiveHeader, Epoch
from ottla.pipelines.archive.verification import verify
from ottla.pipelines.sealed import seal
from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from tests.unit.pipelines.archive.model_cluster import ModelCluster

PLACE = TopicPartition("t", 0)


class Killed(BaseException):
    """The process ends here."""


class DyingDisk(OsDisk):
    """Ends the process before the n-th change of the disk; never waits for it."""

    def __init__(self, steps: int = 1 << 30) -> None:
        self.steps = steps

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Killed

    def write_atomic(self, path, data):
        self.step()
        self.write(path.with_name(path.name + ".tmp"), data)
        self.step()
        path.with_name(path.name + ".tmp").replace(path)

    def rename(self, old, new, *, durable=True):
        self.step()
        super().rename(old, new, durable=False)

    def remove(self, path):
        self.step()
        super().remove(path)

    def make_dir(self, path, *, durable=True, mode=0o777):
        self.step()
        super().make_dir(path, durable=False, mode=mode)

    def sync_file(self, path):
        self.step()

    def sync_dir(self, path):
        self.step()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def record(number: int) -> tuple:
    key = None if number % 3 == 0 else b"k%d" % number
    value = None if number % 5 == 0 else b"v%d" % number
    return (number * 10, key, value, [("h", b"%d" % number), ("h", None)] if number % 2 else [])


def run(path: Path, cluster: ModelCluster, disk: OsDisk | None = None, file_bytes: int = 1 << 20) -> list:
    archive = Archive.open_or_create(str(path), cluster.cluster_id, disk or DyingDisk())
    with archive.locked():
        return running.run(archive, cluster, (), ManualClock(5), file_bytes=file_bytes)


def rows(path: Path) -> dict[int, tuple]:
    """All records by offset; an offset that is there twice fails."""
    archive = Archive.open(str(path))
    found: dict[int, tuple] = {}
    for topic in archive.topics():
        for part in topic.partitions:
            for each in part.files:
                for row in pq.read_table(archive.topic_directory("t") / str(each.file)).to_pylist():
                    assert each.start <= row["offset"] < each.end
                    assert row["offset"] not in found
                    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
                    stamp = int(row["timestamp"].timestamp() * 1000)
                    found[row["offset"]] = (stamp, row["key"], row["value"], headers)
    return found


def sound(path: Path) -> bool:
    archive = Archive.open(str(path))
    return not any(each.damage for each in verify(archive, archive.topics()))


def test_a_run_goes_on_where_the_last_one_ended(path):
    cluster = ModelCluster(
        positions={PLACE: CommittedOffset(4, 3, "note"), TopicPartition("other", 0): CommittedOffset(1)}
    )
    cluster.append(*(record(number) for number in range(6)), epoch=2)
    [first] = run(path, cluster)
    assert (first.start, first.end, first.rows, first.lost) == (0, 6, 6, 0)
    cluster.append(*(record(number) for number in range(6, 9)), epoch=4)
    [second] = run(path, cluster)
    assert (second.start, second.end, second.rows) == (6, 9, 3)
    assert [each.rows for each in run(path, cluster)] == [0]
    assert rows(path) == {number: record(number) for number in range(9)}
    archive = Archive.open(str(path))
    [topic] = archive.topics()
    assert (topic.topic_id, topic.settings, topic.replication_factor) == (
        str(cluster.topic_id),
        {"retention.ms": "-1"},
        2,
    )
    assert [each.epochs for each in topic.partitions[0].files] == [(Epoch(2, 0),), (Epoch(4, 6),)]
    assert [(each.min_timestamp_ms, each.max_timestamp_ms) for each in topic.partitions[0].files] == [(0, 50), (60, 80)]
    assert [(each.group, each.topic, each.offset, each.metadata) for each in archive.groups().positions] == [
        ("g", "t", 4, "note")
    ]
    assert sound(path)


def test_offsets_without_a_record_are_covered_and_no_damage(path):
    cluster = ModelCluster()
    cluster.append(record(1), record(2), offsets=[3, 9])
    cluster.append(record(3), producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    cluster.aborted = (AbortedTransaction(5, 10),)
    run(path, cluster)
    cluster.append(record(4), producer_id=5, producer_epoch=0, base_sequence=1, is_transactional=True)
    run(path, cluster)
    cluster.aborted = ()
    cluster.append(record(5))
    run(path, cluster)
    assert rows(path) == {3: record(1), 9: record(2), 12: record(5)}
    [topic] = Archive.open(str(path)).topics()
    ranges = topic.partitions[0].ranges
    assert [(each.start, each.end, each.rows, each.file is None) for each in ranges] == [
        (0, 11, 2, False),
        (11, 12, 0, True),
        (12, 13, 1, False),
    ]
    assert topic.partitions[0].lost == 0
    assert sound(path)


def test_what_expired_between_two_runs_is_counted_as_lost(path):
    cluster = ModelCluster()
    cluster.append(record(0))
    run(path, cluster)
    cluster.append(*(record(number) for number in range(1, 5)))
    cluster.start, cluster.batches = 3, []
    cluster.end = 3
    cluster.append(record(3), record(4))
    [outcome] = run(path, cluster)
    assert (outcome.rows, outcome.lost, outcome.end) == (2, 2, 5)
    assert rows(path) == {number: record(number) for number in (0, 3, 4)}
    assert sound(path)


def test_what_expires_while_it_is_read_is_counted_as_lost(path):
    cluster = ModelCluster()
    for number in range(4):
        cluster.append(record(number))
    cluster.expires_on_fetch = 2
    [outcome] = run(path, cluster)
    assert (outcome.rows, outcome.lost) == (2, 2)
    assert rows(path) == {2: record(2), 3: record(3)}


def test_a_run_that_is_killed_at_any_point_loses_and_doubles_nothing(tmp_path):
    deaths = 0
    for steps in itertools.count():
        cluster = ModelCluster()
        for number in range(4):
            cluster.append(record(number))
        path = tmp_path / str(steps)
        try:
            run(path, cluster, DyingDisk(steps), file_bytes=1)
            finished = True
        except Killed:
            finished = False
        if (path / "archive.json").exists():
            assert rows(path) == {number: record(number) for number in range(len(rows(path)))}
            assert sound(path)
        cluster.append(record(4))
        run(path, cluster, file_bytes=1)
        assert rows(path) == {number: record(number) for number in range(5)}
        assert sound(path)
        named = {each.file for each in Archive.open(str(path)).topics()[0].partitions[0].files}
        assert {f"0/{file.name}" for file in (path / "topics" / "t" / "0").iterdir()} == named
        if finished:
            break
        deaths += 1
    assert deaths > 20


def test_a_compaction_that_is_killed_at_any_point_loses_and_doubles_nothing(tmp_path):
    for steps in itertools.count():
        cluster = ModelCluster()
        for number in range(5):
            cluster.append(record(number), epoch=number // 3)
        path = tmp_path / str(steps)
        run(path, cluster, file_bytes=1)
        archive = Archive.open(str(path), DyingDisk(steps))
        try:
            [done] = compact(archive, archive.topics(), 1 << 20, ManualClock(10))
            finished = True
        except Killed:
            finished = False
        assert rows(path) == {number: record(number) for number in range(5)}
        assert sound(path)
        if finished:
            break
    assert (done.replaced, done.made) == (5, 1)
    [joined] = Archive.open(str(path)).topics()[0].partitions[0].ranges
    assert (joined.start, joined.end, joined.rows, joined.epochs) == (0, 5, 5, (Epoch(0, 0), Epoch(1, 3)))


def test_files_that_were_replaced_stay_for_an_hour(path):
    cluster, clock = ModelCluster(), ManualClock(10)
    for number in range(3):
        cluster.append(record(number))
    run(path, cluster, file_bytes=1)
    archive = Archive.open(str(path))
    before = [each.file for each in archive.topics()[0].partitions[0].files]
    compact(archive, archive.topics(), 1 << 20, clock)
    assert all((path / "topics" / "t" / name).exists() for name in before)
    clock.advance(running.RETAIN_MS + 1)
    compact(archive, archive.topics(), 1 << 20, clock)
    assert not any((path / "topics" / "t" / name).exists() for name in before)
    assert rows(path) == {number: record(number) for number in range(3)}


def test_neighbours_are_joined_up_to_the_target_and_never_over_a_hole():
    ranges = [ArchivedRange(n, n + 1, f"0/{n}", rows=1, bytes=40) for n in range(5)]
    ranges.insert(3, ArchivedRange(3, 3, is_lost=True))
    groups = plan(ArchivedPartition(0, 0, tuple(ranges)), 100)
    assert [[each.file for each in group] for group in groups] == [["0/0", "0/1"], ["0/3", "0/4"]]
    with pytest.raises(ValueError, match="0 bytes"):
        plan(ArchivedPartition(0, 0), 0)


def test_a_topic_that_was_created_again_is_refused(path):
    cluster = ModelCluster()
    cluster.append(record(0))
    run(path, cluster)
    cluster.topic_id = UUID(int=8)
    with pytest.raises(ArchiveError, match="deleted and created again"):
        run(path, cluster)


def test_a_log_that_ends_before_the_archive_is_refused(path):
    cluster = ModelCluster()
    cluster.append(record(0), record(1))
    run(path, cluster)
    cluster.end = 1
    with pytest.raises(ArchiveError, match="the broker lost records"):
        run(path, cluster)


def test_a_directory_of_something_else_is_refused(path, tmp_path):
    with pytest.raises(ArchiveError, match="no such directory"):
        Archive.open(str(path))
    with pytest.raises(ArchiveError, match="no archive in it"):
        Archive.open(str(tmp_path))
    Archive.open_or_create(str(path), "a")
    with pytest.raises(ArchiveError, match=r"another cluster \(a, this one is b\)"):
        Archive.open_or_create(str(path), "b")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.txt").touch()
    with pytest.raises(ArchiveError, match=r"holds other files \(x.txt\)"):
        Archive.open_or_create(str(tmp_path / "notes"), "a")
    with pytest.raises(ArchiveError, match="a file"):
        Archive.open_or_create(str(tmp_path / "notes" / "x.txt"), "a")


def test_an_archive_of_a_newer_format_is_refused(path):
    path.mkdir()
    (path / "archive.json").write_bytes(seal(ArchiveHeader("a", format=2)))
    with pytest.raises(ArchiveError, match="format 2, this version of Ottla reads format 1"):
        Archive.open(str(path))


def test_one_changes_an_archive_at_a_time(path):
    archive = Archive.open_or_create(str(path), "a")
    with archive.locked(), pytest.raises(ArchiveError, match="another `ottla archive`"), archive.locked():
        pass


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "bytes, and had"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9] + b"x" + file.read_bytes()[-8:]), "it was altered"),
        (lambda file: file.unlink(), "it is missing, with the records of offsets 0 to 3"),
    ],
    ids=["cut", "altered", "missing"],
)
def test_a_file_that_is_not_what_was_written_is_named(path, damage, reason):
    cluster = ModelCluster()
    cluster.append(*(record(number) for number in range(3)))
    run(path, cluster)
    [file] = (path / "topics" / "t" / "0").iterdir()
    damage(file)
    archive = Archive.open(str(path))
    [found] = verify(archive, archive.topics())
    [line] = found.damage
    assert line.startswith(f"0/{file.name}: ")
    assert reason in line


@pytest.mark.parametrize("name", ["archive.json", "groups.json", "topics/t/topic.json"])
def test_a_manifest_that_was_cut_is_named(path, name):
    cluster = ModelCluster()
    cluster.append(record(0))
    run(path, cluster)
    (path / name).write_bytes((path / name).read_bytes()[:-3])

    def read() -> None:
        archive = Archive.open(str(path))
        archive.topics()
        archive.groups()

    with pytest.raises(ArchiveError, match="cut or was altered") as refusal:
        read()
    assert name in str(refusal.value)


def test_a_manifest_that_is_missing_is_named_and_its_files_stay(path):
    cluster = ModelCluster()
    cluster.append(record(0))
    run(path, cluster)
    manifest = path / "topics" / "t" / "topic.json"
    said = manifest.read_bytes()
    manifest.unlink()
    for read in (lambda: Archive.open(str(path)).topics(), lambda: run(path, cluster)):
        with pytest.raises(ArchiveError, match=r"t/topic\.json: it is missing") as refusal:
            read()
        assert "\n" not in str(refusal.value)
    manifest.write_bytes(said)
    assert rows(path) == {0: record(0)}


def test_positions_of_groups_that_were_altered_are_damage(path):
    run(path, ModelCluster())
    (path / "groups.json").write_bytes(b"{}")
    archive = Archive.open(str(path))
    with pytest.raises(ArchiveError, match=r"groups\.json"):
        [*verify(archive, archive.topics())]


def test_a_first_run_that_is_killed_leaves_all_partitions_to_be_restored(tmp_path):
    for steps in itertools.count():
        cluster = ModelCluster(partitions=3)
        cluster.append(record(0))
        path = tmp_path / str(steps)
        try:
            run(path, cluster, DyingDisk(steps))
            return
        except Killed:
            if (path / "archive.json").exists():
                assert all(len(topic.partitions) == 3 for topic in Archive.open(str(path)).topics())
                assert sound(path)
