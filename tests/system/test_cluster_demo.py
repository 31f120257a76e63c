"""The demo of `make cluster` in its short form: it says what clients saw, draws it, and leaves nothing running."""

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
SAID = re.compile(r"broker \d killed: \d+ ms until the next acknowledged write, .* 0 lost, 0 doubled")


@pytest.mark.long
def test_a_killed_leader_costs_no_acknowledged_record(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.failover", "--embedded", "--seconds", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert SAID.search(done.stdout), done.stdout
    assert (tmp_path / "failover.png").read_bytes().startswith(b"\x89PNG")
    left = [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(each.info["cmdline"] or ())]
    assert left == []
