"""A Delta table against a process that ends at any point. Spark's tasks are played by pyarrow."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.pipelines.tables import DeltaSink, TableError, delta_sink
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SeededRng

SCHEMA = StructType([StructField("n", LongType()), StructField("day", StringType())])


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

    def rename(self, old, new, *, durable=True):
        self.step()
        super().rename(old, new, durable=False)

    def remove(self, path):
        self.step()
        super().remove(path)

    def remove_tree(self, path):
        self.step()
        super().remove_tree(path)

    def make_dir(self, path, *, durable=True, mode=0o777):
        self.step()
        super().make_dir(path, durable=False, mode=mode)

    def sync_file(self, path):
        self.step()


def frame(*numbers: int) -> Any:
    return SimpleNamespace(schema=SCHEMA, numbers=numbers)


def write_files(given: Any, staged: Path, columns: list[str], partition_by: list[str], path: str) -> None:
    """What Spark would write: a file for each value of the partitioning, named by Spark's rules."""
    assert (columns, partition_by) == (["n", "day"], ("day",))
    for number in given.numbers:
        directory = staged / ("day=a%2Fb" if number % 2 else "day=__HIVE_DEFAULT_PARTITION__")
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [number]}), directory / f"part-{number}.parquet")
    (staged / "day=empty").mkdir(parents=True)
    pq.write_table(pa.table({"n": pa.array([], pa.int64())}), staged / "day=empty" / "part.parquet")


@pytest.fixture(autouse=True)
def _pyarrow_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_sink, "write_files", write_files)


def sink(path: Path, disk: OsDisk | None = None, query: str = "q", seed: int = 0) -> DeltaSink:
    return DeltaSink(str(path), ["day"], query, disk=disk or DyingDisk(), rng=SeededRng(seed))


def rows(path: Path) -> Counter[tuple]:
    table = DeltaTable(str(path)).to_pyarrow_table(columns=["n", "day"])
    return Counter((row["n"], row["day"]) for row in table.to_pylist())


def expected(*numbers: int) -> Counter[tuple]:
    return Counter((number, "a/b" if number % 2 else None) for number in numbers)


def test_a_batch_is_in_the_table_once_and_a_batch_without_rows_is_known(tmp_path):
    path = tmp_path / "a table"
    first = sink(path)
    assert first.committed_batch() is None
    assert first.write(frame(1, 2, 3), 0).rows == 3
    assert first.write(frame(1, 2, 3), 0).skipped
    assert first.write(frame(), 1).files == 0
    assert sink(path).committed_batch() == 1
    assert rows(path) == expected(1, 2, 3)


def test_a_process_that_ends_at_any_point_leaves_every_batch_whole_or_out(tmp_path, monkeypatch):
    commit = DeltaTable.create_write_transaction
    deaths = 0
    for steps in itertools.count():
        path = tmp_path / str(steps)
        disk = DyingDisk(steps)

        def counted(table, *arguments, disk=disk, **named):
            disk.step()
            commit(table, *arguments, **named)
            disk.step()

        monkeypatch.setattr(DeltaTable, "create_write_transaction", counted)
        batches = [(1, 2), (3, 4)]
        try:
            dying = sink(path, disk, seed=steps)
            for batch, numbers in enumerate(batches):
                dying.write(frame(*numbers), batch)
            finished = True
        except Killed:
            finished = False
        monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
        again = sink(path, seed=1000 + steps)
        committed = again.committed_batch()
        if committed is not None:
            assert rows(path) == expected(*(n for numbers in batches[: committed + 1] for n in numbers))
        for batch, numbers in enumerate(batches):
            again.write(frame(*numbers), batch)
        assert rows(path) == expected(1, 2, 3, 4)
        if finished:
            break
        deaths += 1
    assert deaths > 10


def test_of_two_drivers_with_one_batch_one_commits_it(tmp_path, monkeypatch):
    path = tmp_path / "table"
    first, second = sink(path), sink(path, seed=1)
    first.write(frame(1), 0)

    def overtaken(*arguments: Any) -> None:
        write_files(*arguments)
        monkeypatch.setattr(delta_sink, "write_files", write_files)
        assert not second.write(frame(3), 1).skipped

    monkeypatch.setattr(delta_sink, "write_files", overtaken)
    assert first.write(frame(3), 1).skipped
    assert rows(path) == expected(1, 3)
    assert len(list(path.glob("*.parquet"))) == 2


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_log_that_is_damaged_is_told(tmp_path, damage):
    path = tmp_path / "table"
    sink(path).write(frame(1), 0)
    commit = path / "_delta_log" / "00000000000000000000.json"
    if damage == "cut":
        commit.write_bytes(commit.read_bytes()[:-40])
    else:
        commit.unlink()
    with pytest.raises(TableError, match="Delta log cannot be read"):
        sink(path).write(frame(1), 1)


def test_a_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(TableError, match=r"holds other files \(notes.txt\)"):
        sink(tmp_path)
    with pytest.raises(TableError, match="a file"):
        sink(tmp_path / "notes.txt")
    with pytest.raises(TableError, match="object stores"):
        DeltaSink("s3://bucket/table", [], "q")
    with pytest.raises(ValueError, match="the id of its query"):
        DeltaSink(str(tmp_path / "table"), [], "")
