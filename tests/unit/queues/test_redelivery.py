"""Redelivery: delays that outlive the leader, backoff by deliveries, and letters that are written before records go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import DeliveryHints, build_batch
from ottla.queues.acknowledgements import ACCEPT, GAP, REJECT, RELEASE
from ottla.queues.dead_letter import EXPIRED, REJECTED, TOO_OFTEN
from ottla.queues.letters import LETTER_RETRY_MS, Letter
from ottla.queues.redelivery import Backoff
from ottla.queues.share_partition import SharePartition
from ottla.queues.share_state import ShareKey, ShareState, decode, encode, snapshot_records
from ottla.queues.state_batches import StateBatch
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.queues.test_share_partition import LIMITS, States, log_of, share_over

POLICY = LIMITS._replace(backoff=Backoff(1_000, 60_000, 0))
LETTERS = LIMITS._replace(letters_topic="dlq", deliveries_max=2)

Run = Callable[[], Awaitable[None]]


async def acquire(share: SharePartition, count: int = 10, limits: object = None) -> list[tuple[int, int, int]]:
    asked = limits or LIMITS
    return (await share.acquire("m", asked, max_bytes=1 << 20, max_records=count, exact=True)).runs  # type: ignore[arg-type]


def timer_of(share: SharePartition) -> ManualTimer:
    return cast("ManualTimer", share._leases._timer)


@pytest.fixture
def log(tmp_path: Path) -> int:
    return log_of(tmp_path / "log", [0], records=3)


def test_a_delay_is_stored_and_the_next_leader_waits_for_the_rest_of_it(log: int) -> None:
    async def run() -> None:
        tasks, states = Tasks(), States()
        share = share_over(log, 3, tasks, states=states)
        assert await acquire(share) == [(0, 2, 1)]
        assert await share.settle("m", [(0, 2, RELEASE)], POLICY, None) is ErrorCode.NONE
        stored = states.written[-1].batches
        now_ms = share._clock.now_ms()
        assert stored == (StateBatch(0, 2, 0, 1, now_ms + 1_000),)
        following = share_over(log, 3, tasks, batches=stored)
        timer_of(following).advance(0)
        assert following.deliveries().waiting == 3
        assert await acquire(following) == []
        timer_of(following).advance(999)
        assert await acquire(following) == []
        timer_of(following).advance(1)
        assert await acquire(following) == [(0, 2, 2)]
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_the_time_of_a_delay_is_part_of_the_stored_state() -> None:
    key = ShareKey("g", UUID(int=7), 3)
    state = ShareState(start_offset=4, batches=(StateBatch(4, 9, 0, 2, 1_700_000_000_000), StateBatch(10, 11, 2, 1)))
    [record] = snapshot_records(key, state)
    written_key, value = encode(record)
    assert decode(written_key, value) == record


def test_records_of_one_request_wait_as_long_as_their_own_deliveries_say(log: int) -> None:
    async def run() -> None:
        tasks, states = Tasks(), States()
        share = share_over(log, 3, tasks, states=states, batches=[StateBatch(0, 0, 0, 3)])
        assert await acquire(share, 1) == [(0, 0, 4)]
        assert await acquire(share, 2) == [(1, 2, 1)]
        assert await share.settle("m", [(0, 1, RELEASE), (2, 2, ACCEPT)], POLICY, None) is ErrorCode.NONE
        now_ms = share._clock.now_ms()
        assert {
            batch.first: batch.not_before_ms - now_ms for batch in states.written[-1].batches if not batch.state
        } == {
            0: 8_000,
            1: 1_000,
        }
        assert share.ledger.acquired_count == 0
        timer_of(share).advance(1_000)
        assert await acquire(share) == [(1, 1, 2)]
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_a_record_that_is_not_held_is_refused_with_all_beside_it(log: int) -> None:
    async def run() -> None:
        tasks = Tasks()
        share = share_over(log, 3, tasks)
        assert await acquire(share, 2) == [(0, 1, 1)]
        assert await share.settle("m", [(0, 2, RELEASE)], POLICY, None) is not ErrorCode.NONE
        assert share.ledger.acquired_count == 2
        await tasks.close()

    asyncio.run(run())
    os.close(log)


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_a_backoff_doubles_up_to_its_limit_and_stays_within_its_jitter(chance: float) -> None:
    backoff = Backoff(100, 5_000, 20)
    plain = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    for deliveries, expected in enumerate(plain, 1):
        assert 0.8 * expected <= backoff.delay_ms(deliveries, chance) <= 1.2 * expected
    assert backoff.delay_ms(30_000, 0.5) == 5_000
    assert Backoff().delay_ms(3, 0.5) == 0


class Written:
    """What was written of letters; raises as long as it is told to."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.fails = 0

    async def __call__(self, key: object, partition: object, letters: Sequence[Letter], limits: object) -> None:
        if self.fails:
            self.fails -= 1
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "nobody leads")
        self.letters += letters


