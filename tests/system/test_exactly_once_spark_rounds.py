"""A pipeline on Spark loses driver, executor and broker at every step of its batches; each row is read once.

One driver, `ottla pipeline run`, with executors of its own, goes through batch after batch. In each round some rows
come, and one of its processes or the broker is killed at a step of the batch that takes them: before or after an
attempt is announced, its rows are produced, the transaction is closed to further attempts, its number is stored, it is
ended, and Spark has noted the batch as done. A driver that was killed is started again, as is the broker, and the round
is over when its rows can be read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from ottla.client.admin import NewTopic
from ottla.client.blocking import BlockingClient
from tests.broker_process import BrokerProcess
from tests.committed_records import committed_records, wait_until_ended
from tests.system import kill_switch

ROUNDS = int(os.environ.get("OTTLA_SPARK_ROUNDS", "200"))
FIRST = int(os.environ.get("OTTLA_SPARK_ROUNDS_FIRST", "0"))
"""The number of the first of them, which says what is killed: to go on where other rounds ended."""
MASTER = os.environ.get("OTTLA_SPARK_ROUNDS_MASTER", "local-cluster[1,2,1024]")
ROWS = 20
PARTITIONS = 2
ROUND_SECONDS_MAX = 900
"""On a machine that has much else to do; none takes nearly so long where it has not."""
STEPS = [(step, when) for step in ("Attempt", "rows", "Closing", "state", "end") for when in ("before", "after")]
"""Those of each batch."""
OF_TASKS = ("Attempt", "rows")
"""They are taken on an executor, all others by a process of the driver."""
STARTS = [(step, when) for step in ("Owner", "take over") for when in ("before", "after")]
"""Those of the first batch of a driver: another kill of the rounds in which one was killed."""
NOTED = ("Spark's commit", "after")
JAVA = "-XX:TieredStopAtLevel=1"
"""A JVM lives for a few batches here: compiled well, they would be done by then."""
DRIVER_EVERY = 5
"""In so many rounds the driver is killed once: it takes the longest to come back."""
PIPELINE = """
name = "rounds"

[sources.events]
topics = ["rounds.in"]

