"""A Parquet table against a process that ends at any point, and against readers of its directory."""

from __future__ import annotations

import errno
import itertools
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ottla.pipelines.tables import parquet_table
from ottla.pipelines.tables.manifest import Commit, Snapshot, TableDefinition, encode, version_name
from ottla.pipelines.tables.parquet_table import UNCOMMITTED_MS, ParquetTable
from ottla.pipelines.tables.table_sink import TableError
from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SeededRng

SCHEMA = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
DEFINITION = TableDefinition(SCHEMA, ("day",))


class Killed(BaseException):
    """The process ends here."""


class QuickDisk(OsDisk):
    """Does not wait for the disk: nobody takes the power away here."""

    def sync_file(self, path):
        pass

    def sync_dir(self, path):
        pass


class DyingDisk(QuickDisk):
    """Ends the process before the n-th change of the disk."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Killed

    def write_atomic(self, path, data):
        self.step()
        super().write_atomic(path, data)

    def write(self, path, data):
        self.step()
        super().write(path, data[: len(data) // 2])
        self.step()
        super().write(path, data)

    def rename(self, old, new, *, durable=True):
        self.step()
        super().rename(old, new, durable=durable)

    def remove(self, path):
        self.step()
        super().remove(path)

    def remove_tree(self, path):
        self.step()
        super().remove_tree(path)

    def make_dir(self, path, *, durable=True, mode=0o777):
        self.step()
        super().make_dir(path, durable=durable, mode=mode)

    def sync_dir(self, path):
        self.step()


QUICK = QuickDisk()


def stage(table: ParquetTable, rows: dict[str, list[int]]) -> Path:
    """What Spark's tasks would have written: a file per value of the partitioning."""
    staged = table.stage("test")
    for day, numbers in rows.items():
        directory = staged / f"day={day}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"n": numbers}), directory / "part-0.parquet")
    staged.mkdir(parents=True, exist_ok=True)
    (staged / "_SUCCESS").touch()
    return staged


def committed(path: Path) -> Counter[int]:
    """By the manifest."""
    files = ParquetTable.open(str(path), disk=QUICK).files()
    return Counter(number for file in files for number in pq.ParquetFile(file).read()["n"].to_pylist())


def plain(path: Path) -> Counter[int]:
    """As whoever reads the directory, and knows nothing of a manifest, sees it."""
    if not any(path.glob("day=*/*.parquet")):
        return Counter()
    return Counter(ds.dataset(path, partitioning="hive").to_table(columns=["n"])["n"].to_pylist())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a table"


def test_a_batch_is_in_the_table_once_however_often_it_is_published(path):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    assert table.publish(stage(table, {"1": [1, 2], "2": [3]}), query="q", batch=0).rows == 3
    assert table.publish(stage(table, {"1": [1, 2], "2": [3]}), query="q", batch=0).skipped
    assert table.publish(stage(table, {"1": [4]}), query="q", batch=1).version == 2
    assert committed(path) == plain(path) == Counter([1, 2, 3, 4])
    assert not list((path / "_ottla" / "staging").iterdir())


def test_a_batch_without_rows_is_known_as_committed(path):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    assert table.publish(stage(table, {"1": []}), query="q", batch=0).files == 0
    assert ParquetTable.open(str(path), disk=QUICK).snapshot.batches == {"q": 0}


def test_a_process_that_ends_at_any_point_leaves_every_batch_whole_or_out(tmp_path, monkeypatch):
    link = os.link
    deaths = 0
    for steps in itertools.count():
        path = tmp_path / str(steps)
        disk = DyingDisk(steps)

        def counted(old, new, disk=disk):
            disk.step()
            link(old, new)

        monkeypatch.setattr(os, "link", counted)
        rows = [{"1": [1, 2], "2": [3]}, {"1": [4], "3": [5, 6]}]
        done = 0
        try:
            table = ParquetTable.create(str(path), DEFINITION, disk=disk, rng=SeededRng(steps))
            for batch, given in enumerate(rows):
                table.publish(stage(table, given), query="q", batch=batch)
                done += 1
            small = list(table.snapshot.files)
            table.publish(stage(table, {"1": [1, 2, 4], "2": [3], "3": [5, 6]}), removed=small)
            finished = True
        except Killed:
            finished = False
        monkeypatch.setattr(os, "link", link)
        whole = [Counter(), Counter([1, 2, 3]), Counter([1, 2, 3, 4, 5, 6])]
        seen = plain(path)
        assert seen <= whole[-1], f"doubled or foreign rows after {steps} steps: {seen}"
        table = ParquetTable.find(str(path)) or ParquetTable.create(str(path), DEFINITION, disk=QUICK)
        reached = whole.index(committed(path))
        assert reached >= done
        assert plain(path) == whole[reached]
        for batch, given in enumerate(rows):
            table.publish(stage(table, given), query="q", batch=batch)
        assert committed(path) == plain(path) == whole[-1]
        if finished:
            break
        deaths += 1
    assert deaths > 40


