"""A group that is paused, or slowed down: what a partition gives it, against a plain count."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from ottla.queues.delivery_rate import PAUSED_LOOK_MS, DeliveryRate
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.queues.test_share_partition import LIMITS, log_of, share_over


@given(st.integers(1, 50), st.lists(st.tuples(st.integers(0, 700), st.integers(1, 40)), max_size=40))
def test_no_second_has_more_than_two_seconds_worth_and_none_is_lost_by_looking(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    limits, bucket, now_ms, taken = LIMITS._replace(rate_max=rate), DeliveryRate(), 0, 0
    for wait_ms, wanted in steps:
        now_ms += wait_ms
        count = min(wanted, bucket.allowed(limits, now_ms))
        bucket.take(count)
        taken += count
        assert taken <= rate + rate * now_ms / 1_000
    if bucket.allowed(limits, now_ms) == 0:
        assert bucket.allowed(limits, now_ms + bucket.wait_ms(limits)) >= 1


def test_a_paused_group_gets_nothing_and_is_looked_at_again(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", [0], records=3)

    async def run() -> None:
        tasks = Tasks()
        looks: list[object] = []
        share = share_over(log, 3, tasks)
        share._on_released = looks.append
        paused = LIMITS._replace(is_paused=True)
        assert not share.has_news(paused)
        acquired = await share.acquire("m", paused, max_bytes=1 << 20, max_records=3, exact=False)
        assert acquired.runs == []
        cast("ManualTimer", share._leases._timer).advance(PAUSED_LOOK_MS)
        assert looks == [share]
        acquired = await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=3, exact=False)
        assert acquired.runs == [(0, 2, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(log)


def test_a_rate_bounds_what_is_delivered_to_all_members_together(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", [0], records=9)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(log, 9, tasks)
        limits = LIMITS._replace(rate_max=2)

        async def acquire(member: str) -> list[tuple[int, int, int]]:
            return (await share.acquire(member, limits, max_bytes=1 << 20, max_records=9, exact=False)).runs

        assert await acquire("a") == [(0, 1, 1)]
        assert await acquire("b") == []
        cast("ManualTimer", share._leases._timer).advance(500)
        assert await acquire("b") == [(2, 2, 1)]
        cast("ManualTimer", share._leases._timer).advance(10_000)
        assert await acquire("a") == [(0, 1, 2)], "locks are over, and redeliveries count"
        await tasks.close()

    asyncio.run(run())
    os.close(log)
