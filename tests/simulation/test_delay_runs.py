"""A delay topic keeps what it promises, through faults of every kind; planted mistakes are found."""

import pytest

from ottla.runtime.clock import SystemClock
from ottla.simulation.delays.delay_run import run
from ottla.simulation.delays.delay_schedule import FAULTS, WRITE, schedule_of
from ottla.simulation.delays.planted_bugs import PLANTED, planted
from ottla.simulation.shrinking import Limits, shrink

SEEDS_MAX = 150
"""Three times as many as the mistake needs that is hardest to find; most need one to four."""

RARE = (
    "the progress is read before fencing",
    "the progress outlives a cut",
    "delivers before the log is read",
    "a schedule forgets its place",
)
"""These need ten to fifty seeds."""


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = run(schedule_of(3)), run(schedule_of(3))

    assert first.trace == again.trace
    assert first.deliveries
    assert any("***" in line for line in first.trace)


def test_schedules_have_every_kind_of_step() -> None:
    assert {step.kind for seed in range(60) for step in schedule_of(seed).steps} == {WRITE, *FAULTS}


def test_short_runs_break_no_rule() -> None:
    assert {seed: result.violations for seed in range(15) if (result := run(schedule_of(seed))).violations} == {}


def test_a_run_that_fails_is_made_shorter() -> None:
    with planted("delivered early"):
        failing = run(schedule_of(0))
        shrunk = shrink(failing, run, Limits(SystemClock(), runs_max=12)).result

    assert shrunk.rules[0] == failing.rules[0] == "early"
    assert len(shrunk.schedule.steps) < len(failing.schedule.steps)


@pytest.mark.parametrize("bug", [pytest.param(bug, marks=[pytest.mark.long] * (bug in RARE)) for bug in PLANTED])
def test_a_planted_mistake_is_found(bug: str) -> None:
    with planted(bug):
        found = next((seed for seed in range(SEEDS_MAX) if run(schedule_of(seed)).violations), None)

    assert found is not None, f"{bug} is not found in {SEEDS_MAX} runs"
    assert not run(schedule_of(found)).violations, "it is the mistake that breaks the rule"


@pytest.mark.long
def test_many_runs_break_no_rule() -> None:
    assert {seed: result.violations for seed in range(15, 500) if (result := run(schedule_of(seed))).violations} == {}
