"""Reads what is there in the end, with a client library that checks every CRC."""

from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition

from chaos.history import FinalState
from ottla.simulation.history import Partition
from workload.payload import Payload, read_value
from workload.worker import PATIENCE_S


def read_final_state(bootstrap: str, partitions: list[Partition]) -> FinalState:
    """Every record of `partitions`, and how many partitions each topic has. Raises what the client does."""
    records: dict[Partition, list[tuple[int, Payload | None]]] = {partition: [] for partition in partitions}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True)
    try:
        assigned = [TopicPartition(*partition) for partition in partitions]
        consumer.assign(assigned)
        ends = consumer.end_offsets(assigned)
        consumer.seek_to_beginning(*assigned)
        while any(consumer.position(each) < ends[each] for each in assigned):
            found = consumer.poll(timeout_ms=1000 * PATIENCE_S)
            if not found:
                raise TimeoutError(f"no records for {PATIENCE_S} s before the end of {partitions}")
            for each, batch in found.items():
                records[each.topic, each.partition] += [(record.offset, read_value(record.value)) for record in batch]
    finally:
        consumer.close()
    return FinalState(records, topic_sizes(bootstrap))


def topic_sizes(bootstrap: str) -> dict[str, int]:
    """How many partitions each topic has."""
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=PATIENCE_S)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}
