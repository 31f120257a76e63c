"""The gate asks the coordinator of a transaction wherever it is."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from ottla.broker.transaction_coordinator_channel import TransactionCoordinatorChannel
from ottla.model.error_code import ErrorCode
from ottla.model.topic_name import TRANSACTION_STATE_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.runtime.tasks import Tasks
from tests.unit.broker.other_brokers import OtherBrokers, image_of, settle

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]
INDEX_OF = {"here": 0, "two": 1, "also two": 1, "nobody": 2}


def result(transactional_id: str, *errors: int) -> AddPartitionsToTxnResult:
    partitions = tuple(AddPartitionsToTxnPartitionResult(index, error) for index, error in enumerate(errors))
    return AddPartitionsToTxnResult(transactional_id, (AddPartitionsToTxnTopicResult("t", partitions),))


class World:
    def __init__(self) -> None:
        self.tasks = Tasks()
        self.others = OtherBrokers()
        self.asked: list[tuple[str, bool]] = []
        self.told: list[Mapping[TopicPartition, ErrorCode]] = []
        image = image_of({TRANSACTION_STATE_TOPIC: (1, 2, -1)})
        others: Any = self.others
        self.channel = TransactionCoordinatorChannel(
            self,  # type: ignore[arg-type]
            INDEX_OF.__getitem__,
            others,
            lambda: image,
            defer=asyncio.get_running_loop().call_soon,
            tasks=self.tasks,
        )

    def add_or_verify(self, transactional_id: str, *_: Any, verify_only: bool, waiter: Any) -> None:
        """As this broker's `TransactionService`."""
        self.asked.append((transactional_id, verify_only))
        waiter(dict.fromkeys(PARTITIONS, ErrorCode.NONE))

    def ask(self, transactional_id: str, *, verify_only: bool = True) -> None:
        self.channel.add_or_verify(transactional_id, 7, 3, PARTITIONS, verify_only=verify_only, waiter=self.told.append)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.tasks.close()


async def test_the_coordinator_of_this_broker_is_asked_at_once(world: World) -> None:
    world.ask("here")
    assert world.asked == [("here", True)]
    assert world.told == [dict.fromkeys(PARTITIONS, ErrorCode.NONE)]
    assert world.others.sent == []


async def test_questions_of_one_turn_for_one_broker_share_a_request(world: World) -> None:
    world.ask("two")
    world.ask("also two", verify_only=False)
    await settle()
    ((broker, request),) = world.others.sent
    assert broker == 2
    assert [(each.transactional_id, each.verify_only) for each in request.transactions] == [
        ("two", True),
        ("also two", False),
    ]
    assert [(each.producer_id, each.producer_epoch) for each in request.transactions] == [(7, 3)] * 2
    assert request.transactions[0].topics[0].partitions == (0, 1)
    results = (result("also two", 0, 0), result("two", 0, ErrorCode.TRANSACTION_ABORTABLE))
    await world.others.answer(0, AddPartitionsToTxnResponse(results_by_transaction=results))
    assert world.told == [
        {PARTITIONS[0]: ErrorCode.NONE, PARTITIONS[1]: ErrorCode.TRANSACTION_ABORTABLE},
        dict.fromkeys(PARTITIONS, ErrorCode.NONE),
    ]


async def test_one_transaction_is_never_twice_in_a_request(world: World) -> None:
    world.ask("two")
    world.ask("two", verify_only=False)
    await settle()
    assert [len(request.transactions) for _, request in world.others.sent] == [1, 1]


async def test_a_coordinator_that_does_not_answer_is_an_error_to_try_again_after(world: World) -> None:
    world.ask("two")
    await settle()
    await world.others.lose(0)
    assert world.told == [dict.fromkeys(PARTITIONS, ErrorCode.NETWORK_EXCEPTION)]
    world.ask("nobody")
    assert world.told[1] == dict.fromkeys(PARTITIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_what_an_answer_leaves_out_is_not_known(world: World) -> None:
    world.ask("two")
    await settle()
    await world.others.answer(0, AddPartitionsToTxnResponse(results_by_transaction=(result("two", 0),)))
    assert world.told == [{PARTITIONS[0]: ErrorCode.NONE, PARTITIONS[1]: ErrorCode.UNKNOWN_SERVER_ERROR}]
    world.ask("two")
    await settle()
    refusal = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    await world.others.answer(1, refusal)
    assert world.told[1] == dict.fromkeys(PARTITIONS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
