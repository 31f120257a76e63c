"""Two drivers of one pipeline: the second is refused, one that seems dead is followed, and fenced when it was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from ottla.client.blocking import BlockingClient
from ottla.pipelines.runner.checkpoint import CheckpointError, CheckpointLock, directory_of, name_of
from ottla.pipelines.runner.checkpoint_lease import CheckpointLeases, Driver, FencedError
from ottla.pipelines.runner.lease_log import LeaseLog
from ottla.pipelines.spec import read
from ottla.pipelines.tables import ParquetTable
from ottla.runtime.clock import SystemClock
from tests.system.test_pipelines import Broker

ROWS = 600
_names = count()

PIPELINE = """
name = "NAME"

[sources.events]
topics = ["NAME.in"]
format = "json"
schema = "n int"
max_records = 50

[[sinks]]
name = "out"
topic = "NAME.out"

[[sinks]]
name = "lake"
parquet = "lake"

[dead_letters]
topic = "NAME.dead"
"""


@contextmanager
def leases_of(bootstrap: str, host: str, lease_ms: int = 60_000) -> Iterator[CheckpointLeases]:
    """The leases of a driver on another machine."""
    driver = Driver(f"driver on {host}", host, 4711, f"machine of {host}", 0)
    with (
        BlockingClient(bootstrap) as client,
        CheckpointLeases(LeaseLog(client, SystemClock()), driver, SystemClock(), lease_ms=lease_ms) as leases,
    ):
        yield leases


def test_brokers_tell_two_drivers_apart(broker):
    name, told = f"checkpoint {next(_names)}", []
    with leases_of(broker.bootstrap, "a") as first, leases_of(broker.bootstrap, "b") as second:
        first.take({name: "/shared/c"}, told.append)

        def heard(line: str) -> None:
            told.append(line)
            first.confirm(name)

        with pytest.raises(CheckpointError, match=r"/shared/c is in use by another driver \(process 4711 on a, since"):
            second.take({name: "/shared/c"}, heard)
        assert len(told) == 1
        with leases_of(broker.bootstrap, "c", lease_ms=0) as third:
            third.take({name: "/shared/c"}, told.append)
            with pytest.raises(FencedError, match=r"another driver \(process 4711 on c"):
                first.confirm(name)
            third.confirm(name)
    with leases_of(broker.bootstrap, "d") as fourth:
        fourth.take({name: "/shared/c"}, told.append)
        fourth.confirm(name)
    assert len(told) == 2


@pytest.fixture
def flights(broker, tmp_path) -> tuple[Path, Broker, str]:
    """A pipeline file, its topics filled."""
    name = f"drivers{next(_names)}"
    there = Broker(broker.bootstrap)
    there.create(f"{name}.in", f"{name}.out", f"{name}.dead")
    there.produce(f"{name}.in", [b"bad" if n % 10 == 0 else json.dumps({"n": n}).encode() for n in range(ROWS)])
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE.replace("NAME", name))
    return file, there, name


def command(file: Path, there: Broker, *more: str) -> list[str]:
    given = ["--json", "--memory", "512m", "-b", there.bootstrap, *more]
    return [sys.executable, "-m", "ottla.cli", "pipeline", "run", str(file), *given]


@pytest.mark.long
def test_a_driver_is_refused_while_one_of_another_machine_lives(flights):
    file, there, _ = flights
    spec = read(file)
    directory = directory_of(spec, spec.sinks[1])
    Path(directory).mkdir(parents=True)
    with leases_of(there.bootstrap, "elsewhere") as held:
        held.take({name_of(directory): directory}, lambda line: None)
        held.keep(lambda name, error: None)
        run = subprocess.run(command(file, there), capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "process 4711 on elsewhere, since 1970-01-01" in run.stderr
    assert run.stderr.count("\n") == 1
    [waiting] = [json.loads(line) for line in run.stdout.splitlines()]
    assert waiting["event"] == "waiting"


@pytest.mark.long
def test_a_checkpoint_is_not_moved_while_a_driver_of_another_machine_uses_it(flights):
    file, there, name = flights
    spec = read(file)
    directory = Path(directory_of(spec, spec.sinks[0]))
    for part, text in (("offsets", f'v1\n{{}}\n{{"{name}.in":{{"0":7,"1":0}}}}'), ("commits", "v1\n{}")):
        (directory / part).mkdir(parents=True)
        (directory / part / "0").write_text(text)
    words = [sys.executable, "-m", "ottla.cli", "pipeline", "reset", str(file), "--sink", "out", "--to", "earliest"]
    words += ["--execute", "-b", there.bootstrap]
    with leases_of(there.bootstrap, "elsewhere") as held:
        held.take({name_of(str(directory)): str(directory)}, lambda line: None)
        held.keep(lambda name, error: None)
        refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "in use by another driver (process 4711 on elsewhere" in refused.stderr
    moved = subprocess.run(words, capture_output=True, text=True, check=False)
    assert moved.returncode == 0, moved.stderr
    assert '"0":0' in (directory / "offsets" / "0").read_text()


@pytest.mark.long
def test_a_driver_of_this_machine_is_named_by_the_lock_on_the_file(flights):
    file, there, _ = flights
    spec = read(file)
    from ottla.pipelines.runner.checkpoint import owner_of
    from ottla.pipelines.spec.lineage import through

    sink = spec.sinks[0]
    with CheckpointLock(Path(directory_of(spec, sink)), owner_of(spec, sink, through(spec, sink.name))):
        run = subprocess.run(command(file, there), capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"in use by another driver (process {os.getpid()} on" in run.stderr


@pytest.mark.long
def test_a_driver_that_was_paused_and_followed_stops_when_it_comes_back_and_every_row_is_there_once(flights, tmp_path):
    file, there, name = flights
    paused = subprocess.Popen(command(file, there), stdout=subprocess.PIPE, text=True)
    assert paused.stdout is not None
    seen = 0
    while seen < 4:
        seen += json.loads(paused.stdout.readline())["event"] == "batch"
    everybody = [psutil.Process(paused.pid), *psutil.Process(paused.pid).children(recursive=True)]
    try:
        for each in everybody:
            each.send_signal(signal.SIGSTOP)
        # On another machine there would be no lock on the file; here it goes with the file.
        for lock in tmp_path.glob("checkpoints/*/*/ottla-pipeline.lock"):
            lock.unlink()
        second = subprocess.run(command(file, there, "--until-caught-up"), capture_output=True, text=True, check=False)
        assert second.returncode == 0, second.stderr
    finally:
        for each in everybody:
            if each.is_running():
                each.send_signal(signal.SIGCONT)
    rest, _ = paused.communicate()
    assert paused.returncode == 1
    ends = [event for event in map(json.loads, rest.splitlines()) if event["event"] == "failed"]
    assert {event["query"] for event in ends} == {f"{name}.out", f"{name}.lake"}
    assert all("another driver" in event["reason"] for event in ends), ends
    good = [n for n in range(ROWS) if n % 10]
    assert sorted(json.loads(value)["n"] for value in there.values(f"{name}.out")) == good
    assert len(there.consume(f"{name}.dead")) == ROWS - len(good)
    files = ParquetTable.open(str(tmp_path / "lake")).files()
    assert sorted(row["n"] for each in files for row in pq.read_table(each).to_pylist()) == good
