"""The topics of a streams group's topology, held against the topics there are.

Source topics must be there. The others, repartition topics between subtopologies and changelogs of their state, are the
group's own: how many partitions each has is decided here, and which of them are still to be made.

    source (4) -> subtopology 0 -> repartition topic -> subtopology 1 -> changelog
                                   4, as the source                      4, as the repartition topic
                                   or what the application set

Topics that are joined must have as many partitions (a copartition group): repartition topics without a count of their
own are given that of the others. Source: KIP-1071; the order of the checks and the words are Apache Kafka's.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.groups.streams.configured_topology import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
    Problem,
    Status,
)
from ottla.groups.streams.topology import (
    Topology,
    copartition_topics,
    input_topics,
    invalid_topology,
    required_topics,
)
from ottla.protocol.coordinator_records.streams_group import Subtopology, TopicInfo

PartitionCountOf = Callable[[str], int | None]
"""How many partitions the topic of a name has; None when there is none."""

TASKS_MAX: Final = 10_000
"""Tasks of one group. The assignor runs in one go: so many, with standbys, take it 0.1 s of CPU, 2,000 take 15 ms."""

NAMES_SHOWN_MAX: Final = 10
"""Topics named in a status; of the others the number."""

SOURCE_NAMES_SHOWN_MAX: Final = 3
"""The same for source topics that are missing."""


class _UnfitTopicsError(Exception):
    """The topics there are do not fit; carries the problem."""

    def __init__(self, status: Status, detail: str) -> None:
        self.problem = Problem(status, detail)


def configure(topology: Topology, count_of: PartitionCountOf) -> ConfiguredTopology:
    """Hold a topology against the topics there are.

    Raises ApiError STREAMS_INVALID_TOPOLOGY for one that no topics could fit.
    """
    try:
        _require_source_topics(topology, count_of)
        decided = _decide_repartition_topics(topology, count_of)

        def decided_count_of(topic: str) -> int | None:
            existing = count_of(topic)
            return decided.get(topic) if existing is None else existing

        repartition_topics = {
            topic.name: topic
            for subtopology in topology.subtopologies
            for topic in subtopology.repartition_source_topics
        }
        for subtopology in topology.subtopologies:
            for group in subtopology.copartition_groups:
                topics = copartition_topics(subtopology, group)
                decided.update(_agree(topics, repartition_topics, decided_count_of))
        for subtopology in topology.subtopologies:
            task_count = _task_count(subtopology, decided_count_of)
            inputs = frozenset(input_topics(subtopology))
            for topic in subtopology.state_changelog_topics:
                if topic.name not in inputs:
                    decided[topic.name] = task_count
        subtopologies = {
            each.subtopology_id: _configured(each, decided, decided_count_of) for each in topology.subtopologies
        }
        if sum(each.task_count for each in subtopologies.values()) > TASKS_MAX:
            raise invalid_topology(f"The topology has more than {TASKS_MAX} tasks.")
        missing = _missing_internal_topics(topology, subtopologies, count_of)
    except _UnfitTopicsError as unfit:
        return ConfiguredTopology(topology.epoch, problem=unfit.problem)
    problem = None
    if missing:
        names = shown(topic.name for topic in missing)
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def shown(names: Iterable[str]) -> str:
    """Names of topics for people: sorted, the first ones."""
    every = sorted(names)
    more = len(every) - NAMES_SHOWN_MAX
    return f"[{', '.join(every[:NAMES_SHOWN_MAX])}]" + (f" and {more} additional topics" if more > 0 else "")


def _require_source_topics(topology: Topology, count_of: PartitionCountOf) -> None:
    missing = {topic for each in topology.subtopologies for topic in each.source_topics if count_of(topic) is None}
    if missing:
        raise _UnfitTopicsError(Status.MISSING_SOURCE_TOPICS, f"Source topics {_few(missing)} are missing.")


def _few(names: Iterable[str]) -> str:
    """Some names of topics, as Apache Kafka puts them into this sentence."""
    every = sorted(names)
    more = len(every) - SOURCE_NAMES_SHOWN_MAX
    return ", ".join(every[:SOURCE_NAMES_SHOWN_MAX]) + (f" and {more} additional topics" if more > 0 else "")


def _decide_repartition_topics(topology: Topology, count_of: PartitionCountOf) -> dict[str, int]:
    """The number of partitions of each repartition topic: what the application set, or the largest of the topics that
    the subtopology which writes to it reads. Those may be repartition topics themselves.
    """
    decided = {
        topic.name: topic.partitions
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }
    readers: dict[str, list[Subtopology]] = {}
    undecided: dict[str, int] = {}
    ready: list[Subtopology] = []
    for subtopology in topology.subtopologies:
        unknown = {topic.name for topic in subtopology.repartition_source_topics} - decided.keys()
        undecided[subtopology.subtopology_id] = len(unknown)
        for name in unknown:
            readers.setdefault(name, []).append(subtopology)
        if not unknown:
            ready.append(subtopology)
    for subtopology in ready:
        written = [name for name in subtopology.repartition_sink_topics if name not in decided]
        if not written:
            continue
        count = _task_count(subtopology, lambda topic: decided[topic] if topic in decided else count_of(topic))
        for name in written:
            decided[name] = count
            for reader in readers.get(name, ()):
                undecided[reader.subtopology_id] -= 1
                if not undecided[reader.subtopology_id]:
                    # The loop comes to it, too.
                    ready.append(reader)
    written_somewhere = {name for each in topology.subtopologies for name in each.repartition_sink_topics}
    for name in sorted(readers.keys() - decided.keys()):
        raise invalid_topology(
            "Failed to compute number of partitions for all repartition topics. "
            "There may be loops in the topology that cannot be resolved."
            if name in written_somewhere
            else "Failed to compute number of partitions for all repartition topics, "
            "because a repartition source topic is never used as a sink topic."
        )
    return decided


def _agree(
    topics: frozenset[str], repartition_topics: Mapping[str, TopicInfo], count_of: PartitionCountOf
) -> dict[str, int]:
    """The number of partitions of those topics of a copartition group that may have any."""
    counts = {topic: count for topic in sorted(topics) if (count := count_of(topic)) is not None}
    external = {topic: count for topic, count in counts.items() if topic not in repartition_topics}
    own = {topic: repartition_topics[topic].partitions for topic in counts if topic in repartition_topics}
    flexible = [topic for topic, count in own.items() if not count]
    fixed = {topic: counts[topic] for topic, count in own.items() if count}
    for differing in (external, fixed):
        if len(set(differing.values())) > 1:
            text = ", ".join(f"{topic}={count}" for topic, count in differing.items())
            raise _UnfitTopicsError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Following topics do not have the same number of partitions: [{{{text}}}]",
            )
    agreed = max((external or fixed or counts).values(), default=0)
    for topic, count in fixed.items():
        if count != agreed:
            raise _UnfitTopicsError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{count}] of repartition topic [{topic}] "
                f"doesn't match number of partitions [{agreed}] of the source topic.",
            )
    return dict.fromkeys(flexible, agreed)


def _task_count(subtopology: Subtopology, count_of: PartitionCountOf) -> int:
    counts = [count for topic in input_topics(subtopology) if (count := count_of(topic)) is not None]
    if not counts:
        raise invalid_topology(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return max(counts)


def _configured(
    subtopology: Subtopology, decided: Mapping[str, int], count_of: PartitionCountOf
) -> ConfiguredSubtopology:
    def internal(topics: Iterable[TopicInfo]) -> dict[str, InternalTopic]:
        return {topic.name: _internal_topic(topic, decided, count_of) for topic in topics}

    inputs = frozenset(input_topics(subtopology))
    return ConfiguredSubtopology(
        input_partition_counts={name: count for name in inputs if (count := count_of(name)) is not None},
        source_topics=subtopology.source_topics,
        repartition_source_topics=internal(subtopology.repartition_source_topics),
        repartition_sink_topics=subtopology.repartition_sink_topics,
        changelog_topics=internal(subtopology.state_changelog_topics),
    )


def _internal_topic(topic: TopicInfo, decided: Mapping[str, int], count_of: PartitionCountOf) -> InternalTopic:
    # A source topic may be the changelog of its own table: then it is as it is.
    count = decided.get(topic.name) or count_of(topic.name)
    assert count is not None, f"nobody decided how many partitions {topic.name} has"
    configs = {each.key: each.value for each in topic.topic_configs}
    return InternalTopic(topic.name, count, topic.replication_factor or -1, configs)


def _missing_internal_topics(
    topology: Topology, subtopologies: Mapping[str, ConfiguredSubtopology], count_of: PartitionCountOf
) -> tuple[InternalTopic, ...]:
    """The group's own topics that are not there yet; those that are must have as many partitions as decided."""
    expected = {
        name: topic
        for each in subtopologies.values()
        for name, topic in (*each.repartition_source_topics.items(), *each.changelog_topics.items())
    }
    for name in sorted(required_topics(topology) & expected.keys()):
        existing, topic = count_of(name), expected[name]
        if existing is None:
            continue
        if existing != topic.partition_count:
            raise _UnfitTopicsError(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: "
                f"expected {topic.partition_count}, found {existing}",
            )
        del expected[name]
    return tuple(topic for _, topic in sorted(expected.items()))
