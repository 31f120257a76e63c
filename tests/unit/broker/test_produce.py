from collections.abc import Callable

import pytest

from ottla.broker.produce import PartitionWrite, produce, produce_one
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.records.compression import CompressionType
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.timer import ManualTimer
from ottla.storage.log_config import LogConfig
from tests.unit.replication.conftest import Appended

New = Callable[..., object]


def batch() -> bytearray:
    return build_batch([(1_000, None, b"x", ())])


class Producing:
    """Produce requests and their answers."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.deadlines = Deadlines(self.timer.clock, self.timer)
        self.answers: list[list[AppendAck]] = []
        self.freed = 0

    def free(self) -> None:
        self.freed += 1

    def produce(self, writes: list[PartitionWrite], acks: int = ACKS_ALL) -> None:
        produce(
            writes,
            acks=acks,
            timeout_ms=1000,
            deadlines=self.deadlines,
            on_buffer_free=self.free,
            on_produced=self.answers.append,
        )

    def produce_one(self, partition: Partition, acks: int = ACKS_ALL) -> None:
        produce_one(
            partition,
            batch(),
            acks=acks,
            timeout_ms=1000,
            deadlines=self.deadlines,
            on_buffer_free=self.free,
            on_decided=lambda ack: self.answers.append([ack]),
        )

    def produce_alone(self, partition: Partition, acks: int, *, alone: bool) -> None:
        """A request to one partition, either way."""
        if alone:
            self.produce_one(partition, acks)
        else:
            self.produce([PartitionWrite(partition, batch())], acks)


async def settled(partition: Partition) -> None:
    """Wait until everything appended before is decided."""
    appended = Appended()
    partition.append(batch(), acks=ACKS_ALL, on_ack=appended.on_ack)
    await appended.ack


async def test_a_request_is_answered_once_when_its_last_partition_is_decided(new_partition: New) -> None:
    first = await new_partition(0)  # type: ignore[misc]
    second = await new_partition(1)  # type: ignore[misc]
    await settled(second)
    producing = Producing()
    producing.produce([PartitionWrite(first, batch()), PartitionWrite(second, batch())])
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
    producing = Producing()
    producing.produce([PartitionWrite(None, bytearray(), refusal), PartitionWrite(partition, batch())])
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
    producing = Producing()
    producing.produce_alone(partition, ACKS_ALL, alone=alone)
    producing.timer.advance(1000)
    assert [ack.error for ack in producing.answers[0]] == [ErrorCode.REQUEST_TIMED_OUT]
    await settled(partition)
    assert len(producing.answers) == 1
    assert producing.freed == 1


@pytest.mark.parametrize("alone", [True, False])
async def test_acks_0_is_decided_before_the_records_are_written(new_partition: New, alone: bool) -> None:
    partition = await new_partition()  # type: ignore[misc]
    producing = Producing()
    producing.produce_alone(partition, ACKS_NONE, alone=alone)
    assert [ack.error for ack in producing.answers[0]] == [ErrorCode.NONE]
    assert producing.freed == 0
    await settled(partition)
    assert producing.freed == 1


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
async def test_a_request_to_one_partition_is_answered_once_and_then_holds_nothing(
    new_partition: New, acks: int
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    producing = Producing()
    producing.produce_one(partition, acks)
    producing.produce_one(partition, acks)
    assert producing.answers == []
    await settled(partition)
    assert [(ack.error, ack.base_offset) for (ack,) in producing.answers] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
    ]
    assert producing.freed == 2
    assert len(producing.deadlines) == 0
    producing.timer.advance(1000)
    assert len(producing.answers) == 2


async def test_a_request_without_partitions_is_answered_at_once() -> None:
    producing = Producing()
    producing.produce([])
    assert producing.answers == [[]]


@pytest.mark.parametrize("alone", [True, False])
async def test_nothing_is_timed_where_nobody_waits_for_an_answer(new_partition: New, alone: bool) -> None:
    partition = await new_partition(config=LogConfig(compression_type=CompressionType.ZSTD))  # type: ignore[misc]
    producing = Producing()
    producing.produce_alone(partition, ACKS_NONE, alone=alone)
    producing.timer.advance(10_000)
    assert producing.answers == [], "the batch is being opened"
    behind = Appended()
    partition.append(batch(), acks=ACKS_LEADER, on_ack=behind.on_ack)
    assert (await behind.ack).base_offset == 1
    assert [ack.error for (ack,) in producing.answers] == [ErrorCode.NONE]
