"""The topology of a streams group, as far as the coordinator needs it: which topics belong to which subtopology.

It is kept in the form of its record (StreamsGroupTopologyValue); a heartbeat carries the same under other names.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.coordinator_records.streams_group import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from ottla.protocol.messages import streams_group_heartbeat as heartbeat

Topology: TypeAlias = StreamsGroupTopologyValue

TOPOLOGY_VERSION: Final = 0
"""The version of the record."""

SUBTOPOLOGIES_MAX: Final = 1_000
"""Subtopologies of one topology. Each has at least one task; an application of a hundred is a large one."""

ID_BYTES_MAX: Final = 1024
"""The id of a subtopology goes into the record of each member that has a task of it."""


def topology_of(request: heartbeat.Topology, record_bytes_max: int) -> Topology:
    """The topology a member sends. Raises ApiError STREAMS_INVALID_TOPOLOGY for one that cannot be kept."""
    if len(request.subtopologies) > SUBTOPOLOGIES_MAX:
        raise invalid_topology(f"A topology has at most {SUBTOPOLOGIES_MAX} subtopologies.")
    topology = msgspec.convert(request, Topology, from_attributes=True)
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise invalid_topology("Two subtopologies have the same id.")
    if any(len(each.encode()) > ID_BYTES_MAX for each in ids):
        raise invalid_topology(f"The id of a subtopology has at most {ID_BYTES_MAX} bytes.")
    for subtopology in topology.subtopologies:
        _check(subtopology)
    size = len(topology.encode(TOPOLOGY_VERSION))
    if size > record_bytes_max:
        raise invalid_topology(f"The topology takes {size} bytes, at most {record_bytes_max} can be stored.")
    return topology


def _check(subtopology: Subtopology) -> None:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions != 0:
            raise invalid_topology(
                f"Changelog topic {topic.name} must have an undefined partition count, "
                f"but it is set to {topic.partitions}."
            )
    if any(topic.partitions < 0 for topic in subtopology.repartition_source_topics):
        raise invalid_topology(f"A repartition topic of subtopology {subtopology.subtopology_id} has a negative count.")
    for group in subtopology.copartition_groups:
        for indexes, count in (
            (group.source_topics, len(subtopology.source_topics)),
            (group.repartition_source_topics, len(subtopology.repartition_source_topics)),
        ):
            if any(not 0 <= index < count for index in indexes):
                raise invalid_topology(
                    f"A copartition group of subtopology {subtopology.subtopology_id} names a topic that is not there."
                )


def invalid_topology(message: str) -> ApiError:
    """The refusal of a topology."""
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def input_topics(subtopology: Subtopology) -> Iterator[str]:
    """The topics a subtopology reads: its source topics, then those that other subtopologies write for it."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def required_topics(topology: Topology) -> frozenset[str]:
    """The topics that must be there before anything can be assigned."""
    names: set[str] = set()
    for subtopology in topology.subtopologies:
        names.update(input_topics(subtopology))
        names.update(topic.name for topic in subtopology.state_changelog_topics)
    return frozenset(names)


def subtopology_of_topic(topology: Topology) -> dict[str, str]:
    """The id of the subtopology that reads each topic."""
    return {
        topic: subtopology.subtopology_id
        for subtopology in topology.subtopologies
        for topic in input_topics(subtopology)
    }


def copartition_topics(subtopology: Subtopology, group: CopartitionGroup) -> frozenset[str]:
    """The topics of a copartition group by name."""
    names = {subtopology.source_topics[index] for index in group.source_topics}
    names.update(subtopology.repartition_source_topics[index].name for index in group.repartition_source_topics)
    return frozenset(names)


def is_same(first: Topology, second: Topology) -> bool:
    """Whether two topologies say the same, in whatever order: the collections of a Java client have none."""
    return first == second or _canonical(first) == _canonical(second)


def _canonical(topology: Topology) -> object:
    return topology.epoch, {each.subtopology_id: _canonical_subtopology(each) for each in topology.subtopologies}


def _canonical_subtopology(subtopology: Subtopology) -> object:
    return (
        frozenset(subtopology.source_topics),
        frozenset(subtopology.source_topic_regex),
        _canonical_topics(subtopology.state_changelog_topics),
        frozenset(subtopology.repartition_sink_topics),
        _canonical_topics(subtopology.repartition_source_topics),
        frozenset(copartition_topics(subtopology, group) for group in subtopology.copartition_groups),
    )


def _canonical_topics(topics: tuple[TopicInfo, ...]) -> object:
    return {
        topic.name: (
            topic.partitions,
            topic.replication_factor,
            frozenset((each.key, each.value) for each in topic.topic_configs),
        )
        for topic in topics
    }
