"""What is asked of the coordinator of a transaction on behalf of who writes."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.access import ALLOW_ALL
from ottla.broker.transactions import TransactionService
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.transactions.answers import AddAnswer
from ottla.transactions.requests import AddPartitions

KNOWN, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
NEW, BEYOND = TopicPartition("just-created", 0), TopicPartition("t", 2)


class Coordinator:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: AddAnswer) -> None:
        self.asked: list[AddPartitions] = []
        self._answer = answer

    def add_partitions(self, request: AddPartitions, waiter: Callable[[AddAnswer], None]) -> None:
        self.asked.append(request)
        waiter(self._answer)


class Image:
    """Two partitions of `t`, or of another topic."""

    def __init__(self, name: str = "t") -> None:
        self._name = name

    def topic(self, name: str) -> Any:
        return SimpleNamespace(partitions=(0, 1)) if name == self._name else None


def ask(
    coordinator: Coordinator, *partitions: TopicPartition, verify_only: bool = False
) -> Mapping[TopicPartition, ErrorCode]:
    told: list[Mapping[TopicPartition, ErrorCode]] = []
    service = TransactionService(cast("Any", coordinator), ALLOW_ALL, cast("Any", Image), lambda group: 0)
    service.add_or_verify("id", 7, 0, partitions, verify_only=verify_only, waiter=told.append)
    [errors] = told
    return errors


def test_a_partition_that_the_coordinator_has_not_heard_of_takes_no_part() -> None:
    coordinator = Coordinator(AddAnswer(refused={SECOND: ErrorCode.TRANSACTION_ABORTABLE}))
    assert ask(coordinator, KNOWN, NEW, SECOND, BEYOND) == {
        KNOWN: ErrorCode.NONE,
        NEW: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        SECOND: ErrorCode.TRANSACTION_ABORTABLE,
        BEYOND: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [each.partitions for each in coordinator.asked] == [(KNOWN, SECOND)]
    assert ask(coordinator, NEW) == {NEW: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(coordinator.asked) == 1


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS])
def test_what_is_wrong_with_the_transaction_is_told_of_each_that_is_known(error: ErrorCode) -> None:
    assert ask(Coordinator(AddAnswer(error)), KNOWN, NEW) == {KNOWN: error, NEW: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_whether_a_partition_takes_part_is_for_the_transaction_to_say() -> None:
    coordinator = Coordinator(AddAnswer())
    assert ask(coordinator, KNOWN, NEW, verify_only=True) == {KNOWN: ErrorCode.NONE, NEW: ErrorCode.NONE}
    assert coordinator.asked[0].verify_only


def test_offsets_take_part_once_their_topic_is_known() -> None:
    coordinator, told = Coordinator(AddAnswer()), []
    images = [Image(), Image(CONSUMER_OFFSETS_TOPIC)]
    service = TransactionService(cast("Any", coordinator), ALLOW_ALL, cast("Any", lambda: images[0]), lambda group: 1)
    for _ in range(2):
        service.add_offsets(ANONYMOUS, "id", ProducerIdentity(7, 0), "g", told.append)
        del images[0:-1]
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]
    assert [each.partitions for each in coordinator.asked] == [(TopicPartition(CONSUMER_OFFSETS_TOPIC, 1),)]
