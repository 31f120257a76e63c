"""Markers find the brokers that lead the partitions, and what becomes of them is told once."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from ottla.broker.transaction_marker_channel import REQUESTS_MAX, TransactionMarkerChannel
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from ottla.runtime.tasks import Tasks
from tests.unit.broker.other_brokers import OtherBrokers, image_of, settle

HERE, TWO, THREE, NOBODY, GONE = (TopicPartition("t", index) for index in (0, 1, 2, 3, 9))
NONE = ErrorCode.NONE
Errors = Mapping[TopicPartition, ErrorCode]


def marker(producer_id: int = 7) -> TransactionMarker:
    return TransactionMarker(producer_id, 3, coordinator_epoch=5, committed=True, transaction_version=2)


def result(producer_id: int, **errors: int) -> WritableTxnMarkerResult:
    """`result(7, t1=0)`: partition 1 of topic t."""
    partitions = tuple(WritableTxnMarkerPartitionResult(int(name[1:]), error) for name, error in errors.items())
    return WritableTxnMarkerResult(producer_id, (WritableTxnMarkerTopicResult("t", partitions),))


class World:
    def __init__(self) -> None:
        self.tasks = Tasks()
        self.others = OtherBrokers()
        self.written: list[Sequence[TopicPartition]] = []
        self.told: list[Errors] = []
        image = image_of({"t": (1, 2, 3, -1)})
        others: Any = self.others
        self.channel = TransactionMarkerChannel(self, others, lambda: image, self.tasks)  # type: ignore[arg-type]

    def write(self, _marker: TransactionMarker, partitions: Sequence[TopicPartition], on_written: Any) -> None:
        """As this broker's `TransactionMarkers`."""
        self.written.append(partitions)
        on_written(dict.fromkeys(partitions, NONE))

    async def send(self, *partitions: TopicPartition, producer_id: int = 7) -> None:
        self.channel.write(marker(producer_id), partitions, self.told.append)
        await settle()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.tasks.close()


async def test_what_this_broker_leads_goes_nowhere_else(world: World) -> None:
    await world.send(HERE)
    assert world.told == [{HERE: NONE}]
    assert world.others.sent == []


async def test_each_leader_gets_its_partitions_and_the_coordinator_hears_once(world: World) -> None:
    await world.send(HERE, TWO, THREE)
    assert [broker for broker, _ in world.others.sent] == [2, 3]
    (sent,) = world.others.sent[0][1].markers
    assert (sent.producer_id, sent.producer_epoch, sent.transaction_result) == (7, 3, True)
    assert (sent.coordinator_epoch, sent.transaction_version) == (5, 2)
    assert [(topic.name, topic.partition_indexes) for topic in sent.topics] == [("t", (1,))]
    await world.others.answer(0, WriteTxnMarkersResponse((result(7, t1=0),)))
    assert world.told == []
    await world.others.answer(1, WriteTxnMarkersResponse((result(7, t2=ErrorCode.NOT_LEADER_OR_FOLLOWER),)))
    assert world.told == [{HERE: NONE, TWO: NONE, THREE: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


async def test_partitions_without_a_leader_and_those_that_are_gone_are_told_at_once(world: World) -> None:
    await world.send(NOBODY, GONE)
    assert world.told == [{NOBODY: ErrorCode.LEADER_NOT_AVAILABLE, GONE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]


async def test_what_is_not_answered_is_to_be_sent_again(world: World) -> None:
    await world.send(TWO)
    await world.others.lose(0)
    assert world.told == [{TWO: ErrorCode.NETWORK_EXCEPTION}]
    await world.send(TWO)
    await world.others.answer(1, WriteTxnMarkersResponse((result(7, t1=0),)))
    assert world.told[1] == {TWO: NONE}


async def test_markers_of_one_turn_share_a_request_and_later_ones_gather_behind_a_few(world: World) -> None:
    for producer_id in range(REQUESTS_MAX):
        await world.send(TWO, producer_id=producer_id)
    assert len(set(world.others.lanes)) == REQUESTS_MAX
    for producer_id in range(50, 53):
        await world.send(TWO, producer_id=producer_id)
    assert len(world.others.sent) == REQUESTS_MAX
    await world.others.answer(0, WriteTxnMarkersResponse((result(0, t1=0),)))
    assert [each.producer_id for each in world.others.sent[-1][1].markers] == [50, 51, 52]
    results = tuple(result(producer_id, t1=0) for producer_id in range(50, 53))
    await world.others.answer(REQUESTS_MAX, WriteTxnMarkersResponse(results))
    assert len(world.told) == 4


@pytest.mark.parametrize("results", [(), (result(8, t1=0),), (result(7),), (result(7, t2=0),)])
async def test_an_answer_to_something_else_says_nothing_of_the_marker(
    world: World, results: tuple[WritableTxnMarkerResult, ...]
) -> None:
    await world.send(TWO)
    await world.others.answer(0, WriteTxnMarkersResponse(results))
    assert world.told == [{TWO: ErrorCode.UNKNOWN_SERVER_ERROR}]
