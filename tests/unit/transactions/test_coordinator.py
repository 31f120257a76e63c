"""The coordinator over a partition that keeps what it is given: the whole way from request to marker."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.transactions import transaction_config, transaction_shard
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.messages import OnWritten
from ottla.transactions.requests import AddPartitions, EndTransaction, InitProducer, TransactionFilter
from ottla.transactions.transaction_config import TRANSACTIONAL_ID_BYTES_MAX, TransactionConfig
from tests.unit.coordination.held_partition import HeldPartition
from tests.unit.coordination.toy import environment, until
from tests.unit.metadata.images import image_of, topic_record

ORDERS = (TopicPartition("orders", 0), TopicPartition("orders", 1))


class Channel:
    """Brings markers nowhere until it is told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[TransactionMarker, tuple[TopicPartition, ...], OnWritten]] = []

    def write(self, marker: TransactionMarker, partitions: Sequence[TopicPartition], on_written: OnWritten) -> None:
        self.sent.append((marker, tuple(sorted(partitions)), on_written))

    def deliver(self, error: ErrorCode = ErrorCode.NONE) -> list[tuple[TransactionMarker, tuple[TopicPartition, ...]]]:
        sent, self.sent = self.sent, []
        for _, partitions, on_written in sent:
            on_written(dict.fromkeys(partitions, error))
        return [(marker, partitions) for marker, partitions, _ in sent]


class Harness:
    """A coordinator of a transaction topic with one partition."""

    def __init__(self, *, holds_back: bool = False, **config: int) -> None:
        self.config = TransactionConfig(**{"state_log_partitions": 1, **config})
        self.environment, self.turn = environment()
        self.channel = Channel()
        self.ids = iter(range(100, 10_000))
        self.no_ids: ErrorCode | None = None
        self.image: MetadataImage = image_of(topic_record("orders", 1, 2))
        self.partition = HeldPartition(self.environment, index=0, holds_back=holds_back)
        self.coordinator = self._new_coordinator()

    async def next_id(self) -> int:
        if self.no_ids is not None:
            raise ApiError(self.no_ids, "no more")
        return next(self.ids)

    async def elect(self) -> None:
        self.coordinator.elected(self.partition)
        await until(lambda: not self.coordinator._runtime.is_loading)
        self.turn.end()

    async def restart(self) -> None:
        self.coordinator.close()
        self.coordinator = self._new_coordinator()
        await self.elect()

    async def init(self, transactional_id: str = "t", timeout_ms: int = 60_000, **more: Any) -> Any:
        answers: list[Any] = []
        self.coordinator.init_producer(InitProducer(transactional_id, timeout_ms, **more), answers.append)

        def is_answered() -> bool:
            self.turn.end()
            return bool(answers)

        await until(is_answered)
        return answers[0]

    def add(self, producer: ProducerIdentity, *partitions: TopicPartition) -> Any:
        answers: list[Any] = []
        self.coordinator.add_partitions(AddPartitions("t", producer, partitions, 2), answers.append)
        self.turn.end()
        return answers[0]

    def end(self, producer: ProducerIdentity, *, commit: bool = True) -> Any:
        answers: list[Any] = []
        self.coordinator.end(EndTransaction("t", producer, commit, 2), answers.append)
        self.turn.end()
        return answers[0] if answers else None

    async def state(self, transactional_id: str = "t") -> str:
        answers: list[Any] = []
        self.coordinator.describe(transactional_id, answers.append)
        self.turn.end()
        return str(answers[0].state) or answers[0].error.name

    def _new_coordinator(self) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(self.config, self.environment, self.channel, self.next_id)
        coordinator.metadata_changed(self.image)
        return coordinator


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    await harness.elect()
    yield harness
    await harness.environment.tasks.close()


def identity(answer: Any) -> ProducerIdentity:
    assert answer.error is ErrorCode.NONE, answer
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


