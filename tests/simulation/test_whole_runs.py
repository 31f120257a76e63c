"""Whole brokers and clients through faults: the same seed gives the same run, and bugs that are planted are found."""

from collections.abc import Iterable
from typing import Final

import pytest
from msgspec.structs import replace

from ottla.runtime.clock import SystemClock
from ottla.simulation.shrinking import Limits, shrink
from ottla.simulation.whole.planted_bugs import planted
from ottla.simulation.whole.running import SHARES_EVERY, WEIGHTS, WholeResult, run, schedule_of
from ottla.simulation.whole.schedule import Schedule, Step
from tests.simulation.fixed_hashes import with_fixed_hashes

FAULTS_S: Final = 4.0
"""Shorter than in other schedules: this is one test of many."""

SEEDS_MAX: Final = 60
"""Ten times as many as it takes to find a planted bug, with the faults that show it."""


LOSSES: Final = ("lost", "unread", "inconsistent offset")


def _first_failing(bug: str, schedules: Iterable[Schedule]) -> WholeResult:
    tried = 0
    for schedule in schedules:
        tried += 1
        result = run(schedule)
        if result.rules and result.rules[0] in LOSSES:
            return result
    pytest.fail(f"{bug} is not found in {tried} schedules")


def test_the_same_seed_gives_the_same_run_of_brokers_and_clients_through_faults() -> None:
    first, again = run(schedule_of(2, FAULTS_S)), run(schedule_of(2, FAULTS_S))

    assert first.trace == again.trace
    assert first.trace_hash == again.trace_hash
    assert first.acknowledged
    assert any("***" in line for line in first.trace)


def test_a_step_that_is_left_out_leaves_the_others_as_they_were() -> None:
    schedule = schedule_of(7)
    shorter = replace(schedule, steps=schedule.steps[1:])

    assert [step.rng.randbelow(1 << 30) for step in shorter.steps] == [
        step.rng.randbelow(1 << 30) for step in schedule.steps[1:]
    ]


def test_schedules_have_every_kind_of_step() -> None:
    assert {kind for seed in range(100) for kind in schedule_of(seed).kinds} == set(WEIGHTS)


@with_fixed_hashes
def test_what_a_planted_bug_loses_is_missed_and_is_lost_in_a_shorter_schedule_too() -> None:
    steps = (Step(0.8, "power cut of all", 1), Step(2.8, "reset", 2), Step(2.9, "elect", 3))
    with planted("ack-before-sync"):
        failing = _first_failing("ack-before-sync", (Schedule(seed, steps, 3.0) for seed in range(SEEDS_MAX)))
        shrunk = shrink(failing, run, Limits(SystemClock(), runs_max=len(steps))).result

    assert shrunk.schedule.kinds == ["power cut of all"], "what comes after it loses nothing"
    assert shrunk.rules[0] == failing.rules[0]
    assert not run(shrunk.schedule).violations, "it is the bug that breaks the rule"


def test_no_more_schedules_are_tried_than_may_be() -> None:
    failing = WholeResult(schedule_of(1), ("lost: 1",), (), "", 1.0, 1, 1, 1)

    def fails(schedule: Schedule) -> WholeResult:
        return replace(failing, schedule=schedule)

    assert shrink(failing, fails, Limits(SystemClock())).result.schedule.steps == ()
    assert shrink(failing, fails, Limits(SystemClock(), runs_max=3)).runs == 3
    assert shrink(failing, fails, Limits(SystemClock(), seconds_max=0)).result is failing


@with_fixed_hashes
def test_brokers_and_clients_come_through_short_schedules() -> None:
    assert not [result.violations for result in (run(schedule_of(seed, FAULTS_S)) for seed in (3, 4)) if result.rules]


@pytest.mark.long
@pytest.mark.parametrize(
    ("bug", "kinds"),
    [
        ("ack-before-isr", ("pause", "slow links")),
        ("no-epoch-check", ("kill", "pause", "slow links")),
        ("truncate-to-hw", ("kill", "kill all", "pause")),
    ],
)
@with_fixed_hashes
def test_schedules_that_break_a_rule_with_other_planted_bugs_break_none_without(
    bug: str, kinds: tuple[str, ...]
) -> None:
    schedules = [schedule_of(seed, 4 * FAULTS_S, kinds) for seed in range(SEEDS_MAX)]
    with planted(bug):
        found = next(schedule for schedule in schedules if run(schedule).violations)

    assert not run(found).violations


@pytest.mark.long
@pytest.mark.parametrize(
    ("bug", "kinds"),
    [("share-not-written", ("kill", "kill all")), ("share-no-deadline", ()), ("share-past-holder", ())],
)
@with_fixed_hashes
def test_planted_bugs_of_share_groups_are_found_in_seeds_that_have_one(bug: str, kinds: tuple[str, ...]) -> None:
    seeds = range(SHARES_EVERY - 1, SEEDS_MAX, SHARES_EVERY)
    schedules = [
        schedule_of(seed, 4 * FAULTS_S, kinds) if kinds else Schedule(seed, (), 5 * FAULTS_S) for seed in seeds
    ]
    with planted(bug):
        found = next(schedule for schedule in schedules if run(schedule).violations)

    assert not run(found).violations
