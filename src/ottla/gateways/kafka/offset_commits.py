"""Offsets to commit, as OffsetCommit and TxnOffsetCommit name them and are answered."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from ottla.broker.committed_offsets import ErrorsByTopic
from ottla.groups.requests import OffsetToCommit


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...

    @property
    def committed_offset(self) -> int: ...

    @property
    def committed_leader_epoch(self) -> int: ...

    @property
    def committed_metadata(self) -> str | None: ...


class _Topic(Protocol):
    @property
    def partitions(self) -> Iterable[_Partition]: ...


T = TypeVar("T", bound=_Topic)
A = TypeVar("A")


def offsets_of(topic: _Topic) -> list[OffsetToCommit]:
    """The offsets of one topic of a request."""
    return [
        OffsetToCommit(
            each.partition_index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata or ""
        )
        for each in topic.partitions
    ]


def answered(
    topics: Iterable[T], errors: ErrorsByTopic, response: Callable[..., A]
) -> Iterator[tuple[T, tuple[A, ...]]]:
    """Each topic with the answers for its partitions, made by `response`; a topic without partitions has none."""
    for topic, of_topic in zip(topics, errors, strict=True):
        if topic.partitions:
            yield (
                topic,
                tuple(
                    response(partition_index=each.partition_index, error_code=error)
                    for each, error in zip(topic.partitions, of_topic, strict=True)
                ),
            )
