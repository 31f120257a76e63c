"""Order by key: whatever is delivered, settled and lost, no record goes before those of its key that lie before it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.model.error_code import ErrorCode
from ottla.native import DeliveryHints, DeliveryLedger, build_batch, decode_records
from ottla.queues import hint_reader
from ottla.queues.acknowledgements import ACCEPT, RELEASE
from ottla.queues.share_partition import SharePartition
from ottla.queues.state_batches import StateBatch
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from tests.unit.queues.test_share_partition import LIMITS, share_over

FOR_EVER = (1 << 63) - 1
IN_ORDER = LIMITS._replace(is_ordered=True, deliveries_max=3)

Runs = list[tuple[int, int, int]]


def batch_of(keys: Sequence[bytes | None], base_offset: int = 0) -> bytes:
    return bytes(build_batch([(0, key, b"x", ()) for key in keys], base_offset=base_offset))


class LedgerDeliversInOrder(RuleBasedStateMachine):
    """A list of the records beside the ledger, searched from its beginning for whatever is asked."""

    @initialize(keys=st.lists(st.sampled_from([None, b"a", b"a", b"b", b"c"]), min_size=1, max_size=40), data=st.data())
    def begin(self, keys: list[bytes | None], data: Any) -> None:
        self.keys = keys
        self.log = b""
        at = 0
        while at < len(keys):
            size = data.draw(st.integers(1, 9))
            self.log += batch_of(keys[at : at + size], at)
            at += size
        self.states = ["new"] * len(keys)
        self.leases: dict[int, list[int]] = {}
        self.changes: dict[int, tuple[list[int], str]] = {}
        self.is_ordered = True
        self.start_again([])

    def start_again(self, runs: list[tuple[int, int, int, int]]) -> None:
        self.ledger = DeliveryLedger(0)
        self.ledger.load(runs)
        self.ledger.set_order(True, 0)

    @property
    def end(self) -> int:
        return self.ledger.end_offset

    def is_first(self, offset: int) -> bool:
        key = self.keys[offset]
        return key is None or not any(
            self.keys[before] == key and self.states[before] not in ("done", "new") for before in range(offset)
        )

    def can_go(self, offset: int) -> bool:
        return self.states[offset] == "available" and (not self.is_ordered or self.is_first(offset))

    @property
    def blocked(self) -> int:
        if not self.is_ordered:
            return 0
        return sum(state == "available" and not self.is_first(at) for at, state in enumerate(self.states))

    @rule(
        span=st.integers(0, 15),
        most=st.integers(0, 6),
        new=st.integers(0, 6),
        blocked=st.integers(1, 6),
        data=st.data(),
    )
    def acquire(self, span: int, most: int, new: int, blocked: int, data: Any) -> None:
        known_to = self.ledger.known_to_offset
        looked_at = data.draw(st.sampled_from([1, 3, 100]))
        hints = DeliveryHints(self.log, known_to, looked_at, keys=True, max_decompressed_bytes=0)
        if self.is_ordered and known_to < self.end:
            assert self.ledger.acquire_in_order(
                1, hints, 0, 50, records_max=9, new_max=9, ahead_max=9, deadline_ms=FOR_EVER
            ) == (0, [])
            self.ledger.learn(hints)
            assert self.ledger.known_to_offset > known_to
            return
        first, before = self.ledger.next_deliverable(0), self.end
        last = min(first + span, len(self.keys) - 1)
        expected = self.expected(first, last, most, new, blocked, hints.end_offset)
        if self.is_ordered:
            lease, runs = self.ledger.acquire_in_order(
                1, hints, first, last, records_max=most, new_max=new, ahead_max=blocked, deadline_ms=FOR_EVER
            )
        else:
            lease, runs = self.ledger.acquire(1, first, last, most, FOR_EVER)
        assert self.end >= before
        assert [offset for run in runs for offset in range(run[0], run[1] + 1)] == expected
        if lease:
            self.leases[lease] = expected

    def expected(self, first: int, last: int, most: int, new: int, blocked: int, known_to: int) -> list[int]:
        found: list[int] = []
        for offset in range(first, last + 1):
            is_new = self.states[offset] == "new"
            if len(found) >= most or (is_new and self.is_ordered and offset >= known_to):
                break
            if is_new and self.is_ordered and not self.is_first(offset):
                if self.blocked >= blocked:
                    break
                self.states[offset] = "available"
            elif is_new and self.is_ordered and not new:
                break
            elif is_new or self.can_go(offset):
                new -= is_new
                self.states[offset] = "held"
                found.append(offset)
        return found

    @precondition(lambda self: "held" in self.states)
    @rule(data=st.data(), kind=st.sampled_from([1, 1, 2, 3]), later=st.sampled_from([0, 7]), is_written=st.booleans())
    def settle(self, data: Any, kind: int, later: int, is_written: bool) -> None:
        held = sorted(at for at, state in enumerate(self.states) if state == "held")
        offsets = sorted(data.draw(st.sets(st.sampled_from(held), min_size=1, max_size=4)))
        change, _ = self.ledger.settle(1, [(at, at, kind) for at in offsets], 0, later)
        for at in offsets:
            self.states[at] = "pending"
        if is_written:
            if wait := self.ledger.commit(change):
                self.leases[wait] = offsets
            for at in offsets:
                self.states[at] = "done" if kind != 2 else "waiting" if later else "available"
        else:
            self.ledger.roll_back(change, 0)
            for at in offsets:
                self.states[at] = "held"
        self.ledger.take_ended_leases()

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), limit=st.sampled_from([0, 2]))
    def time_is_up(self, data: Any, limit: int) -> None:
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        waited = [at for at in self.leases.pop(lease) if self.ledger.holder(at) == (0, 7)]
        for first, last, state, _ in self.ledger.end_lease(lease, limit):
            for offset in range(first, last + 1):
                assert self.states[offset] == "held"
                self.states[offset] = "done" if state else "available"
        for offset in waited:
            if self.ledger.holder(offset) is None:
                self.states[offset] = "available"

    @rule(by=st.sampled_from([0, 1, 1, 3, 8]))
    def the_log_begins_later(self, by: int) -> None:
        to = min(self.ledger.start_offset + by, self.end)
        self.ledger.move_start(to)
        self.states[:to] = ["done"] * to

    @rule(at=st.integers(0, 20), length=st.integers(0, 5))
    def some_are_given_up_whatever_lies_before_them(self, at: int, length: int) -> None:
        first, last = self.ledger.start_offset + at, min(self.ledger.start_offset + at + length, self.end - 1)
        if last < first:
            return
        self.ledger.give_up(first, last)
        lease, runs = self.ledger.acquire(9, first, last, 99, FOR_EVER)
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
        self.ledger.set_order(self.is_ordered, 0)
        self.states = ["available" if state in ("held", "waiting") else state for state in self.states]
        self.leases.clear()

    @rule()
    def the_setting_changes(self) -> None:
        self.is_ordered = not self.is_ordered
        self.ledger.set_order(self.is_ordered, 0)

    @invariant()
    def both_are_alike(self) -> None:
        if not hasattr(self, "ledger") or (self.is_ordered and self.ledger.known_to_offset < self.end):
            return
        assert self.ledger.ahead_count == self.blocked
        going = [at for at in range(self.end) if self.can_go(at)]
        found, at = [], self.ledger.next_deliverable(0)
        while at < self.end:
            found.append(at)
            at = self.ledger.next_deliverable(at + 1)
        assert found == going


LedgerDeliversInOrder.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
test_the_ledger_delivers_in_order = LedgerDeliversInOrder.TestCase


def test_hints_end_where_there_are_too_many_and_pass_over_what_cannot_be_opened() -> None:
    broken = bytearray(batch_of([b"b", b"b"], 2))
    broken[-1] ^= 1
    log = batch_of([b"a", None], 0) + broken + batch_of([None, b"a", b"c"], 4)

    def read(start: int, most: int) -> tuple[int, int]:
        hints = DeliveryHints(log, start, most, keys=True, max_decompressed_bytes=1 << 20)
        assert hints.start_offset == start
        return len(hints), hints.end_offset

    assert [read(0, most) for most in (9, 3, 2, 1)] == [(3, 7), (3, 7), (2, 6), (1, 5)]
    assert read(1, 9) == (2, 7)
    assert read(7, 9) == (0, 7)
    bomb = build_batch([(0, b"k", bytes(10_000), ())], codec=4)
    assert len(DeliveryHints(bomb, 0, 9, keys=True, max_decompressed_bytes=5_000)) == 0
    assert len(DeliveryHints(bomb, 0, 9, keys=True, max_decompressed_bytes=20_000)) == 1


class Workers:
    """Acquires and settles for members of a share partition in order."""

    def __init__(self, share: SharePartition, limits: Any = IN_ORDER) -> None:
        self.share = share
        self.limits = limits

    async def get(self, member: str = "m", most: int = 100, *, exact: bool = True) -> Runs:
        if not self.share.has_news(self.limits):
            return []
        acquired = await self.share.acquire(member, self.limits, max_bytes=1 << 20, max_records=most, exact=exact)
        return acquired.runs

    async def settle(self, first: int, kind: int, member: str = "m") -> None:
        assert await self.share.settle(member, [(first, first, kind)], self.limits) is ErrorCode.NONE


def log_with(path: Path, *batches: Sequence[bytes | None]) -> tuple[int, int]:
    """A file with these keys, its descriptor and its end."""
    at, data = 0, b""
    for keys in batches:
        data += batch_of(keys, at)
        at += len(keys)
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY), at


@pytest.mark.parametrize("exact", [True, False])
def test_a_poisoned_key_holds_up_no_other_and_goes_on_when_its_record_is_archived(tmp_path: Path, exact: bool) -> None:
    fd, end = log_with(tmp_path / "log", [b"p", b"q", b"p", None], [b"q", b"p", None])

    async def run() -> None:
        tasks = Tasks()
        workers = Workers(share_over(fd, end, tasks))
        assert await workers.get(exact=exact) == [(0, 1, 1), (3, 3, 1), (6, 6, 1)]
        assert await workers.get("other", exact=exact) == []
        assert workers.share.ledger.ahead_count == 3
        await workers.settle(1, ACCEPT)
        assert await workers.get("other", exact=exact) == [(4, 4, 1)], "the next of q"
        for deliveries in (2, 3):
            await workers.settle(0, RELEASE)
            assert await workers.get(exact=exact) == [(0, 0, deliveries)]
        await workers.settle(0, RELEASE)
        assert await workers.get(exact=exact) == [(2, 2, 1)], "the first of p was archived"
        await workers.settle(2, ACCEPT)
        assert await workers.get(exact=exact) == [(5, 5, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_blocked_records_leave_room_for_others_up_to_their_own_limit(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", [b"p"] * 7 + [b"q", b"r", b"s"])
    limits = IN_ORDER._replace(locks_max=2, ahead_max=5)

    async def run() -> None:
        tasks = Tasks()
        workers = Workers(share_over(fd, end, tasks), limits)
        assert await workers.get() == [(0, 0, 1)], "five are blocked, and no more are looked at"
        assert not workers.share.has_news(limits)
        await workers.settle(0, ACCEPT)
        assert await workers.get() == [(1, 1, 1), (7, 7, 1)], "two unfinished ones are the limit"
        assert await workers.get() == []
        await workers.settle(7, ACCEPT)
        assert await workers.get() == [], "five are blocked"
        await workers.settle(1, ACCEPT)
        assert await workers.get() == [(2, 2, 1), (8, 8, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


@pytest.mark.parametrize("codec", [0, 4])
def test_an_answer_is_about_as_large_as_asked_for_however_far_its_records_lie_apart(tmp_path: Path, codec: int) -> None:
    path, data = tmp_path / "log", b""
    for batch in range(50):
        records = [(0, b"p%d" % batch if each else b"q%d" % batch, os.urandom(1_000), ()) for each in range(10)]
        data += build_batch(records, base_offset=batch * 10, codec=codec)
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)

    async def run() -> None:
        tasks = Tasks()
        share, sizes, delivered = share_over(fd, 500, tasks), [], []
        while len(delivered) < 100:
            acquired = await share.acquire("m", IN_ORDER, max_bytes=30_000, max_records=500, exact=True)
            sizes.append(len(acquired.records))
            delivered += [offset for first, last, _ in acquired.runs for offset in range(first, last + 1)]
            found = {record[0] for record in decode_records(acquired.records, max_decompressed_bytes=1 << 20)}
            assert found >= set(delivered[-sum(run[1] - run[0] + 1 for run in acquired.runs) :])
        assert delivered == [batch * 10 + each for batch in range(50) for each in (0, 1)], "the first of each key"
        if codec:
            assert len(sizes) == 25, "two whole batches fit"
            assert max(sizes) <= 30_000
        else:
            assert max(sizes) <= 31_500
            assert len(sizes) == 4, "two records of each batch"
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_another_leader_keeps_the_order_of_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_reader, "HINTS_MAX", 2)
    fd, end = log_with(tmp_path / "log", [b"p", b"q", b"p", b"q"], [b"p", b"r"])
    stored = [StateBatch(0, 0, 0, 1, 5_000_000), StateBatch(1, 1, 2, 1), StateBatch(2, 3, 0, 1), StateBatch(4, 4, 0, 1)]

    async def run() -> None:
        tasks = Tasks()
        workers = Workers(share_over(fd, end, tasks, batches=stored))
        assert await workers.get() == [(3, 3, 2), (5, 5, 1)], "the first of p waits for its time, q's is done"
        workers.share.ledger.move_start(1)
        assert await workers.get() == [(2, 2, 2)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_the_order_holds_from_when_it_is_set_until_it_is_not(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", [b"p", b"p", b"p", b"p"])

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks)
        plain, ordered = Workers(share, LIMITS), Workers(share)
        assert await plain.get(most=2) == [(0, 1, 1)]
        assert await ordered.get() == []
        await ordered.settle(1, RELEASE)
        assert await ordered.get() == [], "the first is not done"
        await ordered.settle(0, ACCEPT)
        assert await ordered.get() == [(1, 1, 2)]
        assert await plain.get() == [(2, 3, 1)]
        await tasks.close()

    asyncio.run(run())
    os.close(fd)


def test_what_is_archived_for_its_age_lets_go_what_lies_behind_it(tmp_path: Path) -> None:
    fd, end = log_with(tmp_path / "log", [b"p", b"p", b"p"], [b"q"])

    async def run() -> None:
        tasks = Tasks()
        share = share_over(fd, end, tasks, ttl_ms=1)
        cast("ManualTimer", share._leases._timer).advance(10)
        assert await Workers(share).get() == []
        assert share.ledger.start_offset == end
        assert share.ledger.ahead_count == 0
        await tasks.close()

    asyncio.run(run())
    os.close(fd)