def test_of_two_writers_of_one_batch_one_publishes_it(path):
    first = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    second = ParquetTable.open(str(path), disk=QUICK)
    staged = stage(first, {"1": [1]}), stage(second, {"1": [1]})
    assert not second.publish(staged[1], query="q", batch=0).skipped
    assert first.publish(staged[0], query="q", batch=0).skipped
    assert committed(path) == plain(path) == Counter([1])


@pytest.mark.parametrize("query", ["same", "other"])
def test_a_writer_that_is_overtaken_at_the_commit_sees_what_the_other_committed(path, monkeypatch, query):
    first = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    second = ParquetTable.open(str(path), disk=QUICK)
    staged = stage(first, {"1": [1]})
    link = os.link

    def overtaken(old, new):
        monkeypatch.setattr(os, "link", link)
        second.publish(stage(second, {"1": [2]}), query=query, batch=0)
        link(old, new)

    monkeypatch.setattr(os, "link", overtaken)
    written = first.publish(staged, query="same", batch=0)
    assert written.skipped == (query == "same")
    rows = Counter([2]) if query == "same" else Counter([1, 2])
    assert committed(path) == plain(path) == rows


def test_queries_that_append_beside_each_other_keep_their_own_batches(path):
    first = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    second = ParquetTable.open(str(path), disk=QUICK)
    for batch in range(3):
        first.publish(stage(first, {"1": [batch]}), query="a", batch=batch)
        second.publish(stage(second, {"1": [batch + 10]}), query="b", batch=batch)
    assert committed(path) == Counter([0, 1, 2, 10, 11, 12])
    assert ParquetTable.open(str(path), disk=QUICK).snapshot.batches == {"a": 2, "b": 2}


def test_a_compaction_takes_nothing_from_a_reader_that_listed_the_files_before(path):
    clock = ManualClock(10 * UNCOMMITTED_MS)
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK, clock=clock)
    for batch in range(3):
        table.publish(stage(table, {"1": [batch]}), query="q", batch=batch)
    before = table.files()
    table.publish(stage(table, {"1": [0, 1, 2]}), removed=list(table.snapshot.files))
    assert committed(path) == plain(path) == Counter([0, 1, 2])
    assert len(table.files()) == 1
    assert table.remove_old(retain_ms=1000) == 0
    assert sorted(number for file in before for number in pq.ParquetFile(file).read()["n"].to_pylist()) == [0, 1, 2]
    clock.advance(1001)
    assert table.remove_old(retain_ms=1000) == 3
    assert committed(path) == plain(path) == Counter([0, 1, 2])


def test_a_compaction_that_would_change_the_rows_is_refused(path):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    table.publish(stage(table, {"1": [1, 2]}), query="q", batch=0)
    with pytest.raises(TableError, match="2 rows would become 1 rows"):
        table.publish(stage(table, {"1": [1]}), removed=list(table.snapshot.files))
    assert committed(path) == Counter([1, 2])


def test_of_two_compactions_of_one_file_one_is_dropped(path):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    table.publish(stage(table, {"1": [1]}), query="q", batch=0)
    other = ParquetTable.open(str(path), disk=QUICK)
    files = list(table.snapshot.files)
    assert not other.publish(stage(other, {"1": [1]}), removed=files).skipped
    assert table.publish(stage(table, {"1": [1]}), removed=files).skipped
    assert committed(path) == plain(path) == Counter([1])


