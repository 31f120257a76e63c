"""What readers of committed records see of a topic, once the transactions that were begun there have ended.

The markers of a transaction come after the answer to its commit: until they are there the topic seems to end before it.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from ottla.client.blocking import BlockingClient
from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition as Place

PATIENCE_S = 60


def ends_of(bootstrap: str, topic: str) -> dict[int, int]:
    """Where each partition ends, records of open transactions included."""
    with BlockingClient(bootstrap) as client:
        places = [Place(topic, each.partition) for each in client.metadata([topic])[topic].partitions]
        found = client.list_offsets(dict.fromkeys(places, OffsetAt.LATEST))
    return {place.partition: listed.offset for place, listed in found.items()}


def wait_until_ended(bootstrap: str, transactional_id: str) -> None:
    """Wait until the end of the last transaction of an id has come to all of its partitions."""
    with BlockingClient(bootstrap) as client:
        client.transactions(transactional_id).describe()


def committed_records(bootstrap: str, topic: str) -> list[Any]:
    """The messages of all partitions; fails when a transaction stays open."""
    ends = ends_of(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in ends])
    messages: list[Any] = []
    while ends:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"nothing comes from {topic}, before {ends}"
        error = message.error()
        if error is None:
            messages.append(message)
            continue
        assert error.code() == KafkaError._PARTITION_EOF, error
        if message.offset() >= ends.get(message.partition(), 0):
            ends.pop(message.partition(), None)
    consumer.close()
    return messages