def test_what_is_rejected_or_delivered_too_often_becomes_a_letter_and_gaps_do_not(log: int) -> None:
    async def run() -> None:
        tasks, written = Tasks(), Written()
        share = share_over(log, 3, tasks, write_letters=written, batches=[StateBatch(1, 1, 0, 1)])
        assert await acquire(share, limits=LETTERS) == [(0, 0, 1), (1, 1, 2), (2, 2, 1)]
        assert await share.settle("m", [(1, 1, RELEASE), (2, 2, REJECT)], LETTERS) is ErrorCode.NONE
        assert written.letters == [Letter(1, 1, 2, TOO_OFTEN), Letter(2, 2, 1, REJECTED)]
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_records_whose_time_to_live_is_over_become_letters_and_those_that_were_accepted_do_not(log: int) -> None:
    async def run() -> None:
        tasks, written, states = Tasks(), Written(), States()
        accepted = [StateBatch(0, 0, 0, 1), StateBatch(1, 1, 2, 1)]
        share = share_over(log, 3, tasks, states=states, write_letters=written, batches=accepted, ttl_ms=1_000)
        timer_of(share).advance(1_000)  # the records are of 1970
        assert await acquire(share, limits=LETTERS) == []
        for _ in range(10):
            await asyncio.sleep(0)
        assert sorted(written.letters) == [Letter(0, 0, 1, EXPIRED), Letter(2, 2, 0, EXPIRED)]
        assert share.ledger.unfinished_count == 0
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_a_gap_is_no_letter(log: int) -> None:
    async def run() -> None:
        tasks, written = Tasks(), Written()
        share = share_over(log, 3, tasks, write_letters=written)
        assert await acquire(share, limits=LETTERS) == [(0, 2, 1)]
        assert await share.settle("m", [(0, 1, GAP), (2, 2, ACCEPT)], LETTERS) is ErrorCode.NONE
        assert written.letters == []
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_a_rejection_whose_letter_cannot_be_written_is_refused_and_the_record_is_still_held(log: int) -> None:
    async def run() -> None:
        tasks, written, states = Tasks(), Written(), States()
        written.fails = 1
        share = share_over(log, 3, tasks, states=states, write_letters=written)
        assert await acquire(share, limits=LETTERS) == [(0, 2, 1)]
        assert await share.settle("m", [(0, 0, REJECT)], LETTERS) is ErrorCode.REQUEST_TIMED_OUT
        assert states.written == []
        assert await share.settle("m", [(0, 0, REJECT)], LETTERS) is ErrorCode.NONE
        assert written.letters == [Letter(0, 0, 1, REJECTED)]
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_letters_of_records_whose_time_was_up_are_tried_again_before_that_is_stored(log: int) -> None:
    async def run() -> None:
        tasks, written, states = Tasks(), Written(), States()
        written.fails = 1
        share = share_over(log, 3, tasks, states=states, write_letters=written, batches=[StateBatch(0, 2, 0, 1)])
        assert await acquire(share, limits=LETTERS) == [(0, 2, 2)]
        timer_of(share).advance(LETTERS.lock_ms)
        for _ in range(10):  # turns of the loop in which the first try fails
            await asyncio.sleep(0)
        assert (written.fails, states.written) == (0, [])
        timer_of(share).advance(LETTER_RETRY_MS)
        for _ in range(10):
            await asyncio.sleep(0)
        assert written.letters == [Letter(0, 2, 2, TOO_OFTEN)]
        assert states.written[-1].batches == (StateBatch(0, 2, 4, 2),)
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def timed(ttls: Sequence[bytes | None], base_offset: int = 0) -> bytes:
    """A batch of records of 1970 with these headers, None for without."""
    headers = [(("other", b"1"),) if ttl is None else (("ottla-ttl", ttl), ("other", b"1")) for ttl in ttls]
    return bytes(build_batch([(0, None, b"x", each) for each in headers], base_offset=base_offset))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("order", ["none", "key"])
