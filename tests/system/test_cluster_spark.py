"""A Spark query that reads and writes with format("ottla") goes on, exactly once, while brokers are killed in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.cluster import Cluster, wait_until
from tests.system.spark_session import spark_session
from tests.system.test_cluster import Load

pytestmark = pytest.mark.long

PARTITIONS = 3
RECORDS = 200


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def test_every_row_is_written_once_while_each_broker_is_killed_in_turn(
    spark: SparkSession, new_cluster: Callable[..., Cluster], tmp_path
) -> None:
    cluster = new_cluster(
        3, min_insync_replicas="2", transaction_state_log_num_partitions="3", default_replication_factor="3"
    ).start()
    cluster.wait_until_registered()
    topics = [cluster.create_topic(name, PARTITIONS) for name in ("in", "out")]
    load = Load(cluster, "in")
    load.send(RECORDS)
    load.settle()
    options = {"kafka.bootstrap.servers": cluster.bootstrap}
    rows = spark.readStream.format("ottla").options(**options, subscribe="in", startingOffsets="earliest").load()
    query = (
        rows.selectExpr("value as key", "value")
        .writeStream.format("ottla")
        .options(**options, topic="out", mode="exactly-once", transactionalId="spark-rounds")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        written(cluster, RECORDS, query)
        for broker in cluster.brokers.values():
            for topic in (*topics, "__transaction_state"):
                cluster.wait_until_in_sync(topic)
            load.send(RECORDS)
            broker.kill()
            load.send(RECORDS)
            load.settle()
            written(cluster, len(load.acknowledged), query)
            broker.start()
        load.send(RECORDS)
        load.settle()
        written(cluster, len(load.acknowledged), query)
    finally:
        query.stop()
    assert committed(cluster) == Counter(load.acknowledged)


def written(cluster: Cluster, count: int, query: StreamingQuery) -> Counter[int]:
    """What is committed in the topic, once it is so many rows; the query's own failure where it has one."""

    def look() -> Counter[int] | None:
        assert query.exception() is None, str(query.exception())
        found = committed(cluster)
        return found if len(found) >= count else None

    return wait_until(look, f"{count} rows", 120)


def committed(cluster: Cluster) -> Counter[int]:
    """Everything that is committed in the topic, up to its end."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.partition.eof": True, "log_level": 2}
    )
    consumer.assign([TopicPartition("out", each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    found: Counter[int] = Counter()
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found[int(message.value())] += 1
        elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return found
