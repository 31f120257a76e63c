"""Whatever is delivered, settled, extended, claimed and lost in whatever order: the ledger does what the model does."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.native import DeliveryLedger
from ottla.native.errors import RecordNotHeldError, RecordRangeError
from tests.unit.queues.ledger_model import ACKNOWLEDGED, ARCHIVED, LedgerModel, RefusedError, apart

OWNERS = st.integers(1, 3)
LIMITS = st.sampled_from([0, 1, 2, 5])
# Few offsets meet often; some gaps are wider than the 512 records that are kept together.
NEAR = st.integers(0, 12)


class LedgerAgreesWithTheModel(RuleBasedStateMachine):
    """Each rule is done to both, and both answer the same."""

    new_ledger: Callable[[int], Any] = DeliveryLedger

    def __init__(self) -> None:
        super().__init__()
        self.model = LedgerModel()
        self.ledger = self.new_ledger(0)
        self.leases: dict[int, int] = {}
        """By the model's number, the ledger's."""
        self.changes: dict[int, int] = {}
        self.ended: set[int] = set()
        """The leases that the ledger told to have ended."""

    def lease_of(self, pair: tuple[int, int]) -> None:
        expected, got = pair
        assert (expected == 0) == (got == 0)
        if expected:
            assert got not in self.leases.values(), "a timer of the first would end the second"
            self.leases[expected] = got

    def runs_from(self, data: Any, kinds: bool) -> list[Any]:
        runs: list[Any] = []
        for _ in range(data.draw(st.integers(1, 3))):
            first = self.model.start + data.draw(st.integers(-2, 10))
            last = first + data.draw(st.integers(-1, 6))
            runs.append((first, last, data.draw(st.integers(0, 3))) if kinds else (first, last))
        return runs

    @rule(owner=OWNERS, skip=st.sampled_from([0] * 12 + [1, 1, 3, 3, 700]), length=NEAR, most=st.integers(0, 8))
    def acquire_at_the_end(self, owner: int, skip: int, length: int, most: int) -> None:
        first = self.model.end + (skip if self.model.end < 12_000 else 0)
        self.acquire(owner, first, first + length, most)

    @rule(owner=OWNERS, at=NEAR, length=NEAR, most=st.integers(0, 8))
    def acquire_again(self, owner: int, at: int, length: int, most: int) -> None:
        first = self.ledger.next_deliverable(self.model.start + at)
        assert first == self.model.next_deliverable(self.model.start + at)
        self.acquire(owner, first, first + length, most)

    def acquire(self, owner: int, first: int, last: int, most: int) -> None:
        lease, runs = self.model.acquire(owner, first, last, most, 100)
        got, got_runs = self.ledger.acquire(owner, first, last, most, 100)
        self.lease_of((lease, got))
        assert apart(got_runs) == runs

    @rule(owner=OWNERS, limit=LIMITS, later=st.sampled_from([0, 0, 50]), data=st.data())
    def settle(self, owner: int, limit: int, later: int, data: Any) -> None:
        runs = self.runs_from(data, kinds=True)
        try:
            change, becomes = self.model.settle(owner, runs, limit, later)
        except RefusedError:
            with pytest.raises((RecordNotHeldError, RecordRangeError)):
                self.ledger.settle(owner, runs, limit, later)
            return
        got, got_becomes = self.ledger.settle(owner, runs, limit, later)
        assert (change == 0) == (got == 0)
        assert apart(got_becomes) == becomes
        if change:
            self.changes[change] = got

    def held_by(self, owner: int) -> list[int]:
        """What an owner may settle, in order."""
        found = []
        for offset in sorted(self.model.records)[:40]:
            try:
                found += self.model.held(owner, offset, offset)
            except RefusedError:
                continue
        return found

    @rule(owner=OWNERS, data=st.data(), later=st.sampled_from([0, 0, 70]), at_once=st.booleans())
    def settle_what_is_held(self, owner: int, data: Any, later: int, at_once: bool) -> None:
        """Runs that are refused are much more frequent by themselves."""
        runs = [(o, o, data.draw(st.sampled_from([0, 1, 2, 2, 2, 3]))) for o in self.held_by(owner)[:6]]
        if not runs:
            return
        change, becomes = self.model.settle(owner, runs, 3, later)
        got, got_becomes = self.ledger.settle(owner, runs, 3, later)
        assert apart(got_becomes) == becomes
        if at_once:
            self.lease_of((self.model.commit(change), self.ledger.commit(got)))
        else:
            self.changes[change] = got

    @rule(owner=OWNERS)
    def settle_more_than_is_held(self, owner: int) -> None:
        """All of it is refused, and what was held can be settled after that."""
        held = self.held_by(owner)[:2]
        runs = [*((offset, offset, 1) for offset in held), (self.model.end, self.model.end, 1)]
        with pytest.raises(RecordRangeError):
            self.ledger.settle(owner, runs, 0, 0)

    @rule(owner=OWNERS)
    def extend_what_is_held(self, owner: int) -> None:
        runs = [(offset, offset) for offset in self.held_by(owner)[1:4]]
        self.lease_of((self.model.extend(owner, runs, 950), self.ledger.extend(owner, runs, 950)))

    @rule(owner=OWNERS, data=st.data())
    def extend(self, owner: int, data: Any) -> None:
        runs = self.runs_from(data, kinds=False)
        try:
            lease = self.model.extend(owner, runs, 900)
        except RefusedError:
            with pytest.raises((RecordNotHeldError, RecordRangeError)):
                self.ledger.extend(owner, runs, 900)
            return
        self.lease_of((lease, self.ledger.extend(owner, runs, 900)))

    @rule(owner=OWNERS, offsets=st.sets(st.integers(-2, 15)), deliveries=st.integers(0, 1))
    def claim(self, owner: int, offsets: set[int], deliveries: int) -> None:
        claimed = sorted(self.model.start + offset for offset in offsets)
        lease, runs = self.model.claim(owner, claimed, 900, deliveries)
        got, got_runs = self.ledger.claim(owner, claimed, 900, deliveries)
        self.lease_of((lease, got))
        assert apart(got_runs) == runs

    @precondition(lambda self: self.changes)
    @rule(data=st.data())
    def commit(self, data: Any) -> None:
        change = data.draw(st.sampled_from(sorted(self.changes)))
        self.lease_of((self.model.commit(change), self.ledger.commit(self.changes.pop(change))))

    @precondition(lambda self: self.changes)
    @rule(data=st.data(), limit=LIMITS)
    def roll_back(self, data: Any, limit: int) -> None:
        change = data.draw(st.sampled_from(sorted(self.changes)))
        released = self.model.roll_back(change, limit)
        assert apart(self.ledger.roll_back(self.changes.pop(change), limit)) == released

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), limit=LIMITS)
    def end_a_lease(self, data: Any, limit: int) -> None:
        """Also one that has ended, or whose records all went another way: its timer fires late."""
        lease = data.draw(st.sampled_from(sorted(self.leases)))
        released = self.model.end_lease(lease, limit)
        assert apart(self.ledger.end_lease(self.leases[lease], limit)) == released

    @precondition(lambda self: any(lease.owner == 0 and not lease.has_ended for lease in self.model.leases.values()))
    @rule(data=st.data())
    def end_a_wait(self, data: Any) -> None:
        waits = [number for number, lease in self.model.leases.items() if lease.owner == 0 and not lease.has_ended]
        lease = data.draw(st.sampled_from(waits))
        assert self.ledger.end_lease(self.leases[lease], 2) == self.model.end_lease(lease, 2) == []

    @rule(owner=OWNERS, limit=LIMITS, slice_size=st.sampled_from([1, 2, 5, 1_000_000]))
    def release_an_owner(self, owner: int, limit: int, slice_size: int) -> None:
        released: list[Any] = []
        is_all = False
        while not is_all:
            some, is_all = self.ledger.release_owner(owner, limit, slice_size)
            assert is_all or sum(last - first + 1 for first, last, *_ in some) <= slice_size
            released += some
        assert apart(sorted(released)) == self.model.release_owner(owner, limit)

    @rule(by=st.sampled_from([-1, 0, 1, 1, 2, 2, 5, 20]))
    def move_the_start(self, by: int) -> None:
        self.model.move_start(self.model.start + by)
        self.ledger.move_start(self.ledger.start_offset + by)

    @rule()
    def store_and_load(self) -> None:
        stored = self.ledger.runs(self.ledger.start_offset, 1 << 30)
        loaded = self.new_ledger(self.ledger.start_offset)
        loaded.load(stored)
        assert (loaded.start_offset, loaded.end_offset) == (self.ledger.start_offset, self.ledger.end_offset)
        released = [(f, end, 0 if state == 1 else state, count) for f, end, state, count in stored]
        assert apart(loaded.runs(0, 1 << 30)) == apart(released)

    @invariant()
    def both_are_alike(self) -> None:
        model, ledger = self.model, self.ledger
        assert (ledger.start_offset, ledger.end_offset) == (model.start, model.end)
        records = model.records.values()
        assert ledger.acquired_count == sum(record.state == 1 for record in records)
        waits = sum(record.state == 0 and record.lease is not None for record in records)
        assert ledger.waiting_count == waits
        done = sum(r.state in (ACKNOWLEDGED, ARCHIVED) for r in records)
        assert ledger.unfinished_count == len(records) - done
        assert ledger.change_count == len(model.changes)
        held = {record.lease for record in records if record.lease is not None}
        assert ledger.lease_count == len(held)
        told = ledger.take_ended_leases()
        assert self.ended.isdisjoint(told), "each is told once"
        self.ended.update(told)
        assert self.ended == {got for lease, got in self.leases.items() if lease not in held}
        # A page of which all is done keeps no count.
        finals = (ACKNOWLEDGED, ARCHIVED)
        got = [(f, 4 if s in finals else s, 0 if s in finals else c) for f, _, s, c in apart(ledger.runs(0, 1 << 30))]
        assert got == [(f, 4 if s in finals else s, 0 if s in finals else c) for f, _, s, c in model.states()]
        for offset in range(model.start, min(model.end, model.start + 15)):
            assert ledger.holder(offset) == model.holder(offset)


LedgerAgreesWithTheModel.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
test_the_ledger_agrees_with_the_model = LedgerAgreesWithTheModel.TestCase
