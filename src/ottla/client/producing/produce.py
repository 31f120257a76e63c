"""Produce: record batches on their way to a leader, and what became of each."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.errors import BrokerError, broker_error, error_code
from ottla.client.io.cluster_metadata import ClusterMetadata
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


class Acks(IntEnum):
    """When a leader acknowledges a produce request."""

    NONE = 0
    """Never: whatever happens to the records, nobody is told."""
    LEADER = 1
    """When the leader has written them."""
    ALL = -1
    """When all replicas in sync have them and, on an Ottla broker, they are on disk."""


class ProducedBatch(NamedTuple):
    """What became of one partition's batches.

    `base_offset` is the offset of the first record. `log_append_time_ms` is -1 unless the topic stamps records itself.
    """

    topic_partition: TopicPartition
    error: ErrorCode
    message: str | None
    base_offset: int
    log_append_time_ms: int

    def raise_for_error(self) -> None:
        """Raise BrokerError when the batches were refused."""
        if self.error != ErrorCode.NONE:
            raise self.as_exception()

    def as_exception(self) -> BrokerError:
        """The error as an exception that says which partition refused.

        Corrupt batches stay corrupt, so that error is not retriable here.
        """
        error = broker_error(self.error, f"{self.topic_partition} refused records", self.message)
        error.retriable = self.error.retriable and self.error != ErrorCode.CORRUPT_MESSAGE
        return error


def produce_request(
    batches: Iterable[tuple[TopicPartition, bytes | bytearray | memoryview]],
    metadata: ClusterMetadata,
    acks: Acks,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """The request for encoded batches, at most one run of them per partition, all led by one broker.

    `timeout_ms` limits how long the leader waits for the other replicas.
    """
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic_partition, records in batches:
        topics.setdefault(topic_partition.topic, []).append(
            PartitionProduceData(index=topic_partition.partition, records=records)
        )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=tuple(
            TopicProduceData(name=name, topic_id=metadata.topic_id(name), partition_data=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def produced(response: ProduceResponse, request: ProduceRequest) -> Sequence[ProducedBatch]:
    """The answer partition by partition. Answers that name topics by id alone get the names the request had."""
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    return [
        ProducedBatch(
            topic_partition=TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index),
            error=error_code(partition.error_code),
            message=_message(partition),
            base_offset=partition.base_offset,
            log_append_time_ms=partition.log_append_time_ms,
        )
        for topic in response.responses
        for partition in topic.partition_responses
    ]


def _message(partition: PartitionProduceResponse) -> str | None:
    of_records = (each.batch_index_error_message for each in partition.record_errors)
    return partition.error_message or next((message for message in of_records if message), None)
