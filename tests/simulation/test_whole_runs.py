"""Whole brokers and clients through faults: the same seed gives the same run, and nothing is broken."""

from ottla.simulation.whole.running import run

FAULTS_S = 4.0
"""Shorter than a schedule is elsewhere: this is one test of many."""


def test_the_same_seed_gives_the_same_run_of_brokers_and_clients_through_faults() -> None:
    first, again = run(2, FAULTS_S), run(2, FAULTS_S)

    assert first.trace == again.trace
    assert first.trace_hash == again.trace_hash
    assert first.violations == ()
    assert first.acknowledged
    assert first.copies
    assert any("***" in line for line in first.trace)
