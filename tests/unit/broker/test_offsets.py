"""Offsets are looked up in what a power cut cannot take, which is waited for a moment when it is on its way."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ottla.broker.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NOTHING,
    SYNC_WAIT_MS_MAX,
    OffsetService,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS
from ottla.native import build_batch
from ottla.replication.partition import ACKS_LEADER, ACKS_NONE, NO_EPOCH, Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.timer import ManualTimer

New = Callable[..., object]
TIMESTAMP = 1_000


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


class Lookup:
    """The look-ups of one request among some partitions."""

    def __init__(self, timer: ManualTimer, read_committed: bool) -> None:
        self._replicas = ReplicaManager()
        self._lookup = OffsetService(self._replicas, timer.clock, timer).lookup(
            ANONYMOUS, read_committed=read_committed
        )

    async def find(self, partition: Partition, timestamp: int) -> tuple[int, int, int]:
        self._replicas.add(partition)
        return await self._lookup.find(*partition.topic_partition, NO_EPOCH, timestamp)


def lookup(timer: ManualTimer, *, read_committed: bool = False) -> Lookup:
    return Lookup(timer, read_committed)


def append(partition: Partition, acks: int = ACKS_LEADER) -> None:
    """One record, queued for the disk when this returns."""
    records = build_batch([(TIMESTAMP, None, b"x", ())])
    partition.append(records, acks=acks, on_ack=lambda _: None)


async def on_disk(partition: Partition) -> None:
    """Wait until everything is."""
    async with asyncio.timeout(60):
        while partition.log.flushed_end_offset < partition.log.log_end_offset:  # noqa: ASYNC110
            await asyncio.sleep(0)


@contextmanager
def syncs_held(partition: Partition) -> Iterator[None]:
    """Nothing that is appended becomes durable meanwhile."""
    writer = partition.log._resources.writer
    writer.detach()
    try:
        yield
    finally:
        writer.attach(asyncio.get_running_loop())


@pytest.mark.parametrize("acks", [ACKS_NONE, ACKS_LEADER])
@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(LATEST, (-1, 1, 3)), (TIMESTAMP, (TIMESTAMP, 0, 3)), (MAX_TIMESTAMP, (TIMESTAMP, 0, 3))],
)
async def test_who_looks_after_an_acknowledgement_finds_the_record(
    new_partition: New, timer: ManualTimer, acks: int, read_committed: bool, timestamp: int, expected: object
) -> None:
    partition: Partition = await new_partition()  # type: ignore[misc]
    append(partition, acks)
    assert partition.high_watermark == 0
    assert await lookup(timer, read_committed=read_committed).find(partition, timestamp) == expected
    assert len(timer) == 0


async def test_a_disk_that_does_not_sync_keeps_nobody_waiting_for_long_and_shows_nothing_that_may_be_lost(
    new_partition: New, timer: ManualTimer
) -> None:
    first: Partition = await new_partition(0)  # type: ignore[misc]
    second: Partition = await new_partition(1)  # type: ignore[misc]
    append(first)
    await on_disk(first)
    one_request = lookup(timer)

    async def ends() -> list[int]:
        return [(await one_request.find(partition, LATEST))[1] for partition in (first, second, first)]

    with syncs_held(first):
        append(first)
        append(second)
        asked = asyncio.ensure_future(ends())
        await asyncio.sleep(0)
        timer.advance(SYNC_WAIT_MS_MAX - 1)
        await asyncio.sleep(0)
        assert not asked.done()
        timer.advance(1)
        assert await asked == [1, 0, 1]
        assert not first.waits_for_local_end
    await on_disk(first)
    assert (await lookup(timer).find(first, LATEST))[1] == 2


async def test_followers_are_not_waited_for(new_partition: New, timer: ManualTimer) -> None:
    partition: Partition = await new_partition()  # type: ignore[misc]
    append(partition)
    await on_disk(partition)
    partition.high_watermark = 0
    assert [await lookup(timer).find(partition, each) for each in (LATEST, MAX_TIMESTAMP)] == [(-1, 0, 3), NOTHING]


async def test_the_beginning_waits_for_nothing(new_partition: New, timer: ManualTimer) -> None:
    partition: Partition = await new_partition()  # type: ignore[misc]
    with syncs_held(partition):
        append(partition)
        assert (await lookup(timer).find(partition, EARLIEST))[1] == 0


@pytest.mark.parametrize(
    ("end", "error"), [(Partition.stop, ErrorCode.NOT_LEADER_OR_FOLLOWER), (lambda each: each.fail("full"), None)]
)
async def test_who_waits_hears_at_once_when_there_will_be_no_sync(
    new_partition: New, timer: ManualTimer, end: Callable[[Partition], None], error: ErrorCode | None
) -> None:
    partition: Partition = await new_partition()  # type: ignore[misc]
    with syncs_held(partition):
        append(partition)
        asked = asyncio.ensure_future(lookup(timer).find(partition, LATEST))
        await asyncio.sleep(0)
        end(partition)
        if error is None:
            assert (await asked)[1] == 0
        else:
            with pytest.raises(ApiError) as caught:
                await asked
            assert caught.value.code is error
