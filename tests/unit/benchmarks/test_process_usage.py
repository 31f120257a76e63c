"""What /proc says is read as proc(5) has it."""

import os
from pathlib import Path

import pytest

from benchmarks.beside_kafka.process_usage import (
    CpuSeconds,
    busy_seconds,
    cpu_from_stat,
    cpu_seconds,
    kilobytes_of,
    peak_mb,
    pss_mb,
    texts,
)

STAT = "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 100 200 3 4 1500 250 30 7 20 0 12 0 99 1 2 3"


def test_user_and_system_include_children_that_ended():
    assert cpu_from_stat(STAT, 100) == CpuSeconds(15.3, 2.57)


def test_the_machine_is_busy_with_all_but_idling_and_waiting_for_disks():
    assert busy_seconds("cpu  100 20 300 4000 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n", 100) == 4.41


def test_cpu_times_are_subtracted_and_added_by_kind():
    later, earlier = CpuSeconds(15.0, 2.5), CpuSeconds(5.0, 0.5)
    assert later - earlier == CpuSeconds(10.0, 2.0)
    assert earlier + earlier == CpuSeconds(10.0, 1.0)
    assert later.total == 17.5


def test_a_line_is_found_by_its_whole_name():
    assert kilobytes_of("SwapPss:  1 kB\nPss_Anon:  7 kB\nPss:     1234 kB\n", "Pss") == 1234
    with pytest.raises(ValueError, match="no Pss line"):
        kilobytes_of("Rss: 1 kB\n", "Pss")


def test_a_child_that_ended_meanwhile_is_left_out_and_the_process_itself_is_not(tmp_path: Path):
    for pid in (1, 3):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"of {pid}")
    assert list(texts([1, 2, 3], "stat", tmp_path)) == ["of 1", "of 3"]
    with pytest.raises(FileNotFoundError):
        list(texts([2, 1], "stat", tmp_path))


def test_this_process_has_used_something():
    assert cpu_seconds(os.getpid()).total > 0
    assert pss_mb(os.getpid()) > 1
    assert peak_mb(os.getpid()) > 1
