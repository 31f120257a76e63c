"""Spark writes exactly once: what another client reads with `read_committed`, and what users are told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_ottla import by_partition, sink_state
from tests.broker_process import BrokerProcess
from tests.committed_records import committed_records, wait_until_ended
from tests.system.spark_session import spark_session

_names = count()


pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


class Topics:
    """Topics of one broker, as another client sees them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(self, partitions: int = 3) -> str:
        name = f"spark-sink-{next(_names)}"
        for creation in self.admin.create_topics([NewTopic(name, partitions, 1)]).values():
            creation.result()
        return name

    def committed(self, topic: str) -> list[str]:
        """The values, once the end of the topic's transaction has come to all partitions."""
        wait_until_ended(self.bootstrap, topic)
        values = [message.value().decode() for message in committed_records(self.bootstrap, topic)]
        return sorted(values, key=int)


@pytest.fixture
def topics(broker: BrokerProcess) -> Topics:
    return Topics(broker.bootstrap)


def exactly_once(topics: Topics, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": topics.bootstrap,
        "topic": topic,
        "mode": "exactly-once",
        "transactionalId": topic,
    }


def numbers(spark: SparkSession, directory: Path) -> DataFrame:
    """A stream of what is in a directory, a file in a micro-batch; key and value are the number in a line."""
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(directory))
    return lines.selectExpr("value as key", "value")


def run(frame: DataFrame, checkpoint: Path, options: dict[str, str]) -> None:
    writer = frame.writeStream.format("ottla").options(**options).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def add(directory: Path, *lines: int) -> None:
    directory.mkdir(exist_ok=True)
    name = f"{len(list(directory.iterdir())):03}.txt"
    (directory.parent / name).write_text("".join(f"{line}\n" for line in lines))
    (directory.parent / name).rename(directory / name)


def test_a_stream_writes_each_row_once_though_spark_forgot_a_batch(spark, topics, tmp_path):
    topic = topics.create()
    options = exactly_once(topics, topic)
    add(tmp_path / "in", *range(50))
    add(tmp_path / "in", *range(50, 100))
    run(numbers(spark, tmp_path / "in").coalesce(1), tmp_path / "checkpoint", options)
    state = sink_state.committed_batch(topics.bootstrap, topic)
    assert state is not None
    assert (state.batch_id, state.records) == (1, 50)

    # As after a driver that died between our commit and Spark's.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    add(tmp_path / "in", *range(100, 120))
    run(numbers(spark, tmp_path / "in").coalesce(1), tmp_path / "checkpoint", options)
    assert topics.committed(topic) == [str(each) for each in range(120)]

    with pytest.raises(StreamingQueryException, match="is that of query"):
        run(numbers(spark, tmp_path / "in").coalesce(1), tmp_path / "another", options)
    assert topics.committed(topic) == [str(each) for each in range(120)]


def test_several_tasks_write_one_transaction_when_each_partition_is_one_tasks(spark, topics):
    topic = topics.create(5)
    rows = spark.range(1000, numPartitions=3).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    writer = by_partition(rows, 5, tasks=2).write.format("ottla").options(**exactly_once(topics, topic))
    writer.mode("append").save()
    assert topics.committed(topic) == [str(each) for each in range(1000)]


def test_rows_of_several_tasks_for_one_partition_are_refused_with_the_recipe(spark, topics):
    topic = topics.create(1)
    rows = spark.range(1000, numPartitions=2).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    with pytest.raises(PySparkException, match=r"write frame.coalesce\(1\), or pyspark_ottla.by_partition") as raised:
        rows.write.format("ottla").options(**exactly_once(topics, topic)).mode("append").save()
    assert "Traceback" not in str(raised.value)
    assert topics.committed(topic) == []


def test_a_topic_that_is_not_there_is_told_before_any_task_starts(spark, topics):
    rows = spark.range(10).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match="topic 'nowhere' does not exist on the broker") as raised:
        rows.write.format("ottla").options(**exactly_once(topics, "nowhere")).mode("append").save()
    assert "Traceback" not in str(raised.value)
    assert "Job aborted" not in str(raised.value)
