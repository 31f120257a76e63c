"""Spark reads and writes a running broker; confluent-kafka is on the other side."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_ottla import lag
from pyspark_ottla.options import OptionError
from tests.broker_process import BrokerProcess
from tests.system.document import blocks
from tests.system.spark_session import spark_session

EPOCH_MS = 1_000_000_000_000
"""The time of record 0, in 2001."""
AVRO_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_names = count()


pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


class Cluster:
    """A broker seen by confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(self, partitions: int = 1, name: str | None = None) -> str:
        name = name or f"spark-{next(_names)}"
        for creation in self.admin.create_topics(
            [NewTopic(name, partitions, 1, config={"retention.ms": "-1"})]
        ).values():
            creation.result()
        return name

    def delete(self, topic: str) -> None:
        for deletion in self.admin.delete_topics([topic]).values():
            deletion.result()

    def produce(self, topic: str, records: range, partition: int | None = None) -> None:
        """Records `n`, with the key `key-n`, the header `n`, and n seconds after `EPOCH_MS`."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "log_level": 2})
        for number in records:
            where = {} if partition is None else {"partition": partition}
            producer.produce(
                topic,
                f"value-{number}",
                f"key-{number}",
                headers=[("n", str(number).encode())],
                timestamp=EPOCH_MS + number * 1000,
                **where,
            )
        assert producer.flush(60) == 0

    def consume(self, topic: str) -> list[Any]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test", "log_level": 2})
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        ends = {each: consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=60)[1] for each in partitions}
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        messages: list[Any] = []
        while len(messages) < sum(ends.values()):
            messages += consumer.consume(1000, timeout=1)
        consumer.close()
        return messages


@pytest.fixture
def cluster(broker: BrokerProcess) -> Cluster:
    return Cluster(broker.bootstrap)


def read(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def write(frame: DataFrame, cluster: Cluster, topic: str, **options: str) -> None:
    writer = frame.write.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    writer.options(**options).mode("append").save()


def stream(spark: SparkSession, cluster: Cluster, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def run(frame: DataFrame, checkpoint: Path, into: list[str] | None = None) -> StreamingQuery:
    """Run over what is available now; the values end up in `into`."""

    def collect(batch: DataFrame, _number: int) -> None:
        if into is not None:
            into.extend(row.value for row in batch.select(f.col("value").cast("string").alias("value")).collect())

    writer = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def values(numbers: range) -> list[str]:
    return [f"value-{number}" for number in numbers]


def test_a_batch_read_gives_the_records_that_another_client_wrote(spark, cluster):
    topic = cluster.create(partitions=3)
    cluster.produce(topic, range(500))
    frame = read(spark, cluster, topic, includeHeaders="true")
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    messages = cluster.consume(topic)
    assert len(rows) == len(messages) == 500
    for message in messages:
        row = rows[message.partition(), message.offset()]
        assert (bytes(row.key), bytes(row.value), row.topic) == (message.key(), message.value(), topic)
        assert row.timestamp.timestamp() * 1000 == message.timestamp()[1]
        assert [(header.key, bytes(header.value)) for header in row.headers] == message.headers()
        assert row.timestampType == 0


def test_a_batch_read_stays_between_its_positions(spark, cluster):
    topic = cluster.create()
    cluster.produce(topic, range(100))
    by_offset = {"startingOffsets": f'{{"{topic}": {{"0": 10}}}}', "endingOffsets": f'{{"{topic}": {{"0": 20}}}}'}
    by_time = {"startingTimestamp": str(EPOCH_MS + 10_000), "endingTimestamp": str(EPOCH_MS + 20_000)}
    for given in (by_offset, by_time):
        assert [row.offset for row in read(spark, cluster, topic, **given).sort("offset").collect()] == [*range(10, 20)]


def test_filters_that_are_pushed_down_leave_the_same_rows_and_less_to_read(spark, cluster):
    topic = cluster.create(partitions=2)
    cluster.produce(topic, range(100), partition=0)
    cluster.produce(topic, range(100), partition=1)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, cluster, topic, pushdown="true")
        late = frame.where(f"partition = 1 and timestamp >= timestamp_millis({EPOCH_MS + 90_000}) and offset < 95")
        assert sorted((row.partition, row.offset) for row in late.collect()) == [
            (1, offset) for offset in range(90, 95)
        ]
        # What is done in the source for good, Spark does not do again.
        filters = [line for line in late._jdf.queryExecution().toString().splitlines() if " Filter " in line][-1]
        assert "timestamp" in filters
        assert "offset" not in filters
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_temporary_view_in_sql_needs_no_more_than_the_name(spark, cluster):
    topic = cluster.create()
    cluster.produce(topic, range(30))
    spark.sql(
        f"create or replace temporary view events using ottla"
        f" options (kafka.bootstrap.servers '{cluster.bootstrap}', subscribe '{topic}')"
    )
    assert spark.sql("select count(distinct key) as n from events where offset >= 10").first().n == 20


def test_what_spark_writes_lands_where_another_client_would_put_it(spark, cluster):
    theirs, ours = cluster.create(partitions=5), cluster.create(partitions=5)
    cluster.produce(theirs, range(400))
    write(
        read(spark, cluster, theirs, includeHeaders="true").select("key", "value", "headers", "timestamp"),
        cluster,
        ours,
    )

    def seen(topic: str) -> set[tuple[Any, ...]]:
        messages = cluster.consume(topic)
        return {(each.partition(), each.key(), each.value(), each.timestamp(), *each.headers()) for each in messages}

    assert seen(ours) == seen(theirs)
    assert len(seen(ours)) == 400


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_writes_are_read_by_everybody(spark, cluster, codec):
    topic = cluster.create()
    frame = spark.range(1000).select(f.format_string("value-%d", "id").alias("value"))
    write(frame, cluster, topic, **{"kafka.compression.type": codec})
    assert {message.value().decode() for message in cluster.consume(topic)} == set(values(range(1000)))
    assert read(spark, cluster, topic).count() == 1000


def test_a_stream_reads_in_limited_batches_and_goes_on_after_a_restart(spark, cluster, tmp_path):
    topic = cluster.create(partitions=2)
    cluster.produce(topic, range(1000))
    frame = stream(spark, cluster, topic, maxOffsetsPerTrigger="300")
    got: list[str] = []
    first = run(frame, tmp_path, got)
    assert [batch["numInputRows"] for batch in first.recentProgress] == [300, 300, 300, 100]
    assert sorted(got) == sorted(values(range(1000)))
    cluster.produce(topic, range(1000, 1050))
    for change in cluster.admin.create_partitions([NewPartitions(topic, 3)]).values():
        change.result()
    cluster.produce(topic, range(1050, 1060), partition=2)
    got.clear()
    run(frame, tmp_path, got)
    assert sorted(got) == sorted(values(range(1000, 1060)))


def test_the_progress_of_a_stream_shows_how_far_it_is_behind(spark, cluster, tmp_path):
    topic = cluster.create()
    cluster.produce(topic, range(100))
    query = run(stream(spark, cluster, topic, maxOffsetsPerTrigger="60"), tmp_path)
    behind = [list(lag(batch["sources"][0]).values()) for batch in query.recentProgress]
    assert behind == [[40], [0]]


def test_a_stream_that_ends_at_a_time_decodes_its_values_and_is_seen_as_a_group(spark, cluster, tmp_path):
    topic = cluster.create()
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "int"}, {"name": "at", "type": AVRO_TIME}],
    }
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    for number in range(10):
        encoded = io.BytesIO()
        fastavro.schemaless_writer(encoded, schema, {"n": number, "at": at})
        value = b"no Avro" if number == 4 else encoded.getvalue()
        producer.produce(topic, value, timestamp=EPOCH_MS + number * 1000)
    assert producer.flush(60) == 0
    group = f"{topic}-group"
    frame = stream(
        spark,
        cluster,
        topic,
        valueFormat="avro",
        valueSchema=json.dumps(schema),
        endingTimestamp=str(EPOCH_MS + 8_000),
        maxOffsetsPerTrigger="5",
        groupId=group,
        **{"kafka.max.poll.records": "500"},
    )
    got: list[str] = []
    columns = f.concat_ws(" ", "offset", "data.n", f.unix_millis("data.at"), "error")
    run(frame.select(columns.alias("value")), tmp_path, got)
    at_ms = int(at.timestamp() * 1000)
    assert [line for line in got if not line.startswith("4 ")] == [f"{n} {n} {at_ms}" for n in range(8) if n != 4]
    assert [line for line in got if "bytes are left" in line or "ends before" in line or "not of this" in line] == got[
        4:5
    ]
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    [answer] = cluster.admin.list_consumer_group_offsets([wanted]).values()
    assert answer.result(60).topic_partitions[0].offset == 8


def test_a_stream_writes_to_a_topic_per_row(spark, cluster, tmp_path):
    source, even, odd = cluster.create(), cluster.create(), cluster.create()
    cluster.produce(source, range(100))
    frame = stream(spark, cluster, source).select(
        "key", "value", f.when(f.col("offset") % 2 == 0, even).otherwise(odd).alias("topic")
    )
    writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [message.value().decode() for message in cluster.consume(even)] == values(range(0, 100, 2))
    assert [message.value().decode() for message in cluster.consume(odd)] == values(range(1, 100, 2))


def test_a_topic_created_again_between_two_runs_fails_the_second_unless_it_may_go_on(spark, cluster, tmp_path):
    topic = cluster.create()
    cluster.produce(topic, range(10))
    run(stream(spark, cluster, topic), tmp_path)
    cluster.delete(topic)
    cluster.create(name=topic)
    cluster.produce(topic, range(100, 130))
    with pytest.raises(StreamingQueryException, match="deleted and created again") as failure:
        run(stream(spark, cluster, topic), tmp_path)
    assert f"{topic}-0 had been read up to offset 10" in str(failure.value)
    assert "set option failOnDataLoss to false" in str(failure.value)
    got: list[str] = []
    run(stream(spark, cluster, topic, failOnDataLoss="false"), tmp_path, got)
    assert got == values(range(100, 130))


def test_a_broker_that_is_killed_and_started_again_costs_a_stream_nothing(
    spark, new_broker: Callable[..., BrokerProcess], tmp_path
):
    process = new_broker().start()
    cluster = Cluster(process.bootstrap)
    source, copy = cluster.create(partitions=2), cluster.create()
    cluster.produce(source, range(50))
    writer = stream(spark, cluster, source).select("key", "value").writeStream.format("ottla")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", copy)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        process.kill()
        process.start()
        cluster.produce(source, range(50, 80))
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
    assert {message.value().decode() for message in cluster.consume(copy)} == set(values(range(80)))


def test_a_mistake_in_the_options_is_told_when_the_frame_is_made_or_read(spark, cluster):
    with pytest.raises(AnalysisException, match="unknown option startingofset: did you mean startingOffsets"):
        read(spark, cluster, "t", startingOfset="earliest")
    with pytest.raises(PySparkException, match="'no-such-topic' does not exist on the broker") as failure:
        read(spark, cluster, "no-such-topic").collect()
    assert str(failure.value).splitlines()[0].endswith("check the name, or create the topic first")
    with pytest.raises(PySparkException, match="required column 'value' not found among id"):
        write(spark.range(1), cluster, "t")


def test_what_spark_refuses_by_itself_is_told_with_what_to_do_instead(spark, cluster, tmp_path):
    topic = cluster.create()
    there = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
    with pytest.raises(OptionError, match=r'write with \.mode\("append"\)'):
        spark.range(1).selectExpr("cast(id as string) as value").write.format("ottla").options(**there).save()
    counts = spark.readStream.format("rate").load().groupBy().agg(f.count("*").cast("string").alias("value"))
    query = counts.writeStream.options(**there, checkpointLocation=str(tmp_path / "checkpoint"))
    with pytest.raises(OptionError, match=r"\.foreachBatch\(write\)"):
        query.start(format="ottla", outputMode="update")


@pytest.mark.long
def test_executors_on_a_cluster_need_only_the_package_and_the_network(cluster, tmp_path):
    topic, copy = cluster.create(partitions=2), cluster.create()
    cluster.produce(topic, range(100))
    script = tmp_path / "job.py"
    script.write_text(
        f"""
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local-cluster[2,1,600]").config("spark.executor.memory", "600m")
    .config("spark.ui.enabled", "false").config("spark.local.dir", {str(tmp_path)!r}).getOrCreate()
)
frame = spark.read.format("ottla").option("subscribe", "{topic}").option("minPartitions", "2").load()
frame.select("key", "value").write.format("ottla").option("topic", "{copy}").mode("append").save()
spark.stop()
"""
    )
    environment = {
        **os.environ,
        "OTTLA_BOOTSTRAP": cluster.bootstrap,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    job = subprocess.run(
        [sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert sorted(message.value().decode() for message in cluster.consume(copy)) == sorted(values(range(100)))


def test_what_the_documents_show_works(spark, cluster, tmp_path):
    """The blocks of the README and of docs/spark.md, run as they stand, with the address and the topic of this test."""
    topic = cluster.create(partitions=2)
    cluster.produce(topic, range(10))
    snippets = [text for text in blocks("README.md", "python") if "format(" in text] + blocks("docs/spark.md", "python")
    assert len(snippets) == 10
    names: dict[str, Any] = {"spark": spark, "frame": spark.range(5)}
    totals = cluster.create()
    for snippet in snippets:
        if "SparkSession.builder" in snippet:
            compile(snippet, "docs/spark.md", "exec")
            continue
        if "query." in snippet:
            source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
            stream = source.option("subscribe", topic).load().writeStream.format("noop")
            names["query"] = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            names["query"].processAllAvailable()
        if "totals." in snippet:
            rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", cluster.bootstrap)
            rows = rows.option("subscribe", topic).option("startingOffsets", "earliest").load()
            names["totals"] = rows.groupBy(f.lit("UA").alias("carrier")).count()
            snippet = snippet.replace('"totals"', f'"{totals}"').replace('"checkpoint"', f'"{tmp_path / "totals"}"')
        text = snippet.replace("127.0.0.1:9092", cluster.bootstrap).replace('"orders"', f'"{topic}"')
        exec(compile(text, "docs/spark.md", "exec"), names)
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    assert [bytes(row.value) for row in read(spark, cluster, totals).collect()] == [b'{"carrier":"UA","count":20}']
    assert names["orders"].columns == names["events"].columns
    assert read(spark, cluster, topic).count() == 20
