"""A delay topic while the leaders of its partition, of its target and of its coordinators are killed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster import Cluster

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}
COUNT, SECONDS = 3_000, 16


@pytest.mark.long
def test_each_record_comes_once_and_not_early_whichever_leader_is_killed(tmp_path: Path) -> None:
    with Cluster(tmp_path, 3, SETTINGS) as cluster:
        cluster.wait_until_registered()
        cluster.create_topic("orders", message_timestamp_type="LogAppendTime")
        cluster.create_topic("orders.later", ottla_deliver_to="orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        begin_ms = int(time.time() * 1_000) + 1_000
        for number in range(COUNT):
            at = begin_ms + number * 7_919 % (SECONDS * 1_000)
            headers: list[tuple[str, str | bytes | None]] = [("ottla-deliver-at", str(at).encode())]
            producer.produce("orders.later", json.dumps([number, at]).encode(), headers=headers)
        assert producer.flush(60) == 0
        for number, topic in enumerate(("orders.later", "orders", "__transaction_state", "__consumer_offsets")):
            committed(cluster, (number + 1) * COUNT // 8)
            cluster.wait_until_in_sync(topic)
            victim = cluster.leader(topic)
            victim.kill()
            committed(cluster, (number + 1) * COUNT // 8 + COUNT // 16)
            victim.start()
        end_ms = int(time.time() * 1_000) + SECONDS * 1_000
        producer.produce("orders.later", b"[-1, 0]", headers=[("ottla-deliver-at", str(end_ms).encode())])
        assert producer.flush(60) == 0
        found = committed(cluster, COUNT + 1)
        assert sorted(number for (number, _), _ in found) == list(range(-1, COUNT)), "each once, up to the last one"
        assert [each for each in found if each[1] < each[0][1]] == [], "none came early"
        assert "crashed" not in cluster.log


def committed(cluster: Cluster, count: int) -> list[tuple[list[int], int]]:
    """At least so many records of the target from its beginning on, with the time of their append."""
    given = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(given)
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[tuple[list[int], int]] = []
    end = time.monotonic() + 120
    while len(found) < count and time.monotonic() < end:
        good = (each for each in consumer.consume(500, 0.2) if each.error() is None)
        found += [(json.loads(each.value() or b""), each.timestamp()[1]) for each in good]
    consumer.close()
    return found
