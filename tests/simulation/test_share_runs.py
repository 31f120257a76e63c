"""A share partition keeps what it promises, through failing writes and new leaders; planted mistakes are found."""

import pytest

from ottla.simulation.shares.planted_bugs import PLANTED, planted
from ottla.simulation.shares.share_run import run

SEEDS_MAX = 300
"""Three times as many as the mistake needs that is hardest to find; most need one."""


def test_the_same_seed_gives_the_same_run() -> None:
    with planted("a leader of before is not fenced"):
        first, again = run(0), run(0)

    assert first
    assert first == again


def test_short_runs_break_no_rule() -> None:
    assert {seed: wrong for seed in range(40) if (wrong := run(seed))} == {}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_mistake_is_found(bug: str) -> None:
    with planted(bug):
        found = next((seed for seed in range(SEEDS_MAX) if run(seed)), None)

    assert found is not None, f"{bug} is not found in {SEEDS_MAX} runs"
    assert not run(found), "it is the mistake that breaks the rule"


@pytest.mark.long
def test_many_runs_break_no_rule() -> None:
    assert {seed: wrong for seed in range(40, 5_000) if (wrong := run(seed))} == {}
