"""Mistakes that a ledger could make are found by the comparison with the model."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ottla.native import DeliveryLedger
from ottla.native.errors import RecordNotHeldError
from tests.unit.queues.test_ledger_properties import LedgerAgreesWithTheModel

Runs = list[tuple[int, int, int, int]]


class Faulty:
    """The ledger, unless a method is replaced."""

    def __init__(self, start: int) -> None:
        self.ledger = DeliveryLedger(start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


class AcceptsOfAPastOwner(Faulty):
    def settle(self, owner: int, runs: Any, limit: int, later: int) -> tuple[int, Runs]:
        try:
            return self.ledger.settle(owner, runs, limit, later)
        except RecordNotHeldError as error:
            holder = self.ledger.holder(error.offset)
            return self.ledger.settle(holder[0] if holder and holder[0] else owner, runs, limit, later)


class DeadlineNotRenewed(Faulty):
    def extend(self, owner: int, runs: Any, deadline_ms: int) -> int:
        return self.ledger.extend(owner, runs, 100)


class CountNotRaised(Faulty):
    def acquire(self, *given: int) -> tuple[int, Runs]:
        lease, runs = self.ledger.acquire(*given)
        return lease, [(first, last, state, max(1, count - 1)) for first, last, state, count in runs]


class LastRecordOfARangeLeftOut(Faulty):
    def acquire(self, owner: int, first: int, last: int, most: int, deadline_ms: int) -> tuple[int, Runs]:
        return self.ledger.acquire(owner, first, last - 1, most, deadline_ms)


class MoreThanAskedFor(Faulty):
    def acquire(self, owner: int, first: int, last: int, most: int, deadline_ms: int) -> tuple[int, Runs]:
        return self.ledger.acquire(owner, first, last, most + 1, deadline_ms)


class LastRunLostAtLoad(Faulty):
    def load(self, runs: Runs) -> None:
        self.ledger.load(runs[:-1])


class OneDeliveryTooMany(Faulty):
    def end_lease(self, lease: int, limit: int) -> Runs:
        return self.ledger.end_lease(lease, limit + 1 if limit else 0)


class FailedWriteTakenForDone(Faulty):
    def roll_back(self, change: int, limit: int) -> Runs:
        self.ledger.commit(change)
        return []


class WrittenChangeForgotten(Faulty):
    def commit(self, change: int) -> int:
        self.ledger.roll_back(change, 0)
        return 0


class DelayIgnored(Faulty):
    def settle(self, owner: int, runs: Any, limit: int, later: int) -> tuple[int, Runs]:
        return self.ledger.settle(owner, runs, limit, 0)


class WaitsNeverEnd(Faulty):
    def end_lease(self, lease: int, limit: int) -> Runs:
        before = self.ledger.waiting_count
        runs = self.ledger.runs(0, 1 << 30) if before else []
        waiting = [first for first, *_ in runs if (self.ledger.holder(first) or (1, 0))[0] == 0]
        released = self.ledger.end_lease(lease, limit)
        for offset in waiting:
            if self.ledger.holder(offset) is None:
                self.ledger.claim(1, [offset], 0, 0)
        return released


class ClaimDoesNotCount(Faulty):
    def claim(self, owner: int, offsets: list[int], deadline_ms: int, deliveries: int) -> tuple[int, Runs]:
        return self.ledger.claim(owner, offsets, deadline_ms, 0)


class OwnerKeepsWhatItHeld(Faulty):
    def release_owner(self, owner: int, limit: int, most: int) -> tuple[Runs, bool]:
        return [], True


class OwnerKeepsAllButTheFirstSlice(Faulty):
    def release_owner(self, owner: int, limit: int, most: int) -> tuple[Runs, bool]:
        return self.ledger.release_owner(owner, limit, most)[0], True


class StartStaysBelowTheLog(Faulty):
    def move_start(self, offset: int) -> None:
        self.ledger.move_start(offset - 1)


class EndedLeaseNotTold(Faulty):
    def take_ended_leases(self) -> list[int]:
        return self.ledger.take_ended_leases()[:1]


class LeaseToldWhenTheFirstOfItsRecordsIsSettled(Faulty):
    last = 0

    def acquire(self, *given: int) -> tuple[int, Runs]:
        self.last, runs = self.ledger.acquire(*given)
        return self.last, runs

    def take_ended_leases(self) -> list[int]:
        told = self.ledger.take_ended_leases()
        if self.ledger.change_count and self.last and self.last not in told:
            told.append(self.last)
            self.last = 0
        return told


class RejectedIsReleased(Faulty):
    def settle(self, owner: int, runs: Any, limit: int, later: int) -> tuple[int, Runs]:
        return self.ledger.settle(
            owner, [(first, last, 2 if kind == 3 else kind) for first, last, kind in runs], limit, later
        )


class HalfOfARefusedRequestIsDone(Faulty):
    def settle(self, owner: int, runs: Any, limit: int, later: int) -> tuple[int, Runs]:
        try:
            return self.ledger.settle(owner, runs, limit, later)
        except RecordNotHeldError:
            if len(runs) > 1:
                self.ledger.settle(owner, runs[:1], limit, later)
            raise


@pytest.mark.slow
@pytest.mark.parametrize("faulty", Faulty.__subclasses__())
def test_a_planted_mistake_is_found(faulty: type[Faulty]) -> None:
    class Planted(LedgerAgreesWithTheModel):
        new_ledger = faulty

    looking = settings(
        max_examples=1_000,
        stateful_step_count=40,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        database=None,
    )
    with pytest.raises((AssertionError, RecordNotHeldError, KeyError, pytest.fail.Exception)):
        run_state_machine_as_test(Planted, settings=looking)