[[sinks]]
name = "out"
topic = "rounds.out"
value = "value"
"""


@dataclass(frozen=True)
class Kill:
    """Who dies at which step."""

    who: str
    step: str
    when: str

    def __str__(self) -> str:
        return f"{self.who} {self.when} {self.step}"


def kills_of(number: int) -> list[Kill]:
    """What happens in a round."""
    group, place = divmod(number, DRIVER_EVERY)
    if place == DRIVER_EVERY - 1:
        first = Kill("driver", *[*STEPS, NOTED][group % (len(STEPS) + 1)])
        return [first, Kill(("process", "broker")[group % 2], *STARTS[group // 2 % len(STARTS)])]
    cheap = group * (DRIVER_EVERY - 1) + place
    step, when = STEPS[cheap // 2 % len(STEPS)]
    return [Kill("broker" if cheap % 2 else "executor" if step in OF_TASKS else "process", step, when)]


@dataclass
class Driver:
    """`ottla pipeline run` in a process of its own, with its JVM and what belongs to that."""

    directory: Path
    bootstrap: str
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    _log: IO[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "ottla.cli", "pipeline", "run", str(self.directory / "rounds.toml"), "--json"]
        command += ["-b", self.bootstrap, "--memory", "512m", "--master", MASTER]
        command += ["--conf", "spark.deploy.maxExecutorRetries=-1"]
        path = os.pathsep.join(filter(None, [str(self.directory / "python"), os.environ.get("PYTHONPATH")]))
        self._log = (self.directory / "driver.log").open("ab")
        self.process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": path, "JAVA_TOOL_OPTIONS": JAVA},
        )
        self.starts += 1

    def kill(self) -> None:
        """It and its JVM, the JVM first: that would end in order without the other."""
        assert self.process is not None
        for each in psutil.Process(self.process.pid).children() if self.process.poll() is None else []:
            each.kill()
        self.process.kill()

    def end(self) -> None:
        """With all that it started."""
        assert self.process is not None
        everybody = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.kill()
        for each in everybody:
            if each.is_running():
                each.kill()
        self.process.wait()


@dataclass
class Rounds:
    """The broker, the driver, and what a reader of committed records has read."""

    directory: Path
    broker: BrokerProcess
    driver: Driver
    consumer: Consumer
    seen: Counter[str] = field(default_factory=Counter)
    brokers: int = 0
    drivers: int = 0

    def run(self, number: int, kills: list[Kill]) -> None:
        """One round, from its rows to the reader."""
        deadline = time.monotonic() + ROUND_SECONDS_MAX
        halves = [[f"{number}-{row}" for row in half] for half in (range(ROWS // 2), range(ROWS // 2, ROWS))]
        orders = [self._order(number, place, kill) for place, kill in enumerate(kills) if kill.step != NOTED[0]]
        noted = self._noted()
        for half in halves:
            self._produce(half)
            if len(orders) < len(kills) and half is halves[0]:
                # Nobody but Spark knows when it has noted a batch; what is next needs another batch.
                self._until(lambda: self._noted() > noted and self._has(halves[0]), deadline, number, kills)
                self.driver.kill()
        everything = [*halves[0], *halves[1]]
        self._until(
            lambda: self._has(everything) and not any(order.exists() for order in orders), deadline, number, kills
        )

    def _until(self, done: Callable[[], bool], deadline: float, number: int, kills: list[Kill]) -> None:
        while not done():
            message = self.consumer.poll(0.05)
            if message is not None and not message.error():
                self.seen[message.value().decode()] += 1
            if self.broker.process is not None and self.broker.process.poll() is not None:
                self.brokers += 1
                self.broker.start()
            if self.driver.process is not None and self.driver.process.poll() is not None:
                self.drivers += 1
                self.driver.start()
            assert time.monotonic() < deadline, self._stuck(number, kills)

    def _has(self, rows: list[str]) -> bool:
        return all(self.seen[row] for row in rows)

    def _produce(self, rows: list[str]) -> None:
        settings = {"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "log_level": 2}
        producer = Producer(settings)
        for place, row in enumerate(rows):
            producer.produce("rounds.in", row.encode(), partition=place % PARTITIONS)
        # A broker that dies meanwhile is started again by nobody else.
        self._until(lambda: producer.flush(0.05) == 0, time.monotonic() + ROUND_SECONDS_MAX, -1, [])

    def _order(self, number: int, place: int, kill: Kill) -> Path:
        assert self.broker.process is not None
        order = self.directory / "orders" / f"{number:05d}-{place}.json"
        made = order.with_suffix(".new")
        who = self.broker.process.pid if kill.who == "broker" else kill.who
        made.write_text(json.dumps({"step": kill.step, "when": kill.when, "kill": who}))
        made.rename(order)
        return order

    def _noted(self) -> int:
        """How many batches Spark has noted as done; it keeps the last hundred."""
        commits = self.directory / "checkpoints" / "rounds" / "out" / "commits"
        return max((int(each.name) for each in commits.glob("*") if each.name.isdecimal()), default=-1)

    def _stuck(self, number: int, kills: list[Kill]) -> str:
        log = (self.directory / "driver.log").read_text()[-4000:]
        left = [order.name for order in (self.directory / "orders").glob("*.json")]
        seen = sum(row.startswith(f"{number}-") for row in self.seen)
        return f"round {number} ({', '.join(map(str, kills))}): {seen} rows seen, orders left {left}\n{log}"


@pytest.mark.long
def test_every_row_is_read_once_whichever_process_of_spark_dies_at_whichever_step(tmp_path: Path) -> None:
    for name in ("orders", "python"):
        (tmp_path / name).mkdir()
    source = Path(kill_switch.__file__).read_text().replace("@ORDERS@", str(tmp_path / "orders"), 1)
    (tmp_path / "python" / "sitecustomize.py").write_text(source)
    (tmp_path / "rounds.toml").write_text(PIPELINE)
    with BrokerProcess(tmp_path / "data") as broker:
        with BlockingClient(broker.bootstrap) as client:
            for topic in ("rounds.in", "rounds.out"):
                client.create_topic(NewTopic(topic, PARTITIONS))
        settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "fetch.wait.max.ms": 10,
            "log_level": 2,
        }
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition("rounds.out", each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
        rounds = Rounds(tmp_path, broker, Driver(tmp_path, broker.bootstrap), consumer)
        kinds: Counter[str] = Counter()
        began = time.monotonic()
        rounds.driver.start()
        try:
            for number in range(FIRST, FIRST + ROUNDS):
                kills = kills_of(number)
                rounds.run(number, kills)
                kinds.update(kill.who for kill in kills)
                print(f"{time.monotonic() - began:6.0f} s  round {number}: {', '.join(map(str, kills))}", flush=True)
        finally:
            rounds.driver.end()
        consumer.close()
        wait_until_ended(broker.bootstrap, "rounds.out")
        values = [each.value().decode() for each in committed_records(broker.bootstrap, "rounds.out")]
    again = f"{rounds.drivers} drivers and {rounds.brokers} brokers started again"
    print(f"{ROUNDS} rounds on {MASTER}: killed {dict(kinds)}; {again}")
    # One that was killed at the end of the last round may have yet to be found dead.
    assert rounds.brokers >= kinds["broker"] - 1
    assert rounds.drivers >= kinds["driver"] - 1
    assert Counter(values) == Counter(
        f"{number}-{row}" for number in range(FIRST, FIRST + ROUNDS) for row in range(ROWS)
    )
