"""Whole brokers and clients through faults: the same seed gives the same run, and bugs that are planted are found."""

from typing import Final

import pytest

from ottla.simulation.whole.planted_bugs import planted
from ottla.simulation.whole.running import run

FAULTS_S: Final = 4.0
"""Shorter than in other schedules: this is one test of many."""

SEEDS_MAX: Final = 60
"""Ten times as many as it takes to find a planted bug, with the faults that show it."""


def test_the_same_seed_gives_the_same_run_of_brokers_and_clients_through_faults() -> None:
    first, again = run(2, FAULTS_S), run(2, FAULTS_S)

    assert first.trace == again.trace
    assert first.trace_hash == again.trace_hash
    assert first.acknowledged
    assert any("***" in line for line in first.trace)


@pytest.mark.parametrize(
    ("bug", "kinds"),
    [
        ("ack-before-sync", ("power cut of all",)),
        pytest.param("ack-before-isr", ("pause", "slow links"), marks=pytest.mark.long),
    ],
)
def test_records_that_a_planted_bug_loses_are_missed(bug: str, kinds: tuple[str, ...]) -> None:
    for seed in range(SEEDS_MAX):
        with planted(bug):
            violations = run(seed, FAULTS_S, kinds=kinds).violations
        if any(violation.startswith(("lost:", "inconsistent offset:")) for violation in violations):
            return
    pytest.fail(f"{bug} is not found in {SEEDS_MAX} schedules")