def test_old_commits_give_way_to_snapshots_and_the_table_is_the_same(path, monkeypatch):
    monkeypatch.setattr(parquet_table, "COMMITS_PER_SNAPSHOT", 5)
    monkeypatch.setattr(parquet_table, "COMMITS_KEPT", 10)
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    behind = ParquetTable.open(str(path), disk=QUICK)
    versions = 26
    for batch in range(versions):
        table.publish(stage(table, {"1": [batch]} if batch % 10 == 0 else {}), query="q", batch=batch)
    commits = sorted((path / "_ottla" / "commits").iterdir())
    assert commits[0].name != version_name(1)
    behind.refresh()
    assert behind.snapshot.files == table.snapshot.files
    assert behind.snapshot.batches == {"q": versions - 1}
    assert committed(path) == Counter(range(0, versions, 10))


def test_what_was_never_committed_is_removed_after_a_day(path):
    clock = ManualClock()
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK, clock=clock)
    table.publish(stage(table, {"1": [1]}), query="q", batch=0)
    orphan = path / "_ottla" / "files" / "day=1" / "gone-0.parquet"
    orphan.touch()
    abandoned = stage(table, {"1": [9]})
    clock.advance(int(orphan.stat().st_mtime * 1000) + UNCOMMITTED_MS // 2)
    assert table.remove_old() == 0
    clock.advance(UNCOMMITTED_MS)
    assert table.remove_old() == 1
    assert not orphan.exists()
    assert not abandoned.exists()
    assert committed(path) == Counter([1])


def test_a_disk_that_fills_up_publishes_nothing(path, monkeypatch):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    staged = stage(table, {"1": [1]})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        with pytest.raises(OSError, match="No space left"):
            table.publish(staged, query="q", batch=0)
    assert committed(path) == plain(path) == Counter()
    table.publish(stage(table, {"1": [1]}), query="q", batch=0)
    assert committed(path) == plain(path) == Counter([1])


def test_a_file_system_without_links_is_named(path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(TableError, match="no hard links"):
        ParquetTable.create(str(path), DEFINITION, disk=QUICK)


@pytest.mark.parametrize("name", ["table.json", f"commits/{version_name(2)}"])
@pytest.mark.parametrize("damage", [lambda data: data[:-4], lambda data: data.replace(b"1", b"2", 1), lambda _: b""])
def test_a_manifest_that_was_cut_or_altered_is_told(path, name, damage):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    for batch in range(2):
        table.publish(stage(table, {"1": [1]}), query="q", batch=batch)
    file = path / "_ottla" / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TableError, match="cut or was altered") as refusal:
        ParquetTable.open(str(path), disk=QUICK)
    assert name in str(refusal.value)


def test_a_version_that_is_missing_is_told(path):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    for batch in range(3):
        table.publish(stage(table, {"1": [1]}), query="q", batch=batch)
    (path / "_ottla" / "commits" / version_name(2)).unlink()
    with pytest.raises(TableError, match="version 2 is missing"):
        ParquetTable.open(str(path), disk=QUICK)


def test_a_table_of_a_newer_format_is_refused(path):
    (path / "_ottla").mkdir(parents=True)
    (path / "_ottla" / "table.json").write_bytes(encode(TableDefinition(SCHEMA, (), format=2)))
    with pytest.raises(TableError, match="format 2, this version of Ottla reads format 1"):
        ParquetTable.open(str(path), disk=QUICK)


def test_a_directory_of_something_else_is_refused(path):
    with pytest.raises(TableError, match="no table here yet"):
        ParquetTable.open(str(path), disk=QUICK)
    path.mkdir()
    (path / "notes.txt").touch()
    with pytest.raises(TableError, match=r"holds other files \(notes.txt\)"):
        ParquetTable.find(str(path))
    with pytest.raises(TableError, match="a file"):
        ParquetTable.find(str(path / "notes.txt"))
    with pytest.raises(TableError, match="object stores"):
        ParquetTable.find("s3://bucket/table")


def test_a_data_file_that_is_gone_is_named_when_the_table_is_opened(path):
    table = ParquetTable.create(str(path), DEFINITION, disk=QUICK)
    table.publish(stage(table, {"1": [1]}), query="q", batch=0)
    [name] = table.snapshot.files
    (path / "_ottla" / "files" / name).unlink()
    (path / name).unlink()
    with pytest.raises(TableError, match="missing from _ottla/files"):
        ParquetTable.open(str(path), disk=QUICK)


def test_a_commit_that_does_not_follow_is_no_version():
    with pytest.raises(ValueError, match="version 3 does not follow version 0"):
        Snapshot().after(Commit(3, 0))
    with pytest.raises(ValueError, match="removes x, which is not there"):
        Snapshot().after(Commit(1, 0, removed=("x",)))
