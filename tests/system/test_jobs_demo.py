"""The demo of `make jobs` in its short form: every job is done once, it is drawn, and nothing is left running."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_every_job_is_done_once_although_workers_are_killed_and_jobs_are_bad(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.jobs", "--jobs", "40", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "each of 40 jobs was done once; 4 of them by way of a dead letter" in done.stdout
    assert (tmp_path / "jobs.png").read_bytes().startswith(b"\x89PNG")
    left = [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(each.info["cmdline"] or ())]
    assert left == []
