from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.access import Operation, ResourceType
from ottla.broker.produce import DISK_MS, TIMED_OUT, PartitionWrite, ProduceService
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS, Principal
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.records.compression import CompressionType
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.timer import ManualTimer
from ottla.storage.log_config import LogConfig
from tests.unit.replication.conftest import Appended

New = Callable[..., object]


def batch() -> bytearray:
    return build_batch([(1_000, None, b"x", ())])


def write(partition: Partition, records: bytearray | None = None) -> PartitionWrite:
    topic, index = partition.topic_partition
    return PartitionWrite(topic, index, batch() if records is None else records)


class Single:
    """A request to one partition, as a gateway makes it."""

    def __init__(self, on_produced: Callable[[list[AppendAck]], None]) -> None:
        self.is_over = False
        self._on_produced = on_produced

    def decide(self, ack: AppendAck) -> None:
        if not self.is_over:
            self.is_over = True
            self._on_produced([ack])

    def expire(self) -> None:
        self.decide(TIMED_OUT)


class Producing:
    """Produce requests to some partitions, and their answers."""

    def __init__(self, *partitions: Partition, **rules: Any) -> None:
        self.timer = ManualTimer()
        self.deadlines = Deadlines(self.timer.clock, self.timer)
        self.replicas = ReplicaManager()
        for partition in partitions:
            self.replicas.add(partition)
        self.service = ProduceService(self.replicas, self.deadlines, **rules)
        self.answers: list[list[AppendAck]] = []
        self.freed = 0

    def free(self) -> None:
        self.freed += 1

    def on_produced(self, acks: list[AppendAck]) -> None:
        self.answers.append(acks)

    def produce(self, writes: list[PartitionWrite], acks: int = ACKS_ALL) -> None:
        self.service.produce(
            ANONYMOUS, writes, acks=acks, timeout_ms=1000, on_buffer_free=self.free, on_produced=self.on_produced
        )

    def produce_one(self, one: PartitionWrite, acks: int = ACKS_ALL) -> None:
        topic, index, records, refusal = one
        assert records is not None
        assert refusal is None, "a gateway asks for no such thing"
        key = (topic if isinstance(topic, str) else topic.bytes, index)
        self.service.produce_one(Single(self.on_produced), ANONYMOUS, key, records, acks, 1000, self.free)

    def produce_alone(self, one: PartitionWrite, acks: int, *, alone: bool) -> None:
        """A request to one partition, either way."""
        if alone:
            self.produce_one(one, acks)
        else:
            self.produce([one], acks)


async def settled(partition: Partition) -> None:
    """Wait until everything appended before is decided."""
    appended = Appended()
    partition.append(batch(), acks=ACKS_ALL, on_ack=appended.on_ack)
    await appended.ack


