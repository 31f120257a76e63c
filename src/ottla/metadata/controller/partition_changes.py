"""What one decision changes in partitions: their new states, the records that say so, and a line for the log of each.

    changes = PartitionChanges(image, rules, live)
    changes.each("broker 2 is fenced: ...", concerns=lambda partition: 2 in partition.isr, step=...)
    changes.records(), changes.lines()

Steps follow each other: each sees what the one before made of a partition.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias
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
Step: TypeAlias = Callable[[PartitionState, ReplicationRule, frozenset[int]], PartitionState]
"""From a state to the next one, by the rule of its topic and the brokers that may lead it."""


class PartitionChanges:
    """The changes of one decision. `live` are the brokers that may lead, as they are for the next step; a step is
    given those of them whose replica does not lie in a log directory that failed.
    """

    def __init__(self, image: MetadataImage, rules: ReplicationRules, live: frozenset[int]) -> None:
        self._image = image
        self._rules = rules
        self.live = live
        self.passes_over: Callable[[Partition], bool] | None = None
        """Which partitions `each` leaves as they are, whatever the step."""
        self._changed: dict[UUID, dict[int, _Change]] = {}
        self.anew: frozenset[int] = frozenset()
        """Brokers that were started since: what the image says of their log directories is over."""
        self._has_failed_directories = any(broker.offline for broker in image.brokers.values())

    def live_for(self, topic_id: UUID, index: int) -> frozenset[int]:
        """The brokers that may lead one partition."""
        if not self._has_failed_directories:
            return self.live
        return self.live - (self._image.unusable_on(topic_id, index) - self.anew)

    def each(
        self,
        reason: str,
        concerns: Callable[[Partition], bool],
        step: Step,
        where: Callable[[UUID, int], bool] | None = None,
    ) -> None:
        """Take a step with every partition that it concerns; with `where` only those of such a topic id and index.

        What a step makes of a partition depends on its state, but for the epochs, which it only raises: a hundred
        thousand partitions on three brokers have a handful of states, and each of those is decided once.
        """
        known: dict[tuple[object, ...], PartitionState] = {}
        for topic in self._image.topics_by_id.values():
            changed = self._changed.get(topic.topic_id)
            rule = None
            for partition in topic.partitions:
                now: Partition = partition
                if changed is not None and partition.index in changed:
                    now = changed[partition.index].state
                if not concerns(now) or (self.passes_over is not None and self.passes_over(now)):
                    continue
                if where is not None and not where(topic.topic_id, partition.index):
                    continue
                rule = rule or self._rules.of(topic.name)
                live = self.live_for(topic.topic_id, partition.index)
                like = (
                    now.leader,
                    now.replicas,
                    now.isr,
                    now.adding,
                    now.removing,
                    now.elr,
                    now.last_known_leader,
                    rule,
                    live,
                )
                after = known.get(like)
                if after is None:
                    state = now if isinstance(now, PartitionState) else now.state
                    after = known[like] = step(state._replace(leader_epoch=0, partition_epoch=0), rule, live)
                if after.partition_epoch:
                    if changed is None:
                        changed = self._changed[topic.topic_id] = {}
                    changed[partition.index] = _Change(_raised(after, now), reason)

    def one(
        self, topic: TopicImage, index: int, reason: str, step: Step, proposed: tuple[int, ...] = ()
    ) -> PartitionState:
        """Take a step with one partition; returns its new state. `proposed` is the ISR that its leader says it has."""
        changed = self._changed.get(topic.topic_id, {})
        before = changed[index].state if index in changed else topic.partitions[index].state
        after = step(before, self._rules.of(topic.name), self.live_for(topic.topic_id, index))
        if after.partition_epoch != before.partition_epoch:
            self._changed.setdefault(topic.topic_id, {})[index] = _Change(after, reason, proposed)
        return after

    def records(self) -> tuple[MetadataRecord, ...]:
        """What makes the changes true: one record for each topic, several when it has many."""
        return tuple(self._records())

    def _records(self) -> Iterator[MetadataRecord]:
        for topic_id, changed in self._changed.items():
            changes = tuple((index, change.state) for index, change in changed.items())
            if len(changes) == 1:
                yield PartitionChangedRecord(topic_id, *changes[0])
                continue
            for start in range(0, len(changes), CHANGES_PER_RECORD):
                yield PartitionsChangedRecord(topic_id, changes[start : start + CHANGES_PER_RECORD])

    def lines(self) -> tuple[LogLine, ...]:
        """What the log says about them."""
        count = sum(map(len, self._changed.values()))
        if count <= LINES_MAX:
            return tuple(
                _line(f"{topic.name}-{index}", topic.partitions[index], change)
                for topic, changed in self._changed_topics()
                for index, change in changed.items()
            )
        totals: dict[str, _Totals] = {}
        for topic, changed in self._changed_topics():
            for index, change in changed.items():
                total = totals.get(change.reason)
                if total is None:
                    total = totals[change.reason] = _Totals()
                total.count(topic.partitions[index], change)
        return tuple(total.line(reason) for reason, total in totals.items())

    def _changed_topics(self) -> Iterator[tuple[TopicImage, "dict[int, _Change]"]]:
        for topic_id, changed in self._changed.items():
            yield self._image.topics_by_id[topic_id], changed


class _Change(NamedTuple):
    state: PartitionState
    reason: str
    proposed: tuple[int, ...] = ()


class _Totals:
    """How many partitions changed in which way."""

    def __init__(self) -> None:
        self._partitions = self._led = self._leaderless = self._isrs = self._moved = self._lossy = 0

    def count(self, before: PartitionImage, change: _Change) -> None:
        after = change.state
        self._partitions += 1
        if after.leader != before.leader:
            if after.leader == NO_LEADER:
                self._leaderless += 1
            else:
                self._led += 1
                self._lossy += _may_lose(before, change)
        self._isrs += after.isr != before.isr
        self._moved += after.replicas != before.replicas

    def line(self, reason: str) -> LogLine:
        told = [
            f"{count} {what}"
            for count, what in (
                (self._led, "with another leader"),
                (self._leaderless, "without a leader"),
                (self._isrs, "with another ISR"),
                (self._moved, "with other replicas"),
                (self._lossy, "whose leader may miss records"),
            )
            if count
        ]
        level = logging.WARNING if self._lossy or self._leaderless else logging.INFO
        return LogLine(level, f"{self._partitions} partitions changed, {', '.join(told) or 'their epochs'}: {reason}")


def _raised(after: PartitionState, before: Partition) -> PartitionState:
    """The state that was decided from epochs of 0, with those it follows."""
    leader, leader_epoch, replicas, isr, partition_epoch = after[:5]
    leader_epoch += before.leader_epoch
    partition_epoch += before.partition_epoch
    return PartitionState._make((leader, leader_epoch, replicas, isr, partition_epoch, *after[5:]))


def _line(name: str, before: PartitionImage, change: _Change) -> LogLine:
    level = logging.WARNING if _may_lose(before, change) else logging.INFO
    return LogLine(level, f"{name}: {_difference(before, change)}: {change.reason}")


def _may_lose(before: PartitionImage, change: _Change) -> bool:
    """Whether the new leader is one that may not have everything committed: neither in sync nor eligible.

    At the end of a reassignment a replica may join the ISR, as the leader proposed, and lead in the same step.
    """
    leader = change.state.leader
    if leader in (before.leader, NO_LEADER):
        return False
    return leader not in (*before.isr, *before.elr, *change.proposed)


def _difference(before: PartitionImage, change: _Change) -> str:
    after = change.state
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
    if _may_lose(before, change):
        said.append("records may be lost")
    return ", ".join(said) or f"partition epoch {after.partition_epoch}"


def _brokers(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
