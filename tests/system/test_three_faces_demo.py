"""`python -m examples.three_faces`: every job goes from each worker to each, and is done once."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_each_job_is_done_once_whoever_had_it_before(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.three_faces", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "each job was done once, whoever had it before"
