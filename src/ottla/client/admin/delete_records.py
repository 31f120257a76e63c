"""Moving the start of partitions forward: everything before an offset is gone at once, for every reader."""

from collections.abc import Mapping

from ottla.client.errors import BrokerError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

TO_THE_END = -1
"""As an offset: everything up to the high watermark."""


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int | BrokerError]:
    """Delete the records before an offset of each partition (KIP-107); by partition, its start now or what was refused.

    Asks all leaders at the same time, and repeats failed requests after retriable errors. OFFSET_OUT_OF_RANGE means
    that an offset is after the end, POLICY_VIOLATION that the topic is compacted and never deletes. Raises
    TopicNotFoundError if a partition does not exist.
    """
    done: dict[TopicPartition, int | BrokerError] = {}

    async def attempt() -> None:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for place, offset in before.items():
            if place not in done:
                leader = (await cluster.leader(place, deadline)).leader
                by_leader.setdefault(leader, {})[place] = offset
        answers = await cluster.io.together(
            [_ask_leader(cluster, leader, wanted, deadline) for leader, wanted in by_leader.items()]
        )
        again: BrokerError | None = None
        for answer in answers:
            for place, outcome in answer.items():
                if isinstance(outcome, BrokerError) and outcome.retriable:
                    cluster.metadata.forget_topic(place.topic)
                    again = outcome
                else:
                    done[place] = outcome
        if again is not None:
            raise again

    await cluster.retrying(attempt, deadline)
    return {place: done[place] for place in before}


async def _ask_leader(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int | BrokerError]:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for (name, number), offset in wanted.items():
        topics.setdefault(name, []).append(DeleteRecordsPartition(partition_index=number, offset=offset))
    request = DeleteRecordsRequest(
        topics=tuple(DeleteRecordsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
        timeout_ms=min(deadline.left_ms, cluster.options.request_timeout_ms),
    )
    response = await cluster.ask_node(leader, request, DeleteRecordsResponse)
    answered: dict[TopicPartition, int | BrokerError] = {
        # A leader that leaves a partition out has not done it.
        place: broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker left {place} out of its answer")
        for place in wanted
    }
    for topic in response.topics:
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            what = f"the records of {place} were not deleted"
            answered[place] = broker_error(each.error_code, what) if each.error_code else each.low_watermark
    return answered
