"""What is remembered of records: within its time and its limits, as a list of every event would have it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.error_code import ErrorCode
from ottla.queues import history as histories
from ottla.queues.acknowledgements import ACCEPT, REJECT, RELEASE
from ottla.queues.history import Event, Histories, History
from ottla.queues.share_state import ShareKey
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.queues.test_share_partition import LIMITS, log_of, share_over

LIMITS_KEPT = LIMITS._replace(history_ms=10_000, deliveries_max=2)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(0, 4)), max_size=60),
    st.integers(0, 50),
    st.integers(0, 12),
)
def test_an_event_is_told_for_as_long_as_is_said(noted: list[tuple[int, int, int]], keep_ms: int, offset: int) -> None:
    history, every, now_ms = History(), [], 100
    history.keep_ms = keep_ms
    for later, first, length in noted:
        now_ms += later
        history.note(now_ms, "delivered", [(first, first + length, 1)], "m")
        every.append(Event(now_ms, "delivered", first, first + length, 1, "m"))
    expected = [each for each in every if each.first <= offset <= each.last and each.at_ms > now_ms - keep_ms]
    assert history.of(offset, now_ms) == expected


def test_the_oldest_events_go_first_of_each_partition_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "EVENTS_MAX", 4)
    monkeypatch.setattr(histories, "EVENTS_OF_ALL_MAX", 6)
    every = Histories()
    one, other = (ShareKey(name, UUID(int=1), 0) for name in ("one", "other"))
    for key in (one, other):
        every.of(key).keep_ms = 10
        history = every.of(key)
        history.keep_ms = 1_000
        for at in range(6):
            history.note(at, "delivered", [(at, at, 1)])
        assert every.of(key) is history
    first, second = every.find(one), every.find(other)
    assert first is not None
    assert second is not None
    assert [len(first), len(second)] == [2, 4], "that of the one that was written to before goes"
    assert [first.of(at, 6) != [] for at in range(6)] == [False] * 4 + [True] * 2
    second.note(7, "accepted", [(at, at, 1) for at in range(9)])
    assert [len(first), len(second)] == [2, 4]
    first.keep_ms = 0
    first.note(8, "accepted", [(0, 0, 1)])
    assert (len(first), first.of(5, 8)) == (0, [])
    assert every.find(ShareKey("none", UUID(int=1), 0)) is None


def test_every_end_of_a_record_is_told(tmp_path: Path) -> None:
    fd = log_of(tmp_path / "log", [0], records=5)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, 5, tasks)
        timer = cast("ManualTimer", share._leases._timer)

        async def get(member: str, most: int = 5) -> None:
            await share.acquire(member, LIMITS_KEPT, max_bytes=1 << 20, max_records=most, exact=True)

        await get("one")
        done = [(0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)]
        assert await share.settle("one", done, LIMITS_KEPT) is ErrorCode.NONE
        timer.advance(LIMITS.lock_ms)
        await get("two", 1)
        assert await share.settle("two", [(1, 1, RELEASE)], LIMITS_KEPT) is ErrorCode.NONE
        await get("two", 1)
        share.release_member("two")
        told = {
            offset: [(each.what, each.deliveries, each.member_id) for each in share._history.of(offset, 2_000)]
            for offset in range(5)
        }
        first = ("delivered", 1, "one")
        assert told == {
            0: [first, ("accepted", 1, "")],
            1: [first, ("released", 1, ""), ("delivered", 2, "two"), ("archived: delivered too often", 2, "")],
            2: [first, ("rejected", 1, "")],
            3: [
                first,
                ("lock is over", 1, ""),
                ("delivered", 2, "two"),
                ("member is gone, archived: delivered too often", 2, ""),
            ],
            4: [first, ("lock is over", 1, "")],
        }
        await tasks.close()

    asyncio.run(run())
    os.close(fd)
