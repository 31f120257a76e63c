"""Large gaps in a ledger: they take neither memory nor time by the record."""

from ottla.native import DeliveryLedger
from ottla.queues.acknowledgements import ACCEPT

WIDE = 100_000_000
FAR = 5_000_000_000_000


def test_a_stored_state_with_a_large_gap_takes_no_memory_for_it() -> None:
    ledger = DeliveryLedger(0)
    ledger.load([(0, 0, 0, 1), (WIDE, WIDE, 0, 1), (FAR, FAR, 0, 2)])
    assert (ledger.end_offset, ledger.unfinished_count) == (FAR + 1, FAR + 1)
    assert ledger.bytes < 50_000
    assert ledger.runs(0, 10) == [
        (0, 0, 0, 1),
        (1, WIDE - 1, 0, 0),
        (WIDE, WIDE, 0, 1),
        (WIDE + 1, FAR - 1, 0, 0),
        (FAR, FAR, 0, 2),
    ]
    assert ledger.summary() == (3, 1, 2, 0, 1)


def test_records_in_the_middle_of_a_large_gap_are_delivered_and_given_back() -> None:
    ledger = DeliveryLedger(0)
    ledger.load([(0, 0, 0, 1), (WIDE, WIDE, 0, 1)])
    middle = WIDE // 2
    lease, runs = ledger.acquire(1, middle, middle + 1, 10, 0)
    assert runs == [(middle, middle + 1, 1, 1)]
    assert ledger.next_deliverable(middle) == middle + 2
    assert (ledger.acquired_count, ledger.unfinished_count) == (2, WIDE + 1)
    assert ledger.summary() == (2, 0, 1, 0, 1)
    assert ledger.end_lease(lease, 5) == [(middle, middle + 1, 0, 1)]
    assert ledger.next_deliverable(middle) == middle
    assert ledger.runs(0, 3) == [(0, 0, 0, 1), (1, middle - 1, 0, 0), (middle, middle + 1, 0, 1)]
    assert ledger.bytes < 50_000


def test_many_pages_taken_out_of_a_large_gap_are_one_again_when_they_are_done() -> None:
    ledger = DeliveryLedger(0)
    ledger.load([(0, 0, 0, 1), (WIDE, WIDE, 0, 1)])
    small = ledger.bytes
    for first in [*range(600, 600 + 512 * 50, 512), *range(WIDE - 512 * 50, WIDE, 512)]:
        ledger.acquire(1, first, first + 511, 512, 0)
    assert ledger.bytes > small + 100 * 512 * 7
    change, _ = ledger.settle(1, [(600, 512 * 50 + 599, ACCEPT), (WIDE - 512 * 50, WIDE - 1, ACCEPT)], 5, 0)
    ledger.commit(change)
    assert ledger.bytes < small + 50_000
    assert ledger.unfinished_count == WIDE + 1 - 2 * 512 * 50
    assert ledger.next_deliverable(600) == 512 * 50 + 600
    assert ledger.next_deliverable(WIDE - 512 * 50) == WIDE
    assert [run[:2] for run in ledger.runs(600, 10) if run[2] == 0] == [
        (512 * 50 + 600, WIDE - 512 * 50 - 1),
        (WIDE, WIDE),
    ]


def test_the_start_passes_over_a_large_gap_at_once() -> None:
    ledger = DeliveryLedger(0)
    ledger.acquire(1, 0, 0, 1, 0)
    ledger.acquire(1, FAR, FAR, 1, 0)
    assert ledger.bytes < 50_000
    change, _ = ledger.settle(1, [(0, 0, ACCEPT)], 5, 0)
    assert ledger.start_after([change]) == FAR
    assert ledger.summary() == (0, 0, 1, 0, 1)
    ledger.roll_back(change, 5)
    ledger.move_start(FAR)
    assert (ledger.start_offset, ledger.unfinished_count, ledger.acquired_count) == (FAR, 1, 1)


def test_the_start_moves_into_a_large_gap() -> None:
    ledger = DeliveryLedger(0)
    ledger.load([(0, 9, 2, 0), (WIDE, WIDE, 2, 1), (FAR, FAR, 0, 1)])
    assert (ledger.start_offset, ledger.unfinished_count) == (10, FAR - 10)
    ledger.move_start(WIDE + 700)
    assert (ledger.start_offset, ledger.unfinished_count) == (WIDE + 700, FAR + 1 - WIDE - 700)
    lease, runs = ledger.acquire(1, WIDE, WIDE + 701, 10, 0)
    assert runs == [(WIDE + 700, WIDE + 701, 1, 1)]
    ledger.release_owner(1, 5, 1 << 30)
    assert ledger.take_ended_leases() == [lease]


def test_one_lease_over_records_far_apart_ends_at_once() -> None:
    ledger = DeliveryLedger(0)
    ledger.load([(0, 0, 0, 1), (FAR, FAR, 0, 1)])
    lease, _ = ledger.claim(1, [0, FAR], 0, 1)
    assert ledger.end_lease(lease, 5) == [(0, 0, 0, 2), (FAR, FAR, 0, 2)]