async def test_a_transaction_goes_from_its_first_partition_to_its_markers(harness: Harness):
    producer = identity(await harness.init())
    assert producer == (100, 0)
    assert harness.add(producer, *ORDERS).error is ErrorCode.NONE
    assert identity(harness.end(producer)) == (100, 1)
    assert await harness.state() == "PrepareCommit"
    [(marker, partitions)] = harness.channel.deliver()
    assert (marker.producer_id, marker.producer_epoch, marker.committed, marker.transaction_version) == (
        100,
        1,
        True,
        2,
    )
    assert partitions == ORDERS
    assert await harness.state() == "CompleteCommit"


async def test_markers_leave_when_the_decision_is_committed_and_so_does_the_answer():
    harness = Harness(holds_back=True)
    await harness.elect()
    answers: list[Any] = []
    harness.coordinator.init_producer(InitProducer("t", 1_000, new_producer_id=5), answers.append)
    harness.turn.end()
    harness.partition.commit()
    producer = identity(answers[0])
    harness.coordinator.add_partitions(AddPartitions("t", producer, ORDERS, 2), answers.append)
    harness.turn.end()
    assert harness.end(producer) is None
    assert (len(answers), harness.channel.sent) == (1, [])
    harness.partition.commit()
    assert len(answers) == 2
    assert [partitions for _, partitions, _ in harness.channel.sent] == [ORDERS]
    await harness.environment.tasks.close()


async def test_what_was_decided_is_finished_after_a_load_and_what_was_open_stays_open(harness: Harness):
    producer = identity(await harness.init())
    harness.add(producer, ORDERS[0])
    await harness.restart()
    assert await harness.state() == "Ongoing"
    assert harness.add(producer, ORDERS[1]).error is ErrorCode.NONE
    harness.end(producer, commit=False)
    harness.channel.sent.clear()
    await harness.restart()
    [(marker, partitions)] = harness.channel.deliver()
    assert (marker.producer_epoch, marker.committed, partitions) == (1, False, ORDERS)
    assert await harness.state() == "CompleteAbort"
    assert identity(harness.end(producer, commit=False)) == (100, 1)


async def test_a_marker_in_the_log_of_the_coordinator_keeps_it_from_nothing(harness: Harness):
    producer = identity(await harness.init())
    harness.add(producer, ORDERS[0])
    marker = TransactionMarker(
        producer_id=100, producer_epoch=5, committed=True, coordinator_epoch=0, transaction_version=2
    )
    harness.partition.append_marker(marker, lambda ack: None)
    await harness.restart()
    assert await harness.state() == "Ongoing"


async def test_many_decided_transactions_are_finished_in_slices(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transaction_shard, "SLICE_ITEMS_MAX", 3)
    for number in range(7):
        answer = await harness.init(f"t{number}")
        request = AddPartitions(f"t{number}", identity(answer), ORDERS, 2)
        harness.coordinator.add_partitions(request, lambda answer: None)
        harness.coordinator.end(EndTransaction(f"t{number}", identity(answer), True, 2), lambda answer: None)
        harness.turn.end()
    harness.channel.sent.clear()
    await harness.restart()
    assert len(harness.channel.deliver()) == 3
    harness.turn.end()
    for left in (3, 1, 0):
        harness.environment.timer.advance(transaction_shard.SLICE_INTERVAL_MS)
        assert len(harness.channel.deliver()) == left
        harness.turn.end()
    assert [await harness.state(f"t{number}") for number in range(7)] == ["CompleteCommit"] * 7


