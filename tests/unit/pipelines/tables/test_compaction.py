"""Which files become one."""

from __future__ import annotations

import pytest

from ottla.pipelines.tables.compaction import FILES_MAX, plan
from ottla.pipelines.tables.manifest import DataFile


def test_small_files_of_one_partition_become_files_of_about_the_target():
    files = [DataFile(f"day={number % 2}/{number:03}", rows=1, bytes=30) for number in range(20)]
    groups = plan(files, target_bytes=100)
    assert sorted(file.path for group in groups for file in group) == sorted(
        file.path for file in files if file.path not in {"day=0/018", "day=1/019"}
    )
    assert all(len({file.path[:5] for file in group}) == 1 for group in groups)
    assert all(sum(file.bytes for file in group) <= 100 for group in groups)


def test_what_is_large_enough_or_alone_stays():
    assert plan([DataFile("a", 1, 75), DataFile("b", 1, 80), DataFile("day=1/c", 1, 5)], target_bytes=100) == []


def test_one_compaction_takes_up_so_many_files_at_most():
    files = [DataFile(f"{number:06}", 1, 1) for number in range(FILES_MAX + 5)]
    assert sum(map(len, plan(files, target_bytes=1 << 30))) == FILES_MAX


def test_a_target_of_nothing_is_refused():
    with pytest.raises(ValueError, match="0 bytes"):
        plan([], 0)
