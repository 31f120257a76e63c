"""First batches wait for the coordinator, in order, and hear what it says in the words of their version."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ottla.broker.transaction_gate import (
    ANSWER_MS_MAX,
    Entry,
    GateConfig,
    TransactionGate,
    TransactionSupport,
    TransactionVerifier,
)
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.native import build_batch
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.transaction_verification import OPEN, UNVERIFIED
from ottla.runtime.timer import ManualTimer
from tests.unit.broker.no_coordinator import NoCoordinator
from tests.unit.replication.conftest import Appended

New = Callable[..., Any]
OLD, KNOWS, ADDS = TransactionSupport.OLD, TransactionSupport.KNOWS_ABORTABLE, TransactionSupport.ADDS_PARTITION
A = 100


class Asked:
    """A coordinator that answers when the test says so."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []
        self.waiters: list[Callable[[Mapping[TopicPartition, ErrorCode]], None]] = []

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        waiter: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        self.questions.append((transactional_id, producer_id, producer_epoch, tuple(partitions), verify_only))
        self.waiters.append(waiter)

    def answer(self, error: ErrorCode = ErrorCode.NONE, index: int = -1) -> None:
        self.waiters[index](dict.fromkeys(self.questions[index][3], error))


class Gate:
    """A gate, the time at it, and what came out of it."""

    def __init__(self, verifier: TransactionVerifier | None = None, config: GateConfig | None = None) -> None:
        self.timer = ManualTimer()
        self.asked = Asked()
        self.deferred: list[Callable[[], None]] = []
        self.entries: list[tuple[Any, Entry]] = []
        self.gate = TransactionGate(
            verifier or self.asked,
            config or GateConfig(),
            clock=self.timer.clock,
            timer=self.timer,
            defer=self.deferred.append,
        )

    def enter(
        self,
        partition: Partition,
        name: object = None,
        *,
        producer_id: int = A,
        epoch: int = 0,
        sequence: int = 0,
        support: TransactionSupport = ADDS,
        then: Callable[[Entry], None] = lambda entry: None,
    ) -> None:
        def on_entered(entry: Entry) -> None:
            self.entries.append((name, entry))
            then(entry)

        self.gate.enter(partition, "t-1", producer_id, epoch, sequence, support, on_entered)

    def turn(self) -> None:
        """The end of a turn of the loop."""
        due, self.deferred[:] = list(self.deferred), []
        for callback in due:
            callback()

    @property
    def errors(self) -> list[ErrorCode]:
        return [entry.error for _, entry in self.entries]