async def test_many_transactions_time_out_and_many_ids_expire_in_slices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transaction_shard, "SLICE_ITEMS_MAX", 3)
    harness = Harness(abort_timed_out_interval_ms=1_000, remove_expired_interval_ms=5_000, id_expiration_ms=4_000)
    await harness.elect()
    for number in range(7):
        answer = await harness.init(f"t{number}", timeout_ms=500)
        request = AddPartitions(f"t{number}", identity(answer), ORDERS, 2)
        harness.coordinator.add_partitions(request, lambda answer: None)
        harness.turn.end()
    harness.environment.timer.advance(1_010)
    harness.turn.end()
    assert len(harness.channel.deliver()) == 7
    harness.turn.end()
    assert [await harness.state(f"t{number}") for number in range(7)] == ["CompleteAbort"] * 7
    harness.environment.timer.advance(10_010)
    harness.turn.end()
    assert [await harness.state(f"t{number}") for number in range(7)] == ["TRANSACTIONAL_ID_NOT_FOUND"] * 7
    await harness.restart()
    assert await harness.state("t0") == "TRANSACTIONAL_ID_NOT_FOUND"
    await harness.environment.tasks.close()


async def test_a_producer_is_told_when_there_is_no_producer_id(harness: Harness):
    harness.no_ids = ErrorCode.KAFKA_STORAGE_ERROR
    assert (await harness.init()).error is ErrorCode.KAFKA_STORAGE_ERROR
    harness.no_ids = None
    assert identity(await harness.init()) == (100, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_time_out_has_to_be_within_its_limits(harness: Harness, timeout_ms: int):
    assert (await harness.init(timeout_ms=timeout_ms)).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("transactional_id", ["", "x" * (TRANSACTIONAL_ID_BYTES_MAX + 1), "\u00e9" * 600])
async def test_a_transactional_id_has_a_reasonable_length(harness: Harness, transactional_id: str):
    assert (await harness.init(transactional_id)).error is ErrorCode.INVALID_REQUEST
    assert await harness.state(transactional_id) == "INVALID_REQUEST"


async def test_there_are_only_so_many_transactional_ids(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transaction_config, "IDS_PER_SHARD_MAX", 2)
    assert [(await harness.init(name)).error for name in ("a", "b", "c", "a")] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NONE,
    ]


async def test_a_transaction_has_only_so_many_partitions_and_all_together_too(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transaction_config, "PARTITIONS_PER_TRANSACTION_MAX", 1)
    producer = identity(await harness.init())
    assert harness.add(producer, *ORDERS).error is ErrorCode.TRANSACTION_ABORTABLE
    assert harness.add(producer, ORDERS[0]).error is ErrorCode.NONE
    monkeypatch.setattr(transaction_config, "PARTITIONS_PER_TRANSACTION_MAX", 9)
    monkeypatch.setattr(transaction_config, "OPEN_PARTITIONS_PER_SHARD_MAX", 1)
    assert harness.add(producer, ORDERS[1]).error is ErrorCode.TRANSACTION_ABORTABLE
    producer = identity(harness.end(producer, commit=False))
    harness.channel.deliver()
    harness.turn.end()
    assert harness.add(producer, ORDERS[1]).error is ErrorCode.NONE


