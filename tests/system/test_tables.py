"""Spark writes micro-batches to tables; a batch that comes again, as after a crash, is in them once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ottla.pipelines.tables import DeltaSink, ParquetSink, ParquetTable, TableError
from tests.system.spark_session import spark_session

SINKS: dict[str, Any] = {"parquet": ParquetSink, "delta": DeltaSink}
both = pytest.mark.parametrize("kind", ["parquet", "delta"])


pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def flights(spark: SparkSession, first: int, count: int = 30) -> DataFrame:
    """Numbered rows of three carriers: one whose name needs escaping, one without a name."""
    carrier = f.when(f.col("n") % 3 == 0, f.lit("A/B c=%é")).when(f.col("n") % 3 == 1, f.lit("UA"))
    rows = spark.range(first, first + count, 1, 2).withColumnRenamed("id", "n")
    return rows.select("n", carrier.alias("carrier"), f.timestamp_seconds("n").alias("at"), f.array("n").alias("list"))


def rows(spark: SparkSession, kind: str, path: str) -> Counter[tuple]:
    if kind == "parquet":
        found = [tuple(row) for row in ParquetTable.open(path).read(spark).collect()]
    else:
        names = ["n", "carrier", "at", "list"]
        table = DeltaTable(path).to_pyarrow_table(columns=names)
        found = [tuple(row[name] for name in names) for row in table.to_pylist()]
    return Counter((n, carrier, int(at.timestamp()), tuple(items)) for n, carrier, at, items in found)


def expected(numbers: range) -> Counter[tuple]:
    carriers = ["A/B c=%é", "UA", None]
    return Counter((n, carriers[n % 3], n, (n,)) for n in numbers)


@both
def test_a_query_that_lost_its_last_commit_writes_every_row_once(spark, tmp_path, kind):
    path = str(tmp_path / "a table")
    source = tmp_path / "source"
    for batch in range(3):
        flights(spark, batch * 30).coalesce(1).write.mode("append").parquet(f"file://{source}")
    stream = spark.readStream.schema(flights(spark, 0).schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    checkpoint = tmp_path / "checkpoint"
    sink = SINKS[kind](path, ["carrier"], query_id="q")

    def run() -> list[bool]:
        skipped = []

        def write(batch: DataFrame, number: int) -> None:
            skipped.append(sink.write(batch, number).skipped)

        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", f"file://{checkpoint}")
        writer.trigger(availableNow=True).start().awaitTermination()
        return skipped

    assert run() == [False, False, False]
    # As if the driver had died between the table's commit and that of the checkpoint.
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    sink = SINKS[kind](path, ["carrier"], query_id="q")
    assert sink.committed_batch() == 2
    assert run() == [True]
    assert rows(spark, kind, path) == expected(range(90))


@both
def test_a_table_is_compacted_beside_its_writer_and_its_readers(spark, tmp_path, kind):
    path = str(tmp_path / "table")
    sink = SINKS[kind](path, ["carrier"], query_id="q")
    for batch in range(3):
        sink.write(flights(spark, batch * 30), batch)
    before = ParquetTable.open(path).files() if kind == "parquet" else DeltaTable(path).file_uris()
    failures: list[BaseException] = []

    def compact() -> None:
        try:
            assert sink.compact(1 << 20).made == 3
        except BaseException as error:
            failures.append(error)

    beside = threading.Thread(target=compact)
    beside.start()
    sink.write(flights(spark, 90), 3)
    beside.join()
    assert not failures
    assert rows(spark, kind, path) == expected(range(120))
    assert sum(pq.ParquetFile(name.removeprefix("file://")).metadata.num_rows for name in before) == 90
    if kind == "parquet":
        assert spark.read.parquet(f"file://{path}").count() == 120
        assert pq.read_table(path).num_rows == 120


@both
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(spark, tmp_path, kind):
    path = str(tmp_path / "table")
    SINKS[kind](path, ["carrier"], query_id="q").write(flights(spark, 0), 0)
    other = flights(spark, 30).withColumn("n", f.col("n").cast("string")).drop("at").withColumn("new", f.lit(1))
    with pytest.raises(TableError) as refusal:
        SINKS[kind](path, ["carrier"], query_id="q").write(other, 1)
    for words in (
        "nothing was written",
        "column n is string, the table has bigint",
        "column at (timestamp) is missing",
        "column new (int) is not in the table",
    ):
        assert words in str(refusal.value)
    with pytest.raises(TableError, match="partitioned by nowhere, which is not a column"):
        SINKS[kind](str(tmp_path / "new"), ["nowhere"], query_id="q").write(other, 0)
    assert rows(spark, kind, path) == expected(range(30))


@both
def test_another_query_is_refused_unless_it_appends_beside(spark, tmp_path, kind):
    path = str(tmp_path / "table")
    SINKS[kind](path, ["carrier"], query_id="q").write(flights(spark, 0), 0)
    with pytest.raises(TableError, match="another query"):
        SINKS[kind](path, ["carrier"], query_id="other")
    with pytest.raises(TableError, match="partitioned by carrier, this sink asks for nothing"):
        SINKS[kind](path, [], query_id="q")
    beside = SINKS[kind](path, ["carrier"], query_id="other", beside=True)
    assert beside.committed_batch() is None
    beside.write(flights(spark, 30), 0)
    assert rows(spark, kind, path) == expected(range(60))


@both
def test_a_failing_task_and_a_full_disk_leave_nothing_behind(spark, tmp_path, kind, monkeypatch):
    path = str(tmp_path / "table")
    sink = SINKS[kind](path, [], query_id="q")
    sink.write(flights(spark, 0), 0)
    failing = flights(spark, 30).withColumn("at", f.when(f.col("n") < 50, f.col("at")).otherwise(f.raise_error("bad")))
    with pytest.raises(Exception, match="bad"):
        sink.write(failing, 1)
    full = flights(spark, 30).withColumn(
        "at", f.when(f.col("n") < 50, f.col("at")).otherwise(f.raise_error("No space left on device"))
    )
    with pytest.raises(TableError, match="no space left on its disk; nothing of the batch was published"):
        sink.write(full, 1)
    sink.write(flights(spark, 30), 1)
    assert rows(spark, kind, path) == expected(range(60))
    staging = Path(path) / ("_ottla/staging" if kind == "parquet" else "_ottla_staging")
    assert not list(staging.iterdir())
