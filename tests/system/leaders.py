"""Which replica leads, as an operator decides it."""

from __future__ import annotations

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from tests.cluster import Cluster, wait_until


def move_leaders(cluster: Cluster, topic: str) -> None:
    """Have another replica lead each partition of a topic; nobody dies."""
    partitions = cluster.metadata_of(topic).topics[topic].partitions
    wanted = {each.partition: [*each.replicas[1:], each.replicas[0]] for each in partitions}
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.alter_partition_reassignments({TopicPartition(topic, each): wanted[each] for each in wanted})
    admin.elect_leaders(0, {topic: list(wanted)})  # the preferred ones
    admin.close()
    for index, replicas in wanted.items():
        for broker_id in cluster.brokers:
            wait_until(
                lambda: cluster.metadata_of(topic, at=broker_id).topics[topic].partition(index).leader == replicas[0],  # noqa: B023
                f"broker {broker_id} knows that {replicas[0]} leads {topic}-{index}",
            )
