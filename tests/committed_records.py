"""What readers of committed records see of a topic, once the transactions that were begun there have ended.

The markers of a transaction come after the answer to its commit: until they are there the topic seems to end before it.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

PATIENCE_S = 60


def reader(bootstrap: str, isolation: str) -> Consumer:
    """A consumer that belongs to no group, and hears of the ends of partitions."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )


def ends_of(bootstrap: str, topic: str) -> dict[int, int]:
    """Where each partition ends, records of open transactions included."""
    everybody = reader(bootstrap, "read_uncommitted")
    partitions = everybody.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    ends = {
        each: everybody.get_watermark_offsets(TopicPartition(topic, each), timeout=PATIENCE_S)[1] for each in partitions
    }
    everybody.close()
    return ends


def committed_records(bootstrap: str, topic: str) -> list[Any]:
    """The messages of all partitions; fails when a transaction stays open."""
    ends = ends_of(bootstrap, topic)
    consumer = reader(bootstrap, "read_committed")
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
