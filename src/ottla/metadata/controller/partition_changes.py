"""What one decision changes in partitions: their new states, the records that say so, and a line for the log of each.

    changes = PartitionChanges(image, rules, live)
    changes.each("broker 2 is fenced: ...", concerns=lambda partition: 2 in partition.isr, step=...)
    changes.records(), changes.lines()

Steps follow each other: each sees what the one before made of a partition.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias
from uuid import UUID

from ottla.metadata.controller.decision import LogLine
from ottla.metadata.controller.topic_replication import ReplicationRule, ReplicationRules
from ottla.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.records import MetadataRecord, PartitionChangedRecord, PartitionsChangedRecord, PartitionState

LINES_MAX: Final = 20
"""Changes of one decision that the log tells one by one; more are told in one line for each reason."""

CHANGES_PER_RECORD: Final = 500
"""Partitions of one record: a node of ZooKeeper holds 1 MB, a state takes some 60 bytes and more."""

Partition: TypeAlias = PartitionImage | PartitionState
Step: TypeAlias = Callable[[PartitionState, ReplicationRule], PartitionState]


class PartitionChanges:
    """The changes of one decision. `live` are the brokers that may lead, as they are for the next step."""

    def __init__(self, image: MetadataImage, rules: ReplicationRules, live: frozenset[int]) -> None:
        self._image = image
        self._rules = rules
        self.live = live
        self.passes_over: Callable[[Partition], bool] = lambda _partition: False
        """Which partitions `each` leaves as they are, whatever the step."""
        self._states: dict[UUID, dict[int, PartitionState]] = {}
        self._reasons: dict[tuple[UUID, int], str] = {}

    def each(self, reason: str, concerns: Callable[[Partition], bool], step: Step) -> None:
        """Take a step with every partition that it concerns."""
        for topic in self._image.topics_by_id.values():
            changed = self._states.get(topic.topic_id)
            rule = None
            for partition in topic.partitions:
                now = partition if changed is None else changed.get(partition.index, partition)
                if concerns(now) and not self.passes_over(now):
                    rule = rule or self._rules.of(topic.name)
                    self._put(topic, partition.index, now, step(_state(now), rule), reason)

    def one(self, topic: TopicImage, index: int, reason: str, step: Step) -> PartitionState:
        """Take a step with one partition; returns its new state."""
        now: Partition = self._states.get(topic.topic_id, {}).get(index, topic.partitions[index])
        before = _state(now)
        after = step(before, self._rules.of(topic.name))
        self._put(topic, index, before, after, reason)
        return after

    def records(self) -> tuple[MetadataRecord, ...]:
        """What makes the changes true: one record for each topic, several when it has many."""
        return tuple(self._records())

    def lines(self) -> tuple[LogLine, ...]:
        """What the log says about them."""
        changes = [
            (topic, index, topic.partitions[index], state)
            for topic, states in self._changed_topics()
            for index, state in states.items()
        ]
        if len(changes) <= LINES_MAX:
            return tuple(
                LogLine(
                    logging.WARNING if _may_lose(before, after) else logging.INFO,
                    f"{topic.name}-{index}: {_difference(before, after)}: {self._reasons[topic.topic_id, index]}",
                )
                for topic, index, before, after in changes
            )
        summaries: dict[str, Counter[str]] = {}
        for topic, index, before, after in changes:
            counts = summaries.setdefault(self._reasons[topic.topic_id, index], Counter())
            counts.update(_kinds(before, after))
            counts["partitions"] += 1
        return tuple(_summary(reason, counts) for reason, counts in summaries.items())

    def _put(self, topic: TopicImage, index: int, before: Partition, after: PartitionState, reason: str) -> None:
        if after.partition_epoch != before.partition_epoch:
            self._states.setdefault(topic.topic_id, {})[index] = after
            self._reasons[topic.topic_id, index] = reason

    def _changed_topics(self) -> Iterator[tuple[TopicImage, dict[int, PartitionState]]]:
        for topic_id, states in self._states.items():
            yield self._image.topics_by_id[topic_id], states

    def _records(self) -> Iterator[MetadataRecord]:
        for topic_id, states in self._states.items():
            changes = tuple(states.items())
            if len(changes) == 1:
                yield PartitionChangedRecord(topic_id, *changes[0])
                continue
            for start in range(0, len(changes), CHANGES_PER_RECORD):
                yield PartitionsChangedRecord(topic_id, changes[start : start + CHANGES_PER_RECORD])


def _state(partition: Partition) -> PartitionState:
    return partition if isinstance(partition, PartitionState) else partition.state


def _may_lose(before: PartitionImage, after: PartitionState) -> bool:
    """Whether the new leader is one that may not have everything committed: neither in sync nor eligible."""
    if after.leader in (before.leader, NO_LEADER):
        return False
    return after.leader not in before.isr and after.leader not in before.elr


def _difference(before: PartitionImage, after: PartitionState) -> str:
    said = []
    if after.leader != before.leader:
        leader = "no leader" if after.leader == NO_LEADER else f"leader {after.leader}"
        former = "none" if before.leader == NO_LEADER else before.leader
        said.append(f"{leader} instead of {former}")
    if after.leader_epoch != before.leader_epoch:
        said.append(f"leader epoch {after.leader_epoch}")
    for name, old, new in (
        ("replicas", before.replicas, after.replicas),
        ("adding", before.adding, after.adding),
        ("removing", before.removing, after.removing),
        ("ISR", before.isr, after.isr),
        ("ELR", before.elr, after.elr),
    ):
        if old != new:
            said.append(f"{name} {_brokers(new)} instead of {_brokers(old)}")
    if _may_lose(before, after):
        said.append("records may be lost")
    return ", ".join(said) or f"partition epoch {after.partition_epoch}"


def _brokers(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _kinds(before: PartitionImage, after: PartitionState) -> Iterator[str]:
    if after.leader != before.leader:
        yield "leader" if after.leader != NO_LEADER else "no leader"
    if after.isr != before.isr:
        yield "ISR"
    if after.replicas != before.replicas:
        yield "replicas"
    if _may_lose(before, after):
        yield "lossy"


def _summary(reason: str, counts: Counter[str]) -> LogLine:
    told = [
        f"{counts[kind]} {what}"
        for kind, what in (
            ("leader", "with another leader"),
            ("no leader", "without a leader"),
            ("ISR", "with another ISR"),
            ("replicas", "with other replicas"),
            ("lossy", "whose leader may miss records"),
        )
        if counts[kind]
    ]
    level = logging.WARNING if counts["lossy"] or counts["no leader"] else logging.INFO
    return LogLine(level, f"{counts['partitions']} partitions changed, {', '.join(told) or 'their epochs'}: {reason}")
