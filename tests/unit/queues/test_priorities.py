"""Priorities: each lane gets its share while all have records, none starves, and none jumps an order by key."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.model.error_code import ErrorCode
from ottla.native import DeliveryHints, DeliveryLedger, build_batch
from ottla.queues.acknowledgements import ACCEPT, RELEASE
from ottla.queues.lanes import Lanes
from ottla.queues.share_partition import SharePartition
from ottla.queues.state_batches import StateBatch
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.settings.definition import InvalidSettingError
from ottla.settings.group_table import GROUP_SETTINGS
from tests.unit.queues.test_share_partition import LIMITS, share_over

FOR_EVER = (1 << 63) - 1
WEIGHTED = LIMITS._replace(weights=(1, 4, 16), ahead_max=1_000)

Runs = list[tuple[int, int, int]]


@given(
    weights=st.lists(st.integers(1, 1_000), min_size=2, max_size=10).map(tuple),
    count=st.integers(1, 500),
    picks=st.integers(1, 300),
)
def test_a_lane_with_records_waits_for_its_share_and_for_one_fetch_of_each_other_at_most(
    weights: tuple[int, ...], count: int, picks: int
) -> None:
    lanes, served = Lanes(), [0] * len(weights)
    for _ in range(picks):
        lane = lanes.next(weights, range(len(weights)))
        lanes.took(lane, count)
        served[lane] += count
        for each, weight in enumerate(weights):
            due = sum(served) * weight / sum(weights)
            assert served[each] >= due - (count + 1) * len(weights), "it has starved"
            assert served[each] <= due + count + len(weights), "it got more than its share"


def test_a_lane_that_was_empty_does_not_catch_up() -> None:
    lanes, weights = Lanes(), (1, 1)
    for _ in range(100):
        assert lanes.next(weights, [0]) == 0
        lanes.took(0, 1)
    found: Counter[int] = Counter()
    for _ in range(100):
        lane = lanes.next(weights, [0, 1])
        lanes.took(lane, 1)
        found[lane] += 1
    assert abs(found[0] - found[1]) <= 2
    assert lanes.next((1, 1, 1), [2]) == 2, "other weights begin anew"


def batch_of(records: Sequence[tuple[bytes | None, bytes | None]], base_offset: int = 0) -> bytes:
    """Records with a key and a priority."""
    made = [(0, key, b"x", () if priority is None else (("ottla-priority", priority),)) for key, priority in records]
    return bytes(build_batch(made, base_offset=base_offset))


class LedgerKeepsLanes(RuleBasedStateMachine):
    """A list of the records beside the ledger, with order by key or without."""

    @initialize(
        records=st.lists(
            st.tuples(st.sampled_from([None, b"a", b"b"]), st.sampled_from([None, b"0", b"1", b"2", b"9", b"-"])),
            min_size=1,
            max_size=30,
        ),
        by_key=st.booleans(),
    )
    def begin(self, records: list[tuple[bytes | None, bytes | None]], by_key: bool) -> None:
        self.log = batch_of(records)
        self.keys = [key if by_key else None for key, _ in records]
        self.lanes = [min(int(priority), 2) if priority and priority.isdigit() else 0 for _, priority in records]
        self.states = ["new"] * len(records)
        self.counts = [0] * len(records)
        self.by_key = by_key
        self.leases: dict[int, list[int]] = {}
        self.ledger = DeliveryLedger(0)
        self.ledger.set_order(by_key, 3)

    def hints(self) -> DeliveryHints:
        known_to = self.ledger.known_to_offset
        return DeliveryHints(self.log, known_to, 50, keys=self.by_key, lanes=3, max_decompressed_bytes=0)

    def can_go(self, offset: int) -> bool:
        key = self.keys[offset]
        return self.states[offset] == "available" and (
            key is None
            or not any(self.keys[at] == key and self.states[at] not in ("new", "done") for at in range(offset))
        )

    @property
    def ahead(self) -> int:
        return sum(state == "available" and not count for state, count in zip(self.states, self.counts, strict=True))

    @rule(span=st.integers(0, 9), most=st.integers(1, 9))
    def look(self, span: int, most: int) -> None:
        first, ahead = self.ledger.end_offset, self.ahead
        last = min(first + span, len(self.states) - 1)
        self.ledger.look_ahead(self.hints(), first, last, most)
        for offset in range(first, min(last + 1, first + max(0, most - ahead))):
            self.states[offset] = "available"
        assert self.ledger.end_offset == sum(state != "new" for state in self.states)

    @rule(lane=st.integers(0, 2), most=st.integers(0, 4), new=st.integers(0, 4), skip=st.integers(0, 3))
    def acquire(self, lane: int, most: int, new: int, skip: int) -> None:
        first = self.ledger.start_offset + skip
        expected = [at for at in range(first, self.ledger.end_offset) if self.lanes[at] == lane and self.can_go(at)][
            :most
        ]
        fresh = [at for at in expected if not self.counts[at]][new:]
        expected = [at for at in expected if at not in fresh]
        lease, runs = self.ledger.acquire_lane(1, lane, first, 99, records_max=most, new_max=new, deadline_ms=FOR_EVER)
        assert [at for run in runs for at in range(run[0], run[1] + 1)] == expected
        for at in expected:
            self.states[at] = "held"
            self.counts[at] += 1
        if lease:
            self.leases[lease] = expected

    @precondition(lambda self: "held" in self.states)
    @rule(data=st.data(), kind=st.sampled_from([1, 1, 2]), later=st.sampled_from([0, 7]))
    def settle(self, data: Any, kind: int, later: int) -> None:
        held = [at for at, state in enumerate(self.states) if state == "held"]
        offsets = sorted(data.draw(st.sets(st.sampled_from(held), min_size=1, max_size=3)))
        change, _ = self.ledger.settle(1, [(at, at, kind) for at in offsets], 0, later)
        if wait := self.ledger.commit(change):
            self.ledger.end_lease(wait, 0)
        for at in offsets:
            self.states[at] = "available" if kind == 2 else "done"

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def time_is_up(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        del self.leases[lease]
        for first, last, _, _ in self.ledger.end_lease(lease, 0):
            self.states[first : last + 1] = ["available"] * (last - first + 1)

    @rule(by=st.integers(0, 4))
    def the_log_begins_later(self, by: int) -> None:
        to = min(self.ledger.start_offset + by, len(self.states))
        self.ledger.move_start(to)
        self.states[:to] = ["done"] * to

    @rule(at=st.integers(0, 9), length=st.integers(0, 4))
    def some_are_given_up(self, at: int, length: int) -> None:
        first = self.ledger.start_offset + at
        last = min(first + length, self.ledger.end_offset - 1)
        self.ledger.give_up(first, last)
        lease, runs = self.ledger.acquire(9, first, last, 99, FOR_EVER) if first <= last else (0, [])
        if lease:
            change, _ = self.ledger.settle(9, [(run[0], run[1], 0) for run in runs], 0, 0)
            self.ledger.commit(change)
        for offset in range(first, last + 1):
            if self.states[offset] == "available":
                self.states[offset] = "done"

    @rule()
    def another_leader_takes_over(self) -> None:
        start = self.ledger.start_offset
        stored = self.ledger.runs(start, 1 << 30)
        self.ledger = DeliveryLedger(start)
        self.ledger.load(stored)
        self.ledger.set_order(self.by_key, 3)
        self.ledger.learn(self.hints())
        self.states = ["available" if state == "held" else state for state in self.states]
        # What was never delivered is so for another leader too; a run that is all available ends the stored state.
        self.leases.clear()

    @rule()
    def the_setting_is_set_anew(self) -> None:
        self.ledger.set_order(False, 0)
        assert self.ledger.ahead_count == 0
        self.ledger.set_order(self.by_key, 3)
        self.ledger.learn(self.hints())

    @invariant()
    def both_are_alike(self) -> None:
        if not hasattr(self, "ledger"):
            return
        ledger = self.ledger
        going = [at for at in range(ledger.end_offset) if self.can_go(at)]
        assert ledger.lane_heads() == [next((at for at in going if self.lanes[at] == lane), -1) for lane in range(3)]
        assert ledger.ahead_count == self.ahead


LedgerKeepsLanes.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_the_ledger_keeps_lanes = LedgerKeepsLanes.TestCase


def log_with(path: Path, *batches: Sequence[tuple[bytes | None, bytes | None]]) -> tuple[int, int]:
    at, data = 0, b""
    for records in batches:
        data += batch_of(records, at)
        at += len(records)
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY), at


async def get(share: SharePartition, limits: Any = WEIGHTED, most: int = 1, *, exact: bool = True) -> Runs:
    if not share.has_news(limits):
        return []
    return (await share.acquire("m", limits, max_bytes=1 << 20, max_records=most, exact=exact)).runs


def test_the_most_urgent_goes_first_and_the_others_get_their_share(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", *[[(None, b"0"), (None, b"1"), (None, b"2")] * 7] * 10)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks)
        found: Counter[int] = Counter()
        first = await get(share)
        assert first == [(2, 2, 1)]
        found[2] += 1
        for _ in range(20):
            ((offset, _, _),) = await get(share)
            found[offset % 3] += 1
            assert await share.settle("m", [(offset, offset, ACCEPT)], WEIGHTED) is ErrorCode.NONE
        assert found == {0: 1, 1: 4, 2: 16}
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


@pytest.mark.parametrize("exact", [True, False])
def test_each_record_is_delivered_once_whatever_its_priority(tmp_path: Path, exact: bool) -> None:
    batches = [[(None, b"%d" % (at * 7 % 4)) for at in range(size)] for size in (5, 1, 30, 12, 50)]
    fd, end = log_with(tmp_path / "log", *batches)
    limits = WEIGHTED._replace(ahead_max=11, locks_max=9)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks)
        delivered: list[int] = []
        while runs := await get(share, limits, 3, exact=exact):
            for first, last, _ in runs:
                delivered += range(first, last + 1)
            done = [(first, last, ACCEPT) for first, last, _ in runs]
            assert await share.settle("m", done, limits) is ErrorCode.NONE
        assert sorted(delivered) == list(range(end))
        assert share.ledger.start_offset == end
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_the_limit_of_unfinished_records_holds_and_what_was_given_back_goes_on(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", [(None, b"0")] * 4 + [(None, b"2")] * 4)
    limits = WEIGHTED._replace(locks_max=2)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks)
        assert await get(share, limits) == [(4, 4, 1)]
        assert await get(share, limits) == [(5, 5, 1)]
        assert await get(share, limits) == []
        assert await share.settle("m", [(5, 5, RELEASE)], limits) is ErrorCode.NONE
        assert await get(share, limits) == [(5, 5, 2)]
        assert await share.settle("m", [(4, 4, ACCEPT)], limits) is ErrorCode.NONE
        assert await get(share, limits) == [(6, 6, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_priorities_hold_behind_an_order_by_key_and_after_another_leader(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", [(b"k", b"0"), (b"k", b"2"), (b"l", b"1"), (None, b"0")])
    limits = WEIGHTED._replace(is_ordered=True)

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks, batches=[StateBatch(0, 0, 0, 1)])
        assert [await get(share, limits) for _ in range(4)] == [[(2, 2, 1)], [(0, 0, 2)], [(3, 3, 1)], []]
        assert await share.settle("m", [(0, 0, ACCEPT)], limits) is ErrorCode.NONE
        assert await get(share, limits) == [(1, 1, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_what_is_too_old_is_passed_over_in_every_lane(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", [(None, b"0"), (None, b"2")], [(None, b"1")])

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks, ttl_ms=5)
        assert await get(share) == [(1, 1, 1)]
        cast("ManualTimer", share._leases._timer).advance(5)
        assert await get(share) == []
        assert (share.ledger.unfinished_count, share.ledger.ahead_count) == (1, 0)
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


@pytest.mark.parametrize("bad", ["1", "0,1", "1,-1", "1,x", "1,1001", ",".join("1" * 11)])
def test_weights_that_mean_nothing_are_refused(bad: str) -> None:
    definition = GROUP_SETTINGS["ottla.delivery.priority.weights"]
    assert definition.parse("1,4,16") == ("1", "4", "16")
    assert definition.parse("") == ()
    with pytest.raises(InvalidSettingError):
        definition.parse(bad)
