"""Reads a partition as those do who want committed records only."""

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from workload.worker import PATIENCE_S


class ReadRecord(NamedTuple):
    """One record."""

    offset: int
    key: bytes | None
    value: bytes | None


def read_partition(bootstrap: str, topic: str, partition: int) -> list[ReadRecord]:
    """All committed records there are now. Raises KafkaException, and TimeoutError when no end is told."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 2,
        }
    )
    found: list[ReadRecord] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(PATIENCE_S)
            if message is None:
                raise TimeoutError(f"the end of {topic}-{partition} was not told within {PATIENCE_S} s")
            error = message.error()
            if error is None:
                offset = message.offset()
                assert offset is not None
                found.append(ReadRecord(offset, message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