async def test_a_request_is_answered_once_when_its_last_partition_is_decided(new_partition: New) -> None:
    first = await new_partition(0)  # type: ignore[misc]
    second = await new_partition(1)  # type: ignore[misc]
    await settled(second)
    producing = Producing(first, second)
    producing.produce([write(first), write(second)])
    assert producing.answers == []
    await settled(first)
    await settled(second)
    assert [[(ack.error, ack.base_offset) for ack in answer] for answer in producing.answers] == [
        [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    ]
    assert producing.freed == 2
    assert len(producing.deadlines) == 0


async def test_a_refused_partition_does_not_stop_the_others(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    refusal = AppendAck(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
    producing = Producing(partition)
    producing.produce([PartitionWrite("t", 7, batch(), refusal), write(partition)])
    await settled(partition)
    [answer] = producing.answers
    assert answer[0] == refusal
    assert (answer[1].error, answer[1].base_offset) == (ErrorCode.NONE, 0)
    assert producing.freed == 2


@pytest.mark.parametrize("alone", [True, False])
async def test_what_is_undecided_when_the_time_is_up_is_said_to_have_timed_out_and_nothing_is_said_later(
    new_partition: New, alone: bool
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    producing = Producing(partition)
    producing.produce_alone(write(partition), ACKS_ALL, alone=alone)
    producing.timer.advance(DISK_MS)
    assert [ack.error for ack in producing.answers[0]] == [ErrorCode.REQUEST_TIMED_OUT]
    await settled(partition)
    assert len(producing.answers) == 1
    assert producing.freed == 1


@pytest.mark.parametrize("alone", [True, False])
async def test_acks_1_waits_for_the_records_to_be_written_whatever_the_time_of_the_request(
    new_partition: New, alone: bool
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    producing = Producing(partition)
    producing.produce_alone(write(partition), ACKS_LEADER, alone=alone)
    producing.timer.advance(60_000)
    assert producing.answers == []
    await settled(partition)
    assert [(ack.error, ack.base_offset) for (ack,) in producing.answers] == [(ErrorCode.NONE, 0)]


@pytest.mark.parametrize("alone", [True, False])
async def test_acks_0_is_decided_before_the_records_are_written(new_partition: New, alone: bool) -> None:
    partition = await new_partition()  # type: ignore[misc]
    producing = Producing(partition)
    producing.produce_alone(write(partition), ACKS_NONE, alone=alone)
    assert [ack.error for ack in producing.answers[0]] == [ErrorCode.NONE]
    assert producing.freed == 0
    await settled(partition)
    assert producing.freed == 1


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
async def test_a_request_to_one_partition_is_answered_once_and_then_holds_nothing(
    new_partition: New, acks: int
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    producing = Producing(partition)
    producing.produce_one(write(partition), acks)
    producing.produce_one(write(partition), acks)
    assert producing.answers == []
    await settled(partition)
    assert [(ack.error, ack.base_offset) for (ack,) in producing.answers] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
    ]
    assert producing.freed == 2
    assert len(producing.deadlines) == 0
    producing.timer.advance(DISK_MS)
    assert len(producing.answers) == 2


async def test_a_request_without_partitions_is_answered_at_once() -> None:
    producing = Producing()
    producing.produce([])
    assert producing.answers == [[]]


@pytest.mark.parametrize("alone", [True, False])
async def test_nothing_is_timed_where_nobody_waits_for_an_answer(new_partition: New, alone: bool) -> None:
    partition = await new_partition(config=LogConfig(compression_type=CompressionType.ZSTD))  # type: ignore[misc]
    producing = Producing(partition)
    producing.produce_alone(write(partition), ACKS_NONE, alone=alone)
    producing.timer.advance(10_000)
    assert producing.answers == [], "the batch is being opened"
    behind = Appended()
    partition.append(batch(), acks=ACKS_LEADER, on_ack=behind.on_ack)
    assert (await behind.ack).base_offset == 1
    assert [ack.error for (ack,) in producing.answers] == [ErrorCode.NONE]


@pytest.mark.parametrize("alone", [True, False])
async def test_what_cannot_be_written_is_said_why_and_its_buffer_is_free(new_partition: New, alone: bool) -> None:
    partition = await new_partition()  # type: ignore[misc]
    internal = await new_partition(1)  # type: ignore[misc]
    internal.topic_partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, 1)
    producing = Producing(partition, internal)
    nobody = UUID(int=99)
    asked = [
        (PartitionWrite("t", 7, batch()), ACKS_ALL, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PartitionWrite(nobody, 0, batch()), ACKS_ALL, ErrorCode.UNKNOWN_TOPIC_ID),
        (write(internal), ACKS_ALL, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    if not alone:  # the gateway leaves these to the general way
        asked += [
            (write(partition), 2, ErrorCode.INVALID_REQUIRED_ACKS),
            (write(partition, bytearray()), ACKS_ALL, ErrorCode.INVALID_RECORD),
            (PartitionWrite("t", 0, None), ACKS_ALL, ErrorCode.INVALID_RECORD),
        ]
    for one, acks, _ in asked:
        producing.produce_alone(one, acks, alone=alone)
    assert [ack.error for (ack,) in producing.answers] == [error for _, _, error in asked]
    assert producing.freed == len(asked)
    assert partition.log.log_end_offset == 0


class NoWriter:
    """Nobody may write to `t`; notes who asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    version = 0

    def allows_on_any(self, *_: object) -> bool:
        return False

    def allows(
        self, principal: Principal, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        self.asked.append(f"{principal} {operation.name} {resource_type.name} {resource_name}")
        return False


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("by_id", [True, False])
async def test_who_may_not_write_is_refused_by_name_and_by_id(new_partition: New, alone: bool, by_id: bool) -> None:
    partition = await new_partition()  # type: ignore[misc]
    rules = NoWriter()
    producing = Producing(partition, authorizer=rules)
    topic = partition.topic_id if by_id else "t"
    producing.produce_alone(PartitionWrite(topic, 0, batch()), ACKS_ALL, alone=alone)
    assert [ack.error for (ack,) in producing.answers] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert rules.asked == ["User:ANONYMOUS WRITE TOPIC t"]
    assert (producing.freed, partition.log.log_end_offset) == (1, 0)
