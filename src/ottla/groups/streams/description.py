"""Streams groups as administrators see them."""

from collections.abc import Iterable

from ottla.groups.streams.configured_topology import InternalTopic
from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.streams_group import StreamsGroup
from ottla.groups.streams.tasks import Task, Tasks, by_subtopology
from ottla.protocol.coordinator_records import streams_group as formats
from ottla.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def describe(group: StreamsGroup) -> DescribedGroup:
    """A group with its topology and members; numbers of partitions as they are once they are decided."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=tuple(_member(member, group.target(member_id)) for member_id, member in group.members.items()),
    )


def _topology(group: StreamsGroup) -> Topology | None:
    configured = group.configured
    if configured is not None and configured.is_ready:
        subtopologies = tuple(
            Subtopology(
                subtopology_id=subtopology_id,
                source_topics=tuple(sorted(each.source_topics)),
                repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
                state_changelog_topics=_decided(each.changelog_topics.values()),
                repartition_source_topics=_decided(each.repartition_source_topics.values()),
            )
            for subtopology_id, each in sorted(configured.subtopologies.items())
        )
        return Topology(configured.epoch, subtopologies)
    if group.topology is None:
        return None
    return Topology(group.topology.epoch, tuple(_as_sent(each) for each in group.topology.subtopologies))


def _decided(topics: Iterable[InternalTopic]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partition_count,
            replication_factor=max(topic.replication_factor, 0),
            topic_configs=tuple(KeyValue(key, value) for key, value in sorted(topic.configs.items())),
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    )


def _as_sent(subtopology: formats.Subtopology) -> Subtopology:
    def topics(infos: Iterable[formats.TopicInfo]) -> tuple[TopicInfo, ...]:
        return tuple(
            TopicInfo(
                each.name,
                each.partitions,
                each.replication_factor,
                tuple(KeyValue(config.key, config.value) for config in each.topic_configs),
            )
            for each in infos
        )

    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        repartition_sink_topics=subtopology.repartition_sink_topics,
        state_changelog_topics=topics(subtopology.state_changelog_topics),
        repartition_source_topics=topics(subtopology.repartition_source_topics),
    )


def _member(member: StreamsMember, target: Tasks) -> Member:
    said = member.metadata
    endpoint = said.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=tuple(KeyValue(each.key, each.value) for each in said.client_tags),
        assignment=_assignment(member.assigned.tasks),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(_task_ids(tasks.active), _task_ids(tasks.standby), _task_ids(tasks.warmup))


def _task_ids(tasks: Iterable[Task]) -> tuple[TaskIds, ...]:
    return tuple(TaskIds(*each) for each in by_subtopology(tasks).items())
