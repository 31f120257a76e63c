"""Batches of transactional producers go through the gate, those that cannot be appended do not."""

from collections.abc import Callable
from typing import Any

from ottla.broker.produce import PartitionWrite, ProduceService
from ottla.broker.transaction_gate import TransactionSupport
from ottla.broker.transactional_produce import TransactionalProduceService
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.native import build_batch
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.deadlines import Deadlines
from tests.unit.broker.test_produce import settled
from tests.unit.broker.test_transaction_gate import A, Gate

New = Callable[..., Any]


class Producing:
    """A transactional producer's requests, and what came of them."""

    def __init__(self, partition: Partition) -> None:
        self.gate = Gate()
        self.replicas = ReplicaManager()
        self.replicas.add(partition)
        deadlines = Deadlines(self.gate.timer.clock, self.gate.timer)
        self.service = TransactionalProduceService(ProduceService(self.replicas, deadlines), self.gate.gate)
        self.partition = partition
        self.acks: list[AppendAck] = []
        self.freed = 0

    def free(self) -> None:
        self.freed += 1

    def produce(self, sequence: int) -> None:
        records = build_batch(
            [(1_000, b"k", b"v", ())],
            producer_id=A,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        self.service.produce(
            ANONYMOUS,
            "t-1",
            TransactionSupport.ADDS_PARTITION,
            [PartitionWrite(*self.partition.topic_partition, records)],
            acks=ACKS_ALL,
            timeout_ms=60_000,
            on_buffer_free=self.free,
            on_produced=self.acks.extend,
        )
        self.gate.turn()


async def test_a_batch_without_a_sequence_number_is_refused_and_the_next_one_is_not(new_partition: New) -> None:
    partition = await new_partition()
    producing = Producing(partition)
    producing.produce(-1)
    assert [ack.error for ack in producing.acks] == [ErrorCode.INVALID_RECORD]
    assert producing.gate.asked.questions == []
    producing.produce(0)
    producing.gate.asked.answer()
    await settled(partition)
    assert [ack.error for ack in producing.acks[1:]] == [ErrorCode.NONE]
    assert producing.freed == 2
