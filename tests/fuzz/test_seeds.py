"""Everything the fuzzers start from, and everything they once found, holds."""

from collections.abc import Iterator

import pytest

from tests.fuzz import make_seeds
from tests.fuzz.targets import NAMES, requests, target
from tools.fuzz import KERNEL_TARGETS, PYTHON_TARGETS

KERNEL_ONLY = set(KERNEL_TARGETS) - set(NAMES)
"""Targets without a form in Python; `cargo test` replays them."""


@pytest.fixture(scope="module", autouse=True)
def _no_broker_is_left() -> Iterator[None]:
    yield
    requests.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_seed_holds(name: str):
    check = target(name)
    seeds = sorted((make_seeds.SEEDS / name).iterdir())
    assert seeds
    for seed in seeds:
        try:
            check(seed.read_bytes())
        except Exception as error:
            error.add_note(f"the seed is {seed}")
            raise


def test_every_target_is_fuzzed_and_has_seeds():
    assert set(NAMES) | KERNEL_ONLY == {*KERNEL_TARGETS, *PYTHON_TARGETS}
    assert {path.name for path in make_seeds.SEEDS.iterdir()} == {*KERNEL_TARGETS, *PYTHON_TARGETS}
