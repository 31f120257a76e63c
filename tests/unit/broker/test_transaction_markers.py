"""Markers for several partitions: one answer when all are committed or refused."""

from collections.abc import Callable
from typing import Any

from ottla.broker.transaction_markers import MARKER_MS_MAX, Completer, TransactionMarkers
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.timer import ManualTimer

New = Callable[..., Any]
MARKER = TransactionMarker(100, 3, 1, True, 2)
Errors = dict[TopicPartition, ErrorCode]


class Markers:
    def __init__(self, *partitions: Partition) -> None:
        self.timer = ManualTimer()
        replicas = ReplicaManager()
        for partition in partitions:
            replicas.add(partition)
        self.completers: dict[str, Completer] = {}
        deadlines = Deadlines(self.timer.clock, self.timer)
        self.service = TransactionMarkers(replicas, deadlines, completers=self.completers)
        self.answers: list[Errors] = []

    def write(self, *names: TopicPartition) -> None:
        self.service.write(MARKER, names, self.answers.append)


async def test_the_answer_comes_when_every_marker_is_committed(new_partition: New) -> None:
    first, second = await new_partition(0), await new_partition(1)
    markers = Markers(first, second)
    unknown = TopicPartition("nope", 0)
    markers.write(first.topic_partition, second.topic_partition, first.topic_partition, unknown)
    assert markers.answers == []
    await first.log.flush()
    await second.log.flush()
    assert markers.answers == [
        {
            unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            first.topic_partition: ErrorCode.NONE,
            second.topic_partition: ErrorCode.NONE,
        }
    ]
    assert (first.high_watermark, second.high_watermark) == (1, 1)
    state = first.log.producers.find(100)
    assert state is not None
    assert (state.producer_epoch, state.coordinator_epoch) == (3, 1)


async def test_who_leads_no_longer_says_so_at_once(new_partition: New) -> None:
    partition = await new_partition()
    partition.become_follower(4)
    markers = Markers(partition)
    markers.write(partition.topic_partition)
    assert markers.answers == [{partition.topic_partition: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


async def test_a_coordinators_topic_is_its_coordinators(new_partition: New) -> None:
    partition = await new_partition()
    markers = Markers(partition)
    told: list[tuple[int, TransactionMarker]] = []
    waiting: list[Callable[[ErrorCode], None]] = []

    def complete(index: int, marker: TransactionMarker, on_decided: Callable[[ErrorCode], None]) -> None:
        told.append((index, marker))
        waiting.append(on_decided)

    markers.completers["__consumer_offsets"] = complete
    offsets = TopicPartition("__consumer_offsets", 7)
    markers.write(offsets)
    assert told == [(7, MARKER)]
    assert markers.answers == []
    waiting[0](ErrorCode.NONE)
    waiting[0](ErrorCode.NOT_COORDINATOR)
    assert markers.answers == [{offsets: ErrorCode.NONE}]


async def test_what_takes_too_long_is_answered_once(new_partition: New) -> None:
    markers = Markers()
    waiting: list[Callable[[ErrorCode], None]] = []
    markers.completers["t"] = lambda index, marker, on_decided: waiting.append(on_decided)
    markers.write(TopicPartition("t", 0), TopicPartition("t", 1))
    waiting[0](ErrorCode.NONE)
    markers.timer.advance(MARKER_MS_MAX + 100)
    waiting[1](ErrorCode.NONE)
    assert markers.answers == [
        {TopicPartition("t", 0): ErrorCode.NONE, TopicPartition("t", 1): ErrorCode.REQUEST_TIMED_OUT}
    ]


async def test_a_marker_for_nothing_is_answered() -> None:
    markers = Markers()
    markers.write()
    assert markers.answers == [{}]
