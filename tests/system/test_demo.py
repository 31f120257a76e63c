"""The demo that `make run` runs, in its short form, as a user starts and stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from examples.flights.check import same_events, same_windows
from examples.flights.events import flight_events
from examples.flights.expected import expected_delays, expected_events

ROOT = Path(__file__).resolve().parents[2]
SHORT_DAYS = 14


def demo(out: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "examples.flights", "--short", "--out", str(out), *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def left_running(out: Path) -> list[str]:
    """The processes that were started for this run: its directory is in their command line or their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            marks = [*process.cmdline(), process.environ().get("OTTLA_DEMO_MARK", "")]
        except psutil.Error:
            continue
        if any(str(out) in mark for mark in marks) and process.pid != os.getpid():
            found.append(" ".join(process.cmdline()))
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run that came to its end: where it wrote, and what it said."""
    out = tmp_path_factory.mktemp("demo") / "out"
    process = demo(out, OTTLA_DEMO_MARK=str(out))
    said, _ = process.communicate()
    assert process.returncode == 0, said
    yield out, said
    assert left_running(out) == []


def test_the_result_is_right_and_said_to_be(finished):
    out, said = finished
    report = json.loads((out / "report.json").read_text())
    assert report["differences"] == []
    assert "everything as computed independently, and the audit balances" in said
    assert (report["flights"], report["events"], report["malformed"], report["told_twice"]) == (
        12_208,
        36_419,
        350,
        500,
    )
    assert sum(report["dead_letters"].values()) == 350
    records = 36_419 + 350 + 500 + 1
    assert report["records_read"] == {"flights.delays": records, "flights.lake": records}
    assert report["table_rows"] == 36_419 + 1


def test_it_says_what_became_of_the_broker_that_it_killed(finished):
    out, said = finished
    report = json.loads((out / "report.json").read_text())
    assert f"away for {report['broker_away_seconds']:.1f} s" in said
    assert report["next_acknowledgement_seconds"] > report["broker_away_seconds"]
    assert report["next_batch_seconds"].keys() == {"flights.delays", "flights.lake"}
    for query in report["next_batch_seconds"]:
        what = "failed" if query in report["started_again"] else "waited for the broker"
        assert f"{query} {what}" in said


def test_the_files_it_names_are_there_and_hold_what_it_says(finished):
    out, said = finished
    report = json.loads((out / "report.json").read_text())
    for paths in report["files"].values():
        assert paths in said
        assert all(Path(path).exists() for path in paths.split(", "))
    assert pq.read_table(out / "lake").num_rows == report["table_rows"]
    letters = [json.loads(line) for line in (out / "dead-letters.jsonl").read_text().splitlines()]
    assert len(letters) == 350
    assert letters[0].keys() == {"step", "reason", "topic", "partition", "offset", "timestamp_ms", "key", "value"}
    for picture in ("delays.png", "run.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    assert (out / "pipeline.svg").read_text().startswith("<svg")


def test_a_table_that_is_wrong_anywhere_is_told_window_by_window():
    right = expected_delays(1)
    assert same_windows(right.sample(frac=1, random_state=1), right, "the table") == []
    wrong = right.copy()
    wrong.loc[3, "departed"] += 1
    [difference] = same_windows(wrong, right, "the table")
    assert "the window of AA at 2013-01-01 11:00 UTC: departed is" in difference
    assert same_windows(right.drop(index=5), right, "the table") == [
        "the table lacks the window of DL at 2013-01-01 11:00 UTC"
    ]
    doubled = right.iloc[[*range(len(right)), 0]]
    assert same_windows(doubled, right, "the table") == [
        "the table has the window of AA at 2013-01-01 10:00 UTC more than once"
    ]


def test_an_event_that_is_missing_doubled_or_changed_is_told():
    right = expected_events(flight_events(1).values)
    count = right.num_rows
    assert same_events(right.take([*range(count - 1, -1, -1)]), right, "the table") == []
    [missing] = same_events(right.slice(1), right, "the table")
    assert missing.startswith("the table lacks scheduled ")
    doubled = right.take([0, *range(count)])
    [twice] = same_events(doubled, right, "the table")
    assert twice.endswith("once too often, or with another value")
    delays = right["delay_min"].to_pylist()
    late = right.set_column(
        right.column_names.index("delay_min"), "delay_min", [[each and each + 1 for each in delays]]
    )
    assert same_events(late, right, "the table")[0].startswith("the table lacks ")


@pytest.mark.parametrize("step", ["flights to events", pytest.param("kill -9 of the broker", marks=pytest.mark.long)])
def test_ctrl_c_leaves_nothing_running(step, tmp_path):
    out = tmp_path / "out"
    # A terminal that is not one still gets the bars, so that the step can be seen.
    process = demo(out, OTTLA_DEMO_MARK=str(out), FORCE_COLOR="1")
    assert process.stdout is not None
    seen = ""
    while f" {step} " not in seen:
        got = process.stdout.read(1)
        assert got, seen
        seen += got
    os.killpg(process.pid, signal.SIGINT)
    process.stdout.read()
    assert process.wait() == 130
    assert left_running(out) == []


def test_a_port_that_is_taken_is_said_in_one_line(broker, tmp_path):
    said, _ = (process := demo(tmp_path / "out", "--port", str(broker.port))).communicate()
    assert process.returncode == 1
    assert f"cannot listen at 127.0.0.1:{broker.port}" in said.splitlines()[-1]


def test_a_missing_java_is_said_in_one_line(tmp_path):
    said, _ = (process := demo(tmp_path / "out", JAVA_HOME=str(tmp_path))).communicate()
    assert process.returncode == 1
    assert "Spark needs Java, and there is no" in said
    assert "install Java 17" in said.splitlines()[-1]
