"""Moving replicas of partitions to other brokers (KIP-455), and who leads them (KIP-460)."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.errors import BrokerError, broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_FINAL: Final = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
"""A change that timed out may be made later: whoever asks again has to know that."""


class Reassignment(NamedTuple):
    """Where the replicas of a partition are while they move: all of them, those that come, and those that go then."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ElectionType(IntEnum):
    """Whom to elect: the first of the replicas, or anybody at all where nobody is in sync."""

    PREFERRED = 0
    UNCLEAN = 1


async def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """What moves now, of these partitions or of all. Raises BrokerError."""
    topics = None
    if partitions is not None:
        topics = tuple(ListPartitionReassignmentsTopics(*each) for each in _by_topic(partitions).items())
    request = ListPartitionReassignmentsRequest(timeout_ms=cluster.options.request_timeout_ms, topics=topics)
    response = await cluster.ask_any(request, ListPartitionReassignmentsResponse)
    if response.error_code:
        raise broker_error(response.error_code, "reassignments were not listed", response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in response.topics
        for each in topic.partitions
    }


async def alter_reassignments(
    cluster: Cluster, wanted: Mapping[TopicPartition, tuple[int, ...] | None], *, may_change_factor: bool = True
) -> dict[TopicPartition, BrokerError | None]:
    """Have partitions move to these brokers, or with None stay where they were; what was refused, by partition.

    NO_REASSIGNMENT_IN_PROGRESS says that there was nothing to cancel. Raises BrokerError when nothing was looked at,
    and REQUEST_TIMED_OUT when it is not known whether anything was changed.
    """
    topics: dict[str, list[ReassignablePartition]] = {}
    for place, replicas in wanted.items():
        topics.setdefault(place.topic, []).append(ReassignablePartition(place.partition, replicas))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.options.request_timeout_ms,
        allow_replication_factor_change=may_change_factor,
        topics=tuple(ReassignableTopic(name, tuple(partitions)) for name, partitions in topics.items()),
    )

    async def attempt() -> AlterPartitionReassignmentsResponse:
        response = await cluster.ask_any(request, AlterPartitionReassignmentsResponse)
        if response.error_code not in _FINAL:
            raise broker_error(response.error_code, "nothing was reassigned", response.error_message)
        return response

    response = await cluster.retrying(attempt, cluster.deadline())
    if response.error_code:
        raise broker_error(response.error_code, "the partitions may not be reassigned", response.error_message)
    answered = _left_out(wanted)
    for topic in response.responses:
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            answered[place] = _outcome(each.error_code, f"{place} was not reassigned", each.error_message)
    return answered


async def elect_leaders(
    cluster: Cluster, election: ElectionType, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, BrokerError | None]:
    """Elect leaders of these partitions, or of all that can be elected; why one was not, by partition.

    ELECTION_NOT_NEEDED says that it is as it was to become. Raises BrokerError when nothing was looked at, and
    REQUEST_TIMED_OUT when it is not known whether leaders were elected.
    """
    topics = None
    if partitions is not None:
        partitions = list(partitions)
        topics = tuple(TopicPartitions(*each) for each in _by_topic(partitions).items())
    request = ElectLeadersRequest(
        election_type=election, topic_partitions=topics, timeout_ms=cluster.options.request_timeout_ms
    )

    async def attempt() -> ElectLeadersResponse:
        response = await cluster.ask_any(request, ElectLeadersResponse)
        if response.error_code not in _FINAL:
            raise broker_error(response.error_code, "no leaders were elected", response.error_message)
        return response

    response = await cluster.retrying(attempt, cluster.deadline())
    if response.error_code:
        raise broker_error(response.error_code, "leaders may not have been elected", response.error_message)
    answered = _left_out(partitions or ())
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            place = TopicPartition(topic.topic, each.partition_id)
            answered[place] = _outcome(each.error_code, f"no leader of {place} was elected", each.error_message)
    return answered


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    topics: dict[str, tuple[int, ...]] = {}
    for topic, partition in partitions:
        topics[topic] = (*topics.get(topic, ()), partition)
    return topics


def _left_out(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, BrokerError | None]:
    return {
        place: broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker left {place} out of its answer")
        for place in partitions
    }


def _outcome(code: int, what: str, message: str | None) -> BrokerError | None:
    return broker_error(code, what, message) if code else None
