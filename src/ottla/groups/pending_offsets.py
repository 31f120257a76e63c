"""Offsets that producers committed for groups in transactions that are not decided yet (TxnOffsetCommit).

    (group, partition) -> producer id -> offset, the one that came last at the end
    producer id -> what it committed

A pending offset becomes the group's when its transaction is committed, unless a newer one did so first: what counts is
the order of the records in the log, not that of the markers.

    pending of A: 5 | pending of B: 8 | B committed: 8 | A committed: stays 8
    pending of A: 5 | committed without a transaction: 9 | A committed: stays 9
"""

from collections.abc import Iterable
from typing import TypeAlias

from ottla.groups.records import CommittedOffset
from ottla.model.topic_partition import TopicPartition

Key: TypeAlias = tuple[str, TopicPartition]
"""A group and a partition."""


class PendingOffsets:
    """The pending offsets of one shard. Changed by the replay of records only."""

    __slots__ = ("_by_key", "_by_producer", "_groups", "_topics")

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[int, CommittedOffset | None]] = {}
        """None stands for an offset that a newer one took the place of: it is still undecided, and comes to nothing."""
        self._by_producer: dict[int, dict[Key, None]] = {}
        self._groups: dict[str, dict[TopicPartition, None]] = {}
        self._topics: dict[str, dict[Key, None]] = {}

    def __len__(self) -> int:
        """For how many groups and partitions there are any."""
        return len(self._by_key)

    def __contains__(self, group_id: str) -> bool:
        """Whether there are any for a group."""
        return group_id in self._groups

    def has(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether there are any for a group in a partition."""
        return (group_id, partition) in self._by_key

    def of_group(self, group_id: str) -> tuple[TopicPartition, ...]:
        """The partitions in which there are any for a group."""
        return tuple(self._groups.get(group_id, ()))

    def topics(self) -> tuple[str, ...]:
        """The topics in which there are any."""
        return tuple(self._topics)

    def of_topic(self, topic: str) -> Iterable[Key]:
        """For which groups and partitions of a topic there are any now."""
        return tuple(self._topics.get(topic, ()))

    def undecided(self, group_id: str, partition: TopicPartition) -> list[CommittedOffset]:
        """Those that may become the group's."""
        return [each for each in self._by_key.get((group_id, partition), {}).values() if each is not None]

    def add(self, producer_id: int, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        """Keep an offset until the transaction of its producer ends, in place of an earlier one of this producer."""
        key = (group_id, partition)
        of_key = self._by_key.setdefault(key, {})
        of_key.pop(producer_id, None)
        of_key[producer_id] = committed
        self._by_producer.setdefault(producer_id, {})[key] = None
        self._groups.setdefault(group_id, {})[partition] = None
        self._topics.setdefault(partition.topic, {})[key] = None

    def overtake(self, group_id: str, partition: TopicPartition) -> None:
        """The group committed an offset without a transaction: what is pending now is older."""
        of_key = self._by_key.get((group_id, partition))
        if of_key is not None:
            self._by_key[group_id, partition] = dict.fromkeys(of_key)

    def discard(self, group_id: str, partition: TopicPartition) -> None:
        """The offset of the group was removed, and with it whatever is pending."""
        key = (group_id, partition)
        of_key = self._by_key.pop(key, None)
        if of_key is None:
            return
        for producer_id in of_key:
            of_producer = self._by_producer[producer_id]
            del of_producer[key]
            if not of_producer:
                del self._by_producer[producer_id]
        self._forget(key)

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[str, TopicPartition, CommittedOffset]]:
        """The transaction of a producer ended; returns what is the groups' now, in the order it was written."""
        ended = []
        for key in self._by_producer.pop(producer_id, ()):
            of_key = self._by_key[key]
            offset = of_key[producer_id]
            if committed and offset is not None:
                ended.append((*key, offset))
                for earlier in of_key:
                    if earlier == producer_id:
                        break
                    of_key[earlier] = None
            del of_key[producer_id]
            if not of_key:
                del self._by_key[key]
                self._forget(key)
        return ended

    def _forget(self, key: Key) -> None:
        """Nothing is pending any more for a group in a partition."""
        group_id, partition = key
        of_group = self._groups[group_id]
        del of_group[partition]
        if not of_group:
            del self._groups[group_id]
        of_topic = self._topics[partition.topic]
        del of_topic[key]
        if not of_topic:
            del self._topics[partition.topic]
