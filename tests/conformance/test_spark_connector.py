"""Spark's own Kafka connector (the Java one, with its jars) reads and writes a running broker."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader

from tests.broker_process import BrokerProcess
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.face import Record, take
from tests.conformance.needed_peers import needed_peer
from tests.conformance.tls_broker import WAYS, TlsListeners
from tests.conformance.topics import new_topic
from tools.peers import spark_connector_jars

pytestmark = [pytest.mark.peer, pytest.mark.proves(client="Spark connector")]

START_MS = 1_700_000_000_000
PARTITIONS = 3


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the connector's jars. No other test of this process may have begun one without them."""
    with needed_peer():
        jars = spark_connector_jars()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark-local")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> ConfluentClient:
    return ConfluentClient(broker)


def numbered(count: int, first: int = 0) -> list[Record]:
    """Records one second apart, spread over the partitions in turn."""
    return [
        Record(each % PARTITIONS, b"key-%d" % each, b"%d" % each, (("n", b"%d" % each),), START_MS + each * 1000)
        for each in range(first, first + count)
    ]


def source(reader: DataFrameReader | DataStreamReader, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    with_topic = reader.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    return with_topic.options(**options).load()


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


@pytest.mark.proves(feature="batch read")
def test_a_batch_read_gives_every_part_of_every_record(spark, broker, client):
    topic = new_topic(broker, PARTITIONS)
    client.produce(topic, [*numbered(300), Record(0, None, None, (), START_MS)])
    rows = source(spark.read, broker, topic, includeHeaders="true").collect()
    found = {(row.partition, row.offset): row for row in rows}
    assert len(found) == len(rows) == 301
    for number in (0, 1, 299):
        row = found[number % PARTITIONS, number // PARTITIONS]
        assert (row.key, row.value) == (b"key-%d" % number, b"%d" % number)
        assert [(header.key, header.value) for header in row.headers] == [("n", b"%d" % number)]
        assert row.timestamp.timestamp() * 1000 == START_MS + number * 1000
        assert (row.topic, row.timestampType) == (topic, 0)
    empty = found[0, 100]
    assert (empty.key, empty.value, empty.headers) == (None, None, None)


@pytest.mark.proves(feature="batch read between offsets")
def test_a_batch_read_keeps_to_the_offsets_it_is_given(spark, broker, client):
    topic = new_topic(broker, PARTITIONS)
    client.produce(topic, numbered(300))
    start = json.dumps({topic: {"0": 90, "1": -2, "2": 98}})
    end = json.dumps({topic: {"0": 95, "1": 3, "2": -1}})
    frame = source(spark.read, broker, topic, startingOffsets=start, endingOffsets=end)
    assert values(frame) == sorted([*range(270, 285, 3), 1, 4, 7, 296, 299])


@pytest.mark.proves(feature="batch read between timestamps")
def test_a_batch_read_keeps_to_the_times_it_is_given(spark, broker, client):
    topic = new_topic(broker, PARTITIONS)
    client.produce(topic, numbered(300))
    frame = source(
        spark.read,
        broker,
        topic,
        startingTimestamp=str(START_MS + 100_500),
        endingTimestamp=str(START_MS + 200_000),
    )
    assert values(frame) == list(range(101, 200))
    by_partition = json.dumps({topic: {str(index): START_MS + 290_000 for index in range(PARTITIONS)}})
    assert values(source(spark.read, broker, topic, startingOffsetsByTimestamp=by_partition)) == list(range(290, 300))


@pytest.mark.proves(feature="batch write")
def test_a_batch_write_is_read_by_another_client(spark, broker, client):
    topic = new_topic(broker, PARTITIONS)
    frame = spark.range(300).select(
        f.concat(f.lit("key-"), "id").alias("key"),
        f.col("id").cast("string").alias("value"),
        (f.col("id") % PARTITIONS).cast("int").alias("partition"),
        f.array(f.struct(f.lit("n").alias("key"), f.col("id").cast("string").cast("binary").alias("value"))).alias(
            "headers"
        ),
    )
    to = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    to.option("topic", topic).option("includeHeaders", "true").option("kafka.compression.type", "zstd").save()
    reader = client.reader(topic, PARTITIONS)
    records = take(reader, 300)
    reader.close()
    expected = [Record(each.partition, each.key, each.value, each.headers) for each in numbered(300)]
    stripped = [each._replace(timestamp_ms=START_MS, offset=-1) for each in records]
    assert sorted(stripped, key=lambda each: int(each.value or b"-1")) == expected


@pytest.mark.proves(feature="streaming read with restart from a checkpoint")
def test_a_streaming_read_goes_on_from_its_checkpoint(spark, broker, client, tmp_path: Path):
    topic = new_topic(broker, PARTITIONS)
    batches: list[list[int]] = []

    def run() -> None:
        frame = source(spark.readStream, broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="90")
        writer = frame.writeStream.foreachBatch(lambda batch, _: batches.append(values(batch)))
        writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    client.produce(topic, numbered(120))
    run()
    assert [len(batch) for batch in batches] == [90, 30]
    assert sorted(chain(*batches)) == list(range(120))

    batches.clear()
    run()
    assert list(chain(*batches)) == []
    client.produce(topic, numbered(60, first=120))
    run()
    assert sorted(chain(*batches)) == list(range(120, 180))


@pytest.mark.proves(feature="streaming write with restart from a checkpoint")
def test_a_stream_from_topic_to_topic_writes_each_record_once(spark, broker, client, tmp_path: Path):
    here, there = new_topic(broker, PARTITIONS), new_topic(broker)

    def run() -> None:
        frame = source(spark.readStream, broker, here, startingOffsets="earliest").select("key", "value")
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
        writer = writer.option("topic", there).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    for first in (0, 90):
        client.produce(here, numbered(90, first=first))
        run()
    reader = client.reader(there)
    assert sorted(int(record.value or b"") for record in take(reader, 180)) == list(range(180))
    reader.close()
    assert client.ends(there) == (0, 180)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsListeners]:
    with TlsListeners(tmp_path_factory.mktemp("tls")) as listeners:
        yield listeners


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.proves(feature="TLS with certificates, SASL_SSL")
def test_it_reads_and_writes_over_tls(spark, secured: TlsListeners, way: str, tmp_path: Path):
    topic = f"allowed-spark-{way[0]}"
    settings = {"kafka.bootstrap.servers": secured.bootstraps[way]}
    settings |= {f"kafka.{name}": value for name, value in secured.settings(way).items()}
    frame = spark.range(300).select(f.col("id").cast("string").alias("value"))
    frame.write.format("kafka").options(**settings, topic=topic).save()
    options = {**settings, "subscribe": topic, "groupIdPrefix": "allowed-", "startingOffsets": "earliest"}
    assert values(spark.read.format("kafka").options(**options).load()) == list(range(300))
    batches: list[list[int]] = []
    stream = spark.readStream.format("kafka").options(**options).load()
    writer = stream.writeStream.foreachBatch(lambda batch, _: batches.append(values(batch)))
    writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert sorted(chain(*batches)) == list(range(300))
