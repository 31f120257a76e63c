"""Failing schedules are made shorter."""

from functools import partial

from ottla.simulation.planted_bugs import TWELVE
from ottla.simulation.running import run
from ottla.simulation.schedule import STEP_BYTES, schedule_of
from ottla.simulation.shrinking import minimal, shrink


def test_what_is_left_fails_and_nothing_of_it_can_be_left_out() -> None:
    steps = [bytes([number]) for number in range(40)]

    def fails(some: list[bytes]) -> bool:
        return {b"\x03", b"\x11", b"\x26"} <= set(some)

    assert minimal(steps, fails) == [b"\x03", b"\x11", b"\x26"]


def test_a_failure_that_needs_no_step_at_all_is_left_with_none() -> None:
    assert minimal([b"a", b"b", b"c"], lambda _: True) == []


def test_a_schedule_breaks_the_same_rule_with_a_fraction_of_its_steps() -> None:
    bug = TWELVE[0]
    seed = next(seed for seed in range(300) if run(schedule_of(seed), bug.decisions).violation is not None)
    schedule = schedule_of(seed)
    with_bug = partial(run, decisions=bug.decisions)
    [rule] = with_bug(schedule).rules

    shortest = shrink(with_bug(schedule), with_bug).result.schedule

    assert run(shortest, bug.decisions).violation.rule == rule
    assert len(shortest) < len(schedule) / 4
    for at in range(0, len(shortest.steps), STEP_BYTES):
        steps = shortest.steps[:at] + shortest.steps[at + STEP_BYTES :]
        violation = run(type(shortest)(seed, shortest.swarm, steps), bug.decisions).violation
        assert violation is None or violation.rule != rule