def test_records_say_themselves_when_they_are_too_old_where_the_topic_lets_them(
    tmp_path: Path, exact: bool, order: str
) -> None:
    (tmp_path / "log").write_bytes(timed([b"10", None, b"11", b"9"]) + timed([b"0", b"-1", b"1e1", b"", b"10"], 4))
    log = os.open(tmp_path / "log", os.O_RDONLY)
    limits = LETTERS._replace(deliveries_max=9, is_ordered=order == "key")

    async def run() -> None:
        tasks, written = Tasks(), Written()
        share = share_over(log, 9, tasks, write_letters=written, has_ttl_header=True)

        async def get() -> list[tuple[int, int, int]]:
            return (await share.acquire("m", limits, max_bytes=1 << 20, max_records=10, exact=exact)).runs

        timer_of(share).advance(10)
        assert await get() == [(1, 2, 1), (5, 7, 1)]
        assert await share.settle("m", [(1, 2, RELEASE), (5, 7, ACCEPT)], limits) is ErrorCode.NONE
        timer_of(share).advance(1)
        assert await get() == [(1, 1, 2)], "the other one grew too old meanwhile"
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(written.letters) == [
            Letter(0, 0, 0, EXPIRED),
            Letter(2, 2, 1, EXPIRED),
            Letter(3, 3, 0, EXPIRED),
            Letter(4, 4, 0, EXPIRED),
            Letter(8, 8, 0, EXPIRED),
        ]
        await tasks.close()

    asyncio.run(run())
    os.close(log)


@given(
    ttls=st.lists(st.sampled_from([None, b"1", b"5", b"9", b"x"]), min_size=1, max_size=30),
    sizes=st.lists(st.integers(1, 7), min_size=30, max_size=30),
    now_ms=st.integers(0, 10),
    start=st.integers(0, 29),
    codec=st.sampled_from([0, 4]),
    most=st.integers(1, 40),
)
def test_the_kernel_finds_the_records_that_are_too_old(
    ttls: list[bytes | None], sizes: list[int], now_ms: int, start: int, codec: int, most: int
) -> None:
    data, at = b"", 0
    while at < len(ttls):
        size = sizes.pop()
        records = [(0, b"k", b"v", () if ttl is None else (("ottla-ttl", ttl),)) for ttl in ttls[at : at + size]]
        data += bytes(build_batch(records, base_offset=at, codec=codec))
        at += len(records)
    hints = DeliveryHints(data, start, most, ttl=True, max_decompressed_bytes=1 << 20)
    said = [offset for offset, ttl in enumerate(ttls) if offset >= start and ttl not in (None, b"x")]
    assert len(hints) == min(most, len(said))
    assert hints.end_offset == (max(start, len(ttls)) if len(said) <= most else said[most])
    found = [at for first, last in hints.expired(start, 99, now_ms) for at in range(first, last + 1)]
    assert found == [at for at in said[:most] if int(ttls[at] or b"") <= now_ms]