def append(partition: Partition, entry: Entry, *, sequence: int = 0, epoch: int = 0) -> Appended:
    appended = Appended()
    records = build_batch(
        [(1_000, b"k", b"v", ())],
        producer_id=A,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    partition.append(records, acks=ACKS_ALL, on_ack=appended.on_ack, guard=entry.guard)
    return appended


async def end(partition: Partition, epoch: int = 0, version: int = 0) -> None:
    appended = Appended()
    partition.append_marker(TransactionMarker(A, epoch, 0, False, version), appended.on_ack)
    assert (await appended.ack).error is ErrorCode.NONE


async def test_batches_of_one_producer_wait_for_one_answer_and_go_on_in_order(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    appended: list[Appended] = []
    for sequence in range(3):
        gate.enter(
            partition,
            sequence,
            sequence=sequence,
            then=lambda entry, at=sequence: appended.append(append(partition, entry, sequence=at)),  # type: ignore[misc]
        )
        gate.turn()
    assert gate.asked.questions == [("t-1", A, 0, (partition.topic_partition,), False)]
    assert gate.gate.waiting_count == 3
    gate.asked.answer()
    assert [name for name, _ in gate.entries] == [0, 1, 2]
    assert [(await each.ack).base_offset for each in appended] == [0, 1, 2]
    assert gate.gate.waiting_count == 0
    gate.enter(partition)
    assert gate.entries[-1][1] == Entry(guard=OPEN)
    assert len(gate.asked.questions) == 1


async def test_all_partitions_of_a_turn_are_asked_for_together(new_partition: New) -> None:
    gate = Gate()
    first, second = await new_partition(0), await new_partition(1)
    for partition in (first, second):
        gate.enter(partition)
    gate.enter(first, producer_id=A + 1)
    gate.turn()
    assert [(question[1], question[3]) for question in gate.asked.questions] == [
        (A, (first.topic_partition, second.topic_partition)),
        (A + 1, (first.topic_partition,)),
    ]
    gate.asked.waiters[0]({first.topic_partition: ErrorCode.NONE, second.topic_partition: ErrorCode.INVALID_TXN_STATE})
    assert gate.errors == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]


@pytest.mark.parametrize(
    ("support", "error", "told"),
    [
        (OLD, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (KNOWS, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ADDS, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (OLD, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ADDS, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (OLD, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OLD, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ADDS, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ADDS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (OLD, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (KNOWS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_what_is_wrong_is_told_as_kafka_tells_it(
    new_partition: New, support: TransactionSupport, error: ErrorCode, told: ErrorCode
) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition, support=support)
    gate.turn()
    assert gate.asked.questions[0][4] is (support is not ADDS)
    gate.asked.answer(error)
    assert gate.errors == [told]
    assert gate.entries[0][1].guard is None
    assert gate.entries[0][1].message


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
    ids=["the one before is still being ended", "a coordinator that has not heard of the topic"],
)
async def test_what_passes_in_a_moment_is_asked_for_again_for_a_while(
    new_partition: New, error: ErrorCode, told: ErrorCode
) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition)
    gate.turn()
    for _ in range(4):
        gate.asked.answer(error)
        assert gate.entries == []
        gate.timer.advance(20)
        gate.turn()
    gate.timer.advance(20)
    assert len(gate.asked.questions) == 5
    gate.asked.answer(error)
    assert gate.errors == [told]
    gate.timer.advance(ANSWER_MS_MAX)
    gate.turn()
    assert len(gate.asked.questions) == 5


async def test_a_coordinator_that_does_not_answer_is_not_waited_for_longer(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition)
    gate.turn()
    gate.timer.advance(ANSWER_MS_MAX + 100)
    assert gate.errors == [ErrorCode.NOT_ENOUGH_REPLICAS]
    gate.asked.answer()
    assert len(gate.entries) == 1
    gate.enter(partition)
    gate.turn()
    gate.asked.answer()
    assert gate.errors[-1] is ErrorCode.NONE


async def test_after_a_failure_that_passes_the_first_batch_still_comes_first(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition, support=KNOWS, sequence=5)
    gate.turn()
    gate.asked.answer(ErrorCode.NOT_COORDINATOR)
    gate.enter(partition, support=KNOWS, sequence=6)
    gate.turn()
    gate.asked.answer()
    overtaking = append(partition, gate.entries[-1][1], sequence=6)
    assert (await overtaking.ack).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    gate.enter(partition, support=KNOWS, sequence=5)
    assert (await append(partition, gate.entries[-1][1], sequence=5).ack).error is ErrorCode.NONE


async def test_a_marker_that_comes_before_the_answer_leaves_no_transaction_hanging(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition)
    gate.turn()
    await end(partition)
    gate.asked.answer()
    assert gate.errors == [ErrorCode.INVALID_TXN_STATE]
    assert partition.last_stable_offset == partition.high_watermark == 1


async def test_a_marker_of_the_transaction_before_leaves_the_next_one_alone(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition, epoch=4)
    gate.turn()
    gate.asked.answer()
    assert (await append(partition, gate.entries[-1][1], epoch=4).ack).error is ErrorCode.NONE
    gate.enter(partition, epoch=5)  # the producer was told that it is aborted
    gate.turn()
    await end(partition, epoch=5, version=2)
    gate.asked.answer()
    assert gate.errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert (await append(partition, gate.entries[-1][1], epoch=5).ack).error is ErrorCode.NONE
    gate.enter(partition, "goes on", epoch=5)
    await end(partition, epoch=6, version=2)
    assert (await append(partition, gate.entries[-1][1], sequence=1, epoch=5).ack).error is not ErrorCode.NONE


@pytest.mark.parametrize("epoch", [4, 5])
async def test_a_marker_of_its_own_transaction_ends_what_waits(new_partition: New, epoch: int) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition, epoch=epoch)
    gate.turn()
    await end(partition, epoch=6, version=2)
    gate.asked.answer()
    assert gate.errors == [ErrorCode.INVALID_TXN_STATE]


async def test_a_late_answer_does_not_open_the_next_transaction(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition, "of the first", support=KNOWS)
    gate.turn()
    await end(partition)
    gate.enter(partition, "of the second", support=KNOWS, sequence=1)
    gate.turn()
    assert gate.entries == [("of the first", gate.entries[0][1])]
    assert gate.errors == [ErrorCode.INVALID_TXN_STATE]
    gate.asked.answer(index=0)
    assert len(gate.entries) == 1
    gate.asked.answer(index=1)
    assert gate.entries[-1][0] == "of the second"
    assert gate.errors[-1] is ErrorCode.NONE


async def test_a_newer_epoch_fences_off_what_waits(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition, "old", epoch=0)
    gate.enter(partition, "new", epoch=1)
    assert gate.entries[0][0] == "old"
    assert gate.errors == [ErrorCode.INVALID_PRODUCER_EPOCH]
    gate.enter(partition, "old again", epoch=0)
    assert gate.errors[1:] == [ErrorCode.INVALID_PRODUCER_EPOCH]
    gate.turn()
    assert [question[2] for question in gate.asked.questions] == [1]
    gate.asked.answer()
    assert gate.entries[-1][0] == "new"


async def test_a_partition_that_is_led_elsewhere_by_then_says_so(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition)
    gate.turn()
    partition.become_follower(4)
    gate.asked.answer()
    gate.enter(partition)
    assert gate.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


async def test_nobody_is_asked_for_what_clients_add_when_that_is_switched_off(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate(config=GateConfig(verifies=False))
    gate.enter(partition, support=KNOWS)
    assert gate.entries[0][1] == Entry(guard=UNVERIFIED)
    gate.enter(partition, support=ADDS)
    gate.turn()
    assert len(gate.asked.questions) == 1


async def test_a_coordinator_that_raises_costs_its_own_batches_only(new_partition: New) -> None:
    class Raising(Asked):
        def add_or_verify(self, *args: Any, **options: Any) -> None:
            super().add_or_verify(*args, **options)
            if len(self.questions) == 1:
                raise RuntimeError("broken")

    verifier = Raising()
    partition, gate = await new_partition(), Gate(verifier)
    gate.enter(partition)
    gate.enter(partition, producer_id=A + 1)
    gate.turn()
    assert gate.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
    verifier.answer()
    assert gate.errors[1:] == [ErrorCode.NONE]


async def test_one_that_raises_when_it_may_go_on_keeps_nobody_waiting(new_partition: New) -> None:
    def fail(entry: Entry) -> None:
        raise RuntimeError("broken")

    partition, gate = await new_partition(), Gate()
    gate.enter(partition, then=fail)
    gate.enter(partition)
    gate.turn()
    gate.asked.answer()
    assert gate.errors == [ErrorCode.NONE] * 2


async def test_without_a_coordinator_producers_are_told_to_try_again(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate(NoCoordinator())
    gate.enter(partition)
    gate.turn()
    assert gate.errors == [ErrorCode.NOT_ENOUGH_REPLICAS]


async def test_closing_tells_everybody(new_partition: New) -> None:
    partition, gate = await new_partition(), Gate()
    gate.enter(partition)
    gate.gate.close()
    gate.turn()
    assert (gate.errors, gate.asked.questions) == ([ErrorCode.NOT_ENOUGH_REPLICAS], [])


def test_what_versions_say():
    assert [TransactionSupport.of_produce(version) for version in (3, 10, 11, 12, 13)] == [OLD, OLD, KNOWS, ADDS, ADDS]
    assert [TransactionSupport.of_txn_offset_commit(version) for version in (3, 4, 5)] == [OLD, KNOWS, ADDS]


async def test_of_so_many_that_could_not_be_verified_is_remembered(
    new_partition: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.transaction_gate.UNANSWERED_MAX", 3)
    partition, gate = await new_partition(), Gate(NoCoordinator())
    for producer_id in range(5):
        gate.enter(partition, producer_id=producer_id, support=KNOWS, sequence=7)
        gate.turn()
    assert len(partition.verifications) == 3


async def test_no_more_batches_wait_than_there_is_room_for(new_partition: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.transaction_gate.WAITING_MAX", 2)
    partition, gate = await new_partition(), Gate()
    for sequence in range(3):
        gate.enter(partition, sequence=sequence)
    assert gate.errors == [ErrorCode.NOT_ENOUGH_REPLICAS]
    gate.turn()
    gate.asked.answer()
    assert gate.errors[1:] == [ErrorCode.NONE] * 2