async def test_before_the_election_and_while_loading_clients_are_sent_away():
    harness = Harness()
    assert (await harness.init()).error is ErrorCode.NOT_COORDINATOR
    harness.coordinator.elected(harness.partition)
    assert (await harness.init()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(ApiError, match="still being loaded"):
        await harness.coordinator.list_transactions(TransactionFilter())
    await harness.environment.tasks.close()


async def test_who_waits_for_markers_is_told_when_the_broker_stops(harness: Harness):
    producer = identity(await harness.init())
    harness.add(producer, ORDERS[0])
    producer = identity(harness.end(producer))
    answers: list[Any] = []
    harness.coordinator.add_partitions(AddPartitions("t", producer, ORDERS, 2), answers.append)
    assert answers == []
    harness.coordinator.close()
    assert [answer.error for answer in answers] == [ErrorCode.NOT_COORDINATOR]
    harness.channel.deliver()


async def test_who_asks_behind_an_add_that_waits_for_markers_is_told_what_becomes_of_it(harness: Harness):
    producer = identity(await harness.init())
    harness.add(producer, ORDERS[0])
    producer = identity(harness.end(producer))
    verify = AddPartitions("t", producer, ORDERS, 0, True)
    answers: list[Any] = []
    harness.coordinator.add_partitions(verify, answers.append)
    harness.turn.end()
    assert answers.pop().error is ErrorCode.CONCURRENT_TRANSACTIONS  # nobody has begun the next one
    harness.coordinator.add_partitions(AddPartitions("t", producer, ORDERS[:1], 0), answers.append)
    harness.coordinator.add_partitions(verify, answers.append)
    harness.turn.end()
    assert answers == []
    harness.channel.deliver()
    harness.turn.end()
    added, verified = answers
    assert (added.error, dict(added.refused)) == (ErrorCode.NONE, {})
    assert dict(verified.refused) == {ORDERS[1]: ErrorCode.TRANSACTION_ABORTABLE}


async def test_transactional_ids_are_listed_by_state_producer_and_age(harness: Harness):
    producer = identity(await harness.init())
    await harness.init("u")
    harness.add(producer, ORDERS[0])
    harness.environment.timer.advance(500)

    async def listed(**wanted: Any) -> list[tuple[str, str]]:
        found = await harness.coordinator.list_transactions(TransactionFilter(**wanted))
        return [(each.transactional_id, each.state) for each in found]

    assert await listed() == [("t", "Ongoing"), ("u", "Empty")]
    assert await listed(states=frozenset({"Empty"})) == [("u", "Empty")]
    assert await listed(producer_ids=frozenset({100, 7})) == [("t", "Ongoing")]
    assert await listed(duration_ms=499, states=frozenset({"Ongoing"})) == [("t", "Ongoing")]
    assert await listed(duration_ms=500, states=frozenset({"Ongoing"})) == []


async def test_ids_stay_in_their_partitions_when_the_topic_grows(harness: Harness):
    assert harness.coordinator.partition_count == 1
    image = image_of(topic_record("__transaction_state", 2, 7))
    harness.coordinator.metadata_changed(image)
    assert harness.coordinator.partition_count == 7
    harness.coordinator.metadata_changed(image_of(topic_record("orders", 1, 2)))
    assert harness.coordinator.partition_count == 7


async def test_transactions_stay_as_they_are_while_their_topic_is_short_of_replicas(harness: Harness):
    producer = identity(await harness.init())
    harness.add(producer, *ORDERS)
    next_producer = identity(harness.end(producer))
    (shard,) = harness.coordinator._runtime.active_shards()
    partition = harness.partition
    partition.min_insync_replicas, partition.replica_count, partition.isr_size = 2, 3, 1
    harness.channel.deliver()
    assert await harness.state() == "PrepareCommit"
    short = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await harness.init()).error is short
    assert (await harness.init("other")).error is short
    assert harness.add(next_producer, *ORDERS).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.end(next_producer).error is short
    harness.environment.timer.advance(10_000)
    assert (harness.channel.sent, await harness.state()) == ([], "PrepareCommit")
    partition.isr_size = 2
    harness.environment.timer.advance(1_000)
    harness.turn.end()
    assert (harness.channel.sent, await harness.state()) == ([], "CompleteCommit")
    assert harness.add(next_producer, *ORDERS).error is ErrorCode.NONE
    assert next(harness.coordinator._runtime.active_shards()) is shard


async def test_a_decided_transaction_of_partitions_that_are_gone_is_completed_once_that_can_be_written(
    harness: Harness,
):
    producer = identity(await harness.init())
    harness.add(producer, *ORDERS)
    harness.end(producer)
    harness.image = image_of()
    partition = harness.partition
    partition.min_insync_replicas, partition.replica_count, partition.isr_size = 2, 3, 1
    await harness.restart()
    harness.environment.timer.advance(10_000)
    assert await harness.state() == "PrepareCommit"
    partition.isr_size = 2
    harness.environment.timer.advance(1_000)
    harness.turn.end()
    assert await harness.state() == "CompleteCommit"
