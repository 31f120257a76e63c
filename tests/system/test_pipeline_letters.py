"""What Spark makes of the columns of dead letters and of the counts of the audit is what their formats say."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from ottla.pipelines.audit.listener import AuditListener
from ottla.pipelines.audit.observation import observe
from ottla.pipelines.audit.report import Point, Report
from ottla.pipelines.dead_letters.columns import REASON_CHARS_MAX, RECORD_COLUMNS, dead_letter, origin
from ottla.pipelines.dead_letters.headers import Letter, headers_of, letter_of, own_headers
from tests.system.spark_session import spark_session

SOURCE = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
TIME = datetime(2013, 6, 1, tzinfo=UTC)
TIME_MS = 1_370_044_800_000


pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark"), "local[1]") as session:
        yield session


def headers(row: Row) -> list[tuple[str, bytes | None]]:
    return [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers]


def test_a_refused_row_becomes_its_record_with_the_headers_of_a_letter(spark: SparkSession):
    records = [
        (b"k", b"\xff{", "events", 3, 41, TIME, [("trace", b"1"), ("none", None)]),
        (None, None, "events", 0, 0, TIME, None),
        (b"k", b"v", "events", 1, 5, TIME, headers_of(Letter("older", 0, 1, reason="before", replays=2))),
        (b"k", b"v", "events", 1, 6, TIME, [("__ottla.errors.replays", b"many")]),
    ]
    read = spark.createDataFrame(records, SOURCE)
    step = read.select(origin(read.columns).alias("_origin"), f.lit("x" * 5_000).alias("why"))
    letters = step.select(
        *dead_letter(
            topic="dead",
            pipeline="flights",
            step="sane",
            reason=f.col("why"),
            error_class="delay",
            origin=f.col("_origin"),
        )
    )
    assert tuple(letters.columns) == RECORD_COLUMNS
    found = letters.collect()
    assert [(row.topic, row.key, row.value, row.timestamp) for row in found] == [
        ("dead", key, value, None) for key, value, *_ in records
    ]
    assert [own_headers(headers(row)) for row in found] == [[("trace", b"1"), ("none", None)], [], [], []]
    why = "x" * REASON_CHARS_MAX
    assert [letter_of(headers(row)) for row in found] == [
        Letter("events", partition, offset, TIME_MS, "flights", "sane", "delay", why, replays + 1, replays=replays)
        for partition, offset, replays in [(3, 41, 0), (0, 0, 0), (1, 5, 2), (1, 6, 0)]
    ]


def test_a_row_that_is_of_no_single_record_has_itself_as_its_value(spark: SparkSession):
    rows = spark.createDataFrame([("UA", 3)], "carrier string, n int")
    value = f.to_json(f.struct("*"))
    [row] = rows.select(
        *dead_letter(topic="dead", pipeline="p", step=f.col("carrier"), reason="few", value=value)
    ).collect()
    assert (row.key, bytes(row.value)) == (None, b'{"carrier":"UA","n":3}')
    assert letter_of(headers(row)) == Letter(pipeline="p", step="UA", reason="few")


def test_without_the_headers_of_the_source_a_letter_has_those_of_a_letter_alone(spark: SparkSession):
    read = spark.createDataFrame([(b"k", b"v", "events", 1, 5, TIME)], SOURCE.partition(", headers")[0])
    step = read.select(origin(read.columns).alias("_origin"))
    [row] = step.select(
        *dead_letter(topic="dead", pipeline="p", step="s", reason="r", origin=f.col("_origin"))
    ).collect()
    assert headers(row) == headers_of(Letter("events", 1, 5, TIME_MS, "p", "s", reason="r", attempt=1))


def test_rows_are_counted_where_they_pass_and_reported_batch_by_batch(spark: SparkSession, tmp_path: Path):
    rows = [{"n": n, "at": f"2013-06-01T00:00:0{n}Z", "by": {"a": n}} for n in (3, 1, 2)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text("\n".join(map(json.dumps, rows)))
    reports: list[Report] = []
    listener = AuditListener("flights", 60_000, reports.append)
    spark.streams.addListener(listener)
    try:
        read = spark.readStream.schema("n int, at timestamp, by map<string, int>").json(str(tmp_path / "in"))
        come = observe(read, Point("sane", "in", balanced=True), time="at")
        split = observe(come, Point("sane", "dropped"), time="at", where=f.col("n") == 2)
        gone = observe(split.where("n != 2"), Point("sane", "out"), time="at")
        query = (
            gone.writeStream.format("noop")
            .queryName("flights.delays")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        # Listeners are told of a query's end after all its batches.
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
    [report] = reports
    assert (report.pipeline, report.sink, report.batch, report.rows) == ("flights", "delays", 0, 3)
    assert report.query_id == str(query.id)
    counted = {each.role: each for each in report.points}
    assert {role: each.rows for role, each in counted.items()} == {"in": 3, "dropped": 1, "out": 2}
    assert (counted["in"].first_time_ms, counted["in"].last_time_ms) == (TIME_MS + 1_000, TIME_MS + 3_000)
    assert (counted["out"].first_time_ms, counted["dropped"].last_time_ms) == (TIME_MS + 1_000, TIME_MS + 2_000)
    hashes = spark.read.json(str(tmp_path / "in"), schema="n int, at timestamp, by map<string, int>").select(
        f.xxhash64("n", "at", f.to_json(f.struct("by"))).alias("hash"), "n"
    )
    each = {row.n: row.hash for row in hashes.collect()}
    assert counted["in"].checksum == f"{sum(each.values()) % (1 << 64):016x}"
    assert counted["out"].checksum == f"{(each[1] + each[3]) % (1 << 64):016x}"
