"""Each rule about what is committed can be broken, and is noticed."""

import pytest

from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.simulation.ledger import Ledger, Violation
from ottla.simulation.replica import Entry, Replica


def replica(broker_id: int, *entries: Entry, leads: bool = False, leader_epoch: int = 0) -> Replica:
    made = Replica(broker_id, 0)
    made.leader_epoch = leader_epoch
    for entry in entries:
        made.append(entry)
    if leads:
        made.in_sync = InSyncReplicas(
            broker_id, [1, 2], [1, 2], 0, epoch_start_offset=0, live_brokers={1: 1, 2: 2}, lag_max_ms=1, now_ms=0
        )
    return made


def with_two_committed() -> Ledger:
    ledger = Ledger(0)
    assert ledger.raise_to(replica(1, (0, 7), (0, 8), leads=True), 2)
    return ledger


def test_what_a_leader_moves_its_high_watermark_over_is_committed() -> None:
    assert with_two_committed().committed == [(0, 7), (0, 8)]


def test_a_follower_commits_nothing() -> None:
    with pytest.raises(Violation, match="followers follow"):
        with_two_committed().raise_to(replica(2, (0, 7), (0, 8), (0, 9)), 3)


def test_two_records_at_a_committed_offset_are_noticed() -> None:
    with pytest.raises(Violation, match="the same everywhere"):
        with_two_committed().raise_to(replica(2, (0, 7), (1, 9)), 2)


def test_a_high_watermark_that_falls_or_leaves_the_log_is_noticed() -> None:
    leader = replica(1, (0, 7), leads=True)
    ledger = Ledger(0)
    ledger.raise_to(leader, 1)

    with pytest.raises(Violation, match="never falls"):
        ledger.raise_to(leader, 0)
    with pytest.raises(Violation, match="is in the log"):
        ledger.raise_to(leader, 2)


def test_a_committed_record_that_is_cut_is_noticed_and_another_one_in_its_place_may_go() -> None:
    ledger = with_two_committed()
    ledger.cut(replica(2, (0, 7), (1, 9)), 1)

    with pytest.raises(Violation, match="never cut"):
        ledger.cut(replica(2, (0, 7), (0, 8), (1, 9)), 1)


def test_a_second_leader_of_an_epoch_is_noticed_another_process_of_the_first_as_well() -> None:
    ledger = Ledger(0)
    ledger.leads(replica(1, leads=True), 1)
    ledger.leads(replica(1, leads=True), 1)

    for leader, broker_epoch in ((replica(2, leads=True), 2), (replica(1, leads=True), 5)):
        with pytest.raises(Violation, match="one leader an epoch"):
            ledger.leads(leader, broker_epoch)


def test_who_lacks_the_last_committed_record_does_not_hold_what_is_committed() -> None:
    ledger = with_two_committed()

    assert ledger.is_held_by(replica(2, (0, 7), (0, 8), (0, 9)), 2)
    assert not ledger.is_held_by(replica(2, (0, 7), (0, 8)), 1)
    assert not ledger.is_held_by(replica(2, (0, 7), (1, 8)), 2)


def test_what_an_unclean_leader_has_not_is_lost_from_its_epoch_on() -> None:
    ledger = with_two_committed()
    ledger.forgive(replica(2, (0, 7), (1, 9)), 2, 3)

    assert ledger.committed == [(0, 7)]
    assert ledger.lost == {8}
    assert not ledger.raise_to(replica(1, (0, 7), (0, 8), leads=True, leader_epoch=2), 2)
    assert ledger.committed == [(0, 7)]
