"""A cluster is lost, its topics are restored from an archive, and a pipeline with open windows goes on from its
checkpoint: what it writes then is what it would have written without the loss.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.system.pipeline_driver import Driver
from tests.system.test_archive import done
from tests.system.test_pipelines import Broker

PIPELINE = """
name = "sums"
[sources.events]
topics = ["events"]
format = "json"
schema = "k string, n int, at timestamp"
[[steps]]
name = "hourly"
[steps.window]
time = "at"
every = "1 hour"
late = "1 hour"
by = ["k"]
[steps.window.aggregate]
total = "sum(n)"
[[sinks]]
name = "out"
topic = "sums"
key = "k"
"""


def event(k: str, n: int, at: str) -> bytes:
    return json.dumps({"k": k, "n": n, "at": f"2026-01-01T{at}:00Z"}).encode()


def caught_up(file: Path, bootstrap: str) -> None:
    with Driver(file, bootstrap, "--until-caught-up") as driver:
        code = driver.wait()
        # The first line is there before Spark is.
        assert (code, driver.events[0]) == (0, {"event": "starting", "query": "sums"}), driver.stderr


def totals(there: Broker) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for value in there.values("sums"):
        row = json.loads(value)
        found.setdefault((row["k"], row["window_start"][11:13]), []).append(row["total"])
    return found


@pytest.mark.long
def test_a_pipeline_goes_on_over_the_loss_of_its_cluster(tmp_path: Path):
    file, archive, restored = tmp_path / "sums.toml", tmp_path / "archive", tmp_path / "restored"
    file.write_text(PIPELINE)
    with BrokerProcess(tmp_path / "lost") as broker:
        there = Broker(broker.bootstrap)
        there.create("events", "sums")
        first = [event("a", 1, "10:10"), event("a", 2, "10:20"), event("b", 4, "10:30"), event("a", 8, "11:10")]
        there.produce("events", first)
        caught_up(file, broker.bootstrap)
        assert totals(there) == {}, "all windows are open still"
        done("archive", "run", "--bootstrap", broker.bootstrap, archive)
    shutil.rmtree(tmp_path / "lost")

    checkpoints = tmp_path / "checkpoints"
    rows = done("archive", "restore", archive, "--data", restored, "--checkpoints", checkpoints, "--keep")
    assert {each["topic"]: each["beyond"] for each in rows}["events"] == 0
    with BrokerProcess(restored) as broker:
        there = Broker(broker.bootstrap)
        there.produce("events", [event("a", 16, "10:40"), event("c", 32, "13:30"), event("c", 64, "20:00")])
        caught_up(file, broker.bootstrap)
        assert totals(there) == {("a", "10"): [1 + 2 + 16], ("b", "10"): [4], ("a", "11"): [8], ("c", "13"): [32]}
        command = [sys.executable, "-m", "ottla.cli", "pipeline", "lag", str(file), "-b", broker.bootstrap, "--json"]
        lag = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert {each["lag"] for each in lag} == {0}
