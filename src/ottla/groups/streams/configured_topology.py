"""A topology of a streams group once it was held against the topics there are (`topic_configuration`)."""

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from ottla.groups.streams.assignor import Subtasks


class Status(IntEnum):
    """What a heartbeat tells a member beside its tasks; the numbers are those of StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(Struct, frozen=True):
    """Why nothing can be assigned, for people to read."""

    status: Status
    detail: str


class InternalTopic(Struct, frozen=True):
    """A topic of the group's own, as it has to be. A replication factor of -1 is the broker's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(Struct, frozen=True):
    """A subtopology with the numbers of partitions of its topics."""

    input_partition_counts: Mapping[str, int]
    """Of the topics it reads: source topics and repartition topics."""
    source_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: Mapping[str, InternalTopic]

    @property
    def task_count(self) -> int:
        """One for each partition of its largest topic."""
        return max(self.input_partition_counts.values())


class ConfiguredTopology(Struct, frozen=True):
    """What became of a topology. Without a `problem` its tasks can be assigned."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    topics_to_create: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether every topic is there as it has to be."""
        return self.problem is None

    @property
    def tasks(self) -> list[Subtasks]:
        """What the assignor has to deal out."""
        return [
            Subtasks(subtopology_id, each.task_count, bool(each.changelog_topics))
            for subtopology_id, each in sorted(self.subtopologies.items())
        ]
