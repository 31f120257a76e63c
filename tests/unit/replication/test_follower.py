"""A partition that another broker leads: it has what the leader has, at the same offsets, and takes nothing else."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import assign_offsets, build_batch
from ottla.replication.follower import Follower
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from tests.unit.replication.conftest import Appended

New = Callable[..., object]
EPOCH = 5


def batch(base_offset: int, count: int = 2, epoch: int = EPOCH, **options: object) -> bytearray:
    """As the leader has it."""
    records = build_batch([(1_000, b"k", b"v", ())] * count, **options)  # type: ignore[arg-type]
    assign_offsets(records, base_offset, epoch)
    return records


@pytest.fixture
async def follower(new_partition: New) -> Partition:
    partition: Partition = await new_partition()  # type: ignore[misc]
    partition.become_follower(EPOCH)
    return partition


def append(partition: Partition, records: bytearray, leader_high_watermark: int) -> None:
    assert isinstance(partition.role, Follower)
    partition.role.append_from_leader(memoryview(records), leader_high_watermark)


async def on_disk(partition: Partition) -> None:
    async with asyncio.timeout(60):
        while partition.log.flushed_end_offset < partition.log.log_end_offset:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize("acks", [ACKS_NONE, ACKS_LEADER, ACKS_ALL])
async def test_it_refuses_what_producers_send(follower: Partition, acks: int) -> None:
    appended = Appended()
    follower.append(batch(0), acks=acks, on_ack=appended.on_ack, on_buffer_free=appended.on_buffer_free)
    assert (await appended.ack).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (appended.freed, follower.log.log_end_offset) == (1, 0)


async def test_what_the_leader_has_is_appended_as_it_is_with_gaps_and_epochs(follower: Partition) -> None:
    sent = batch(0) + batch(7, epoch=6) + batch(9, epoch=6) + batch(20, 1, epoch=8, is_control=False)
    append(follower, bytearray(sent), 0)
    await on_disk(follower)
    follower.high_watermark = 21
    assert await follower.read_bytes(0, 1 << 20) == bytes(sent)
    assert (follower.log.log_end_offset, follower.log.written_end_offset) == (21, 21)
    assert [follower.log.epoch_of_offset(offset) for offset in (0, 1, 7, 10, 20)] == [5, 5, 6, 6, 8]


async def test_the_high_watermark_is_the_leaders_as_far_as_the_log_goes(follower: Partition) -> None:
    append(follower, batch(0), 0)
    await on_disk(follower)
    assert follower.high_watermark == 0
    append(follower, batch(2), 3)
    await on_disk(follower)
    assert follower.high_watermark == 3
    append(follower, batch(4), 100)
    assert follower.high_watermark == 4
    await on_disk(follower)
    assert follower.high_watermark == 6
    append(follower, bytearray(), 2)
    assert follower.high_watermark == 6


async def test_a_piece_of_a_batch_is_left_for_the_next_time(follower: Partition) -> None:
    append(follower, batch(0) + batch(2)[:-1], 0)
    assert follower.log.log_end_offset == 2


async def test_a_broken_batch_and_one_below_the_end_are_refused(follower: Partition) -> None:
    broken = batch(2)
    broken[-1] ^= 1
    for records, error in (
        (batch(0) + broken, ErrorCode.CORRUPT_MESSAGE),
        (batch(0), ErrorCode.NONE),
        (batch(1), ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        try:
            append(follower, records, 0)
            code = ErrorCode.NONE
        except ApiError as refused:
            code = refused.code
        assert code is error
    assert follower.log.log_end_offset == 2


async def test_readers_of_its_own_are_sent_to_the_leader(follower: Partition) -> None:
    with pytest.raises(ApiError) as caught:
        follower.require_leader_epoch(-1)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_who_waits_for_an_acknowledgement_hears_that_another_broker_leads_now(new_partition: New) -> None:
    partition: Partition = await new_partition()  # type: ignore[misc]
    appended = Appended()
    partition.append(build_batch([(0, b"k", b"v", ())]), acks=ACKS_ALL, on_ack=appended.on_ack)
    version = partition.version
    partition.become_follower(EPOCH)
    assert (await appended.ack).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.version > version


async def test_it_goes_on_as_leader_from_where_it_is(follower: Partition) -> None:
    append(follower, batch(0), 1)
    await on_disk(follower)
    assert follower.high_watermark == 1
    follower.become_leader(EPOCH + 1)
    appended = Appended()
    follower.append(build_batch([(0, b"k", b"v", ())]), acks=ACKS_ALL, on_ack=appended.on_ack)
    assert ((await appended.ack).base_offset, follower.high_watermark) == (2, 3)
