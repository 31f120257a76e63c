"""What became of one record in share groups, as the leader of its partition knows it."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.describe_history import DescribeHistoryRequest, DescribeHistoryResponse


class RecordEvent(NamedTuple):
    """One thing that happened to a record in a group. `member_id` is empty where no member did it."""

    group_id: str
    time_ms: int
    what: str
    deliveries: int
    member_id: str


async def record_history(
    cluster: Cluster, groups: Iterable[str], place: TopicPartition, offset: int
) -> list[RecordEvent]:
    """The events of share groups, in the order of their times. Raises ClientError."""
    deadline = cluster.deadline()
    await cluster.refresh({place.topic})
    leader = (await cluster.leader(place, deadline)).leader
    topic_id = cluster.metadata.topic_id(place.topic)
    events: list[RecordEvent] = []
    for group in groups:
        request = DescribeHistoryRequest(group, topic_id, place.partition, offset)
        response = await cluster.ask_node(leader, request, DescribeHistoryResponse)
        if response.error_code:
            raise broker_error(response.error_code, f"asking broker {leader} what became of {place} offset {offset}")
        events += [
            RecordEvent(group, event.time_ms, event.what, event.deliveries, event.member_id)
            for event in response.events
        ]
    return sorted(events, key=lambda event: event.time_ms)
