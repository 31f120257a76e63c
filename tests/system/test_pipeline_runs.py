"""Pipelines run by the command line: stopped, killed, without their brokers, and what they say then."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ottla.pipelines.runner.checkpoint import batches
from tests.broker_process import BrokerProcess
from tests.system.numbers_pipeline import Numbers
from tests.system.pipeline_driver import Driver, command

pytestmark = pytest.mark.long

IMPATIENT = 'options = { "kafka.default.api.timeout.ms" = "3000", "kafka.request.timeout.ms" = "2000" }'


def run(numbers: Numbers, *arguments: str) -> Driver:
    return Driver(numbers.file, numbers.there.bootstrap, *arguments)


def run_to_the_end(numbers: Numbers) -> None:
    numbers.write(AT_ONCE="1_000_000")
    with run(numbers, "--until-caught-up") as driver:
        assert driver.wait() == 0, driver.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_pipeline_between_two_micro_batches(broker: BrokerProcess, tmp_path: Path, number: int) -> None:
    numbers = Numbers(tmp_path, broker.bootstrap, at_once=50)
    numbers.produce(range(5_000))
    with run(numbers) as driver:
        driver.until_rows(150)
        lag = json.loads(command("lag", numbers.file, broker.bootstrap, "--json").stdout)
        assert {(each["sink"], each["partition"], each["end"]) for each in lag} == {
            (sink, *place) for sink in ("out", "lake") for place in ((0, 5_000), (1, 0))
        }
        assert all(each["position"] + each["lag"] == each["end"] for each in lag)
        driver.send(number)
        assert driver.wait() == 128 + number
        assert driver.stderr == ""
    queries = {f"{numbers.name}.out", f"{numbers.name}.lake"}
    for kind in ("stopping", "stopped"):
        assert {event["query"] for event in driver.events if event["event"] == kind} == queries
    assert {event["reason"] for event in driver.events if event["event"] == "stopped"} == {None}
    for sink in ("out", "lake"):
        assert [each.done for each in batches(numbers.checkpoint(sink))] == [True, True]
    assert numbers.transactions() == {"CompleteCommit"}
    run_to_the_end(numbers)
    numbers.require_each_once(range(5_000))


GATE = """
from pathlib import Path

HERE = Path(__file__).parent


def held(rows):
    directory = str(HERE)

    def wait(batches):
        import time
        from pathlib import Path

        Path(directory, "entered").touch()
        while not Path(directory, "open").exists():
            time.sleep(0.05)
        yield from batches

    return rows.mapInArrow(wait, rows.schema)
"""


def test_a_second_signal_ends_a_micro_batch_that_takes_for_ever(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(GATE)
    step = '[[steps]]\nname = "held"\npython = "gate:held"'
    numbers = Numbers(tmp_path, broker.bootstrap, step=step)
    numbers.produce(range(50))
    with run(numbers) as driver:
        while not (tmp_path / "entered").exists():
            assert driver.is_running, driver.stderr
        driver.send(signal.SIGINT)
        driver.until_event("stopping")
        driver.send(signal.SIGINT)
        assert driver.wait() == 130
        assert "Traceback" not in driver.stderr
    (tmp_path / "open").touch()
    run_to_the_end(numbers)
    numbers.require_each_once(range(50))


def test_brokers_that_are_away_are_waited_for(new_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = new_broker().start()
    numbers = Numbers(tmp_path, broker.bootstrap)
    numbers.write(SOURCE=IMPATIENT, OUT=IMPATIENT)
    numbers.produce(range(500))
    queries = {f"{numbers.name}.out", f"{numbers.name}.lake"}
    with run(numbers) as driver:
        driver.until_rows(500)
        broker.kill()
        waiting = {driver.until_event("waiting")["query"] for _ in queries}
        broker.start()
        returned = {driver.until_event("returned")["query"] for _ in queries}
        numbers.produce(range(500, 1000))
        driver.until_rows(500)
        driver.send(signal.SIGTERM)
        assert driver.wait() == 143
        assert driver.stderr == ""
    assert waiting == returned == queries
    assert not [event for event in driver.events if event["event"] in ("restart", "failed")]
    run_to_the_end(numbers)
    numbers.require_each_once(range(1000))


KILL = """
import os
import signal
from pathlib import Path

from ottla.pipelines.tables import DeltaSink

LEFT = Path(__file__).with_name("left")


def copied(rows):
    return rows


def kill_once(when, batch_id):
    if LEFT.exists() and LEFT.read_text() == f"{when} {batch_id}":
        LEFT.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def killed(write):
    def killing(self, frame, batch_id):
        kill_once("before", batch_id)
        done = write(self, frame, batch_id)
        kill_once("after", batch_id)
        return done

    return killing


DeltaSink.write = killed(DeltaSink.write)
"""


def test_a_driver_killed_before_and_after_the_commit_of_a_delta_table_writes_each_row_once(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    (tmp_path / "crash.py").write_text(KILL)
    numbers = Numbers(tmp_path, broker.bootstrap, step='[[steps]]\nname = "copied"\npython = "crash:copied"')
    numbers.write(LAKE='compact = { every = "1 ms", target = "1 MB" }')
    numbers.produce(range(600))
    for kill in ("before 1", "after 3"):
        (tmp_path / "left").write_text(kill)
        with run(numbers, "--until-caught-up") as driver:
            assert driver.wait() == -signal.SIGKILL
    with run(numbers, "--until-caught-up") as driver:
        assert driver.wait() == 0, driver.stderr
        assert driver.stderr == ""
    numbers.require_each_once(range(600))
    table = DeltaTable(tmp_path / "lake")
    operations = Counter(each["operation"] for each in table.history())
    assert operations["OPTIMIZE"] >= 2
    assert len(table.file_uris()) < operations["WRITE"]
