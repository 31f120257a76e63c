"""Which partitions each process of an application serves to interactive queries, by the address it gave."""

from collections.abc import Iterable

from ottla.groups.streams.configured_topology import ConfiguredTopology
from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.tasks import Task, by_subtopology
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology
) -> tuple[EndpointToPartitions, ...]:
    """The input partitions of the tasks of each member that gave an address; standbys and warm-ups together."""
    return tuple(
        EndpointToPartitions(
            user_endpoint=Endpoint(endpoint.host, endpoint.port),
            active_partitions=_partitions(member.assigned.epochs, configured),
            standby_partitions=_partitions((*member.assigned.standby, *member.assigned.warmup), configured),
        )
        for member in members
        if (endpoint := member.metadata.user_endpoint) is not None
    )


def _partitions(tasks: Iterable[Task], configured: ConfiguredTopology) -> tuple[TopicPartition, ...]:
    found = []
    for subtopology_id, indexes in by_subtopology(tasks).items():
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for topic, count in sorted(subtopology.input_partition_counts.items()):
            partitions = tuple(index for index in indexes if index < count)
            if partitions:
                found.append(TopicPartition(topic, partitions))
    return tuple(found)
