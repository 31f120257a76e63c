"""Everything the fuzzers start from, and everything they once found, holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import seed_files
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
    seeds = seed_files.read(name)
    assert seeds
    for seed, data in seeds.items():
        try:
            check(data)
        except Exception as error:
            error.add_note(f"the seed is {seed} of {name}")
            raise


def test_every_target_is_fuzzed_and_has_seeds():
    assert set(NAMES) | KERNEL_ONLY == {*KERNEL_TARGETS, *PYTHON_TARGETS}
    assert seed_files.targets() == {*KERNEL_TARGETS, *PYTHON_TARGETS}


def test_any_bytes_come_back_from_a_file_of_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(seed_files, "DIRECTORY", tmp_path)
    seeds = {"all": bytes(range(256)), "escapes": b"\\x41 \\\\ \\", "empty": b"", "lines": b"a\nb\r\nc "}
    seed_files.write("target", seeds)
    assert seed_files.read("target") == seeds
    assert (tmp_path / "target.txt").read_text().count("\n") == len(seeds)
    seed_files.unpack("target", tmp_path / "unpacked")
    assert {path.name: path.read_bytes() for path in (tmp_path / "unpacked").iterdir()} == seeds
