"""A pipeline on Spark loses driver, executor and broker at every step of its batches; each row is read once.

One driver, `ottla pipeline run`, with an executor of its own, goes through batch after batch. In each round some rows
come, and at a point of the batch that takes them its executor, the broker or the driver is killed: before or after an
attempt is announced, its rows are produced, the transaction is closed to further attempts, its number is stored, it is
ended, and when Spark has noted the batch as done. A driver that was killed is started again, as is the broker, and the
round is over when its rows can be read. After 33 rounds each of the three has died once at each point.
"""

from __future__ import annotations

import json
import os
import signal
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

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from tests.broker_process import BrokerProcess
from tests.committed_records import committed_records, wait_until_ended
from tests.system import kill_switch

ROUNDS = int(os.environ.get("OTTLA_SPARK_ROUNDS", "200"))
FIRST = int(os.environ.get("OTTLA_SPARK_ROUNDS_FIRST", "0"))
"""The number of the first of them, which says what is killed: to go on where other rounds ended."""
ONLY = os.environ.get("OTTLA_SPARK_ROUNDS_ONLY", "").split()
"""Who is killed, one after the other, each at its points in turn: of `VICTIMS`, and `process`, a driver's Python."""
MASTER = os.environ.get("OTTLA_SPARK_ROUNDS_MASTER", "local-cluster[1,2,1024]")
ROWS = 20
PARTITIONS = 2
ROUND_SECONDS_MAX = 900
"""On a machine that has much else to do; none takes nearly so long where it has not."""
STEPS = [(step, when) for step in ("Attempt", "rows", "Closing", "state", "end") for when in ("before", "after")]
"""Those of each batch."""
OF_TASKS = ("Attempt", "rows")
"""They are taken on an executor, all others by a process of the driver."""
OF_DRIVER = [each for each in STEPS if each[0] not in OF_TASKS]
STARTS = [(step, when) for step in ("Owner", "take over") for when in ("before", "after")]
"""Those of the first batch of a driver: another kill of the rounds in which one was killed."""
NOTED = ("Spark's commit", "after")
POINTS = [*STEPS, NOTED]
VICTIMS = ("executor", "broker", "driver")
DRIVER_EVERY = 9
"""In so many rounds the driver is killed once, later on: it takes the longest to come back."""
JAVA = "-XX:TieredStopAtLevel=1"
"""A JVM lives for a few batches here: compiled well, they would be done by then."""
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
    """What happens in a round: a victim at a point, and what costs little beside it."""
    if ONLY:
        place, nth = divmod(number, len(ONLY))
        points = OF_DRIVER if ONLY[nth] == "process" else POINTS
        return [Kill(ONLY[nth], *points[place % len(points)])]
    victim, place = victim_of(number)
    point = POINTS[place % len(POINTS)]
    kills = [Kill(victim, *point)]
    if victim == "driver":
        step, when = STARTS[place % len(STARTS)]
        kills.append(Kill(("process", "broker")[place // len(STARTS) % 2], step, when))
    elif victim == "executor" and point in OF_DRIVER:
        # Its task is done: the batch goes on without it, and fails at another step of the driver.
        other = (OF_DRIVER.index(point) + 1) % len(OF_DRIVER)
        kills.insert(len(kills) if other else 0, Kill("process", *OF_DRIVER[other]))
    return kills


def victim_of(number: int) -> tuple[str, int]:
    """Who dies in a round, and how often before: one after the other, until each has died at each point once."""
    later = number - len(VICTIMS) * len(POINTS)
    if later < 0:
        return VICTIMS[number % len(VICTIMS)], number // len(VICTIMS)
    group, place = divmod(later, DRIVER_EVERY)
    if place == DRIVER_EVERY - 1:
        return "driver", len(POINTS) + group
    cheap = group * (DRIVER_EVERY - 1) + place
    return VICTIMS[cheap % 2], len(POINTS) + cheap // 2


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
        more = os.environ.get("JAVA_TOOL_OPTIONS", "")
        self._log = (self.directory / "driver.log").open("ab")
        self.process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": path, "JAVA_TOOL_OPTIONS": f"{JAVA} {more}".strip()},
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
        for half in halves:
            self._produce(half)
            if len(orders) < len(kills) and half is halves[0]:
                # Nobody but Spark knows when it has noted a batch; what is next needs another batch.
                self._until(lambda: self._has(halves[0]) and self._is_noted(), deadline, number, kills)
                self._kill(kills[0].who)
        everything = [*halves[0], *halves[1]]
        self._until(
            lambda: self._has(everything) and not any(order.exists() for order in orders), deadline, number, kills
        )
        for order in orders:
            assert json.loads(order.with_suffix(".taken").read_text()), f"round {number}: nobody was killed by {order}"

    def _kill(self, who: str) -> None:
        if who == "driver":
            self.driver.kill()
        elif who == "broker":
            assert self.broker.process is not None
            self.broker.process.kill()
        else:
            assert self.driver.process is not None
            executors = kill_switch.executors_below(self.driver.process.pid)
            assert executors
            for pid in executors:
                os.kill(pid, signal.SIGKILL)

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

    def _is_noted(self) -> bool:
        """Whether Spark has noted as done what it has planned; it keeps the last hundred."""
        query = self.directory / "checkpoints" / "rounds" / "out"
        planned, noted = (
            max((int(each.name) for each in (query / log).glob("*") if each.name.isdecimal()), default=-1)
            for log in ("offsets", "commits")
        )
        return planned == noted

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
        killed: Counter[Kill] = Counter()
        began = time.monotonic()
        rounds.driver.start()
        try:
            for number in range(FIRST, FIRST + ROUNDS):
                kills = kills_of(number)
                rounds.run(number, kills)
                killed.update(kills)
                print(f"{time.monotonic() - began:6.0f} s  round {number}: {', '.join(map(str, kills))}", flush=True)
        finally:
            rounds.driver.end()
        consumer.close()
        wait_until_ended(broker.bootstrap, "rounds.out")
        values = [each.value().decode() for each in committed_records(broker.bootstrap, "rounds.out")]
    print(f"{ROUNDS} rounds on {MASTER}, {len(values)} rows; killed:\n{table_of(killed)}")
    print(f"{rounds.drivers} drivers and {rounds.brokers} brokers started again")
    # One that was killed at the end of the last round may have yet to be found dead.
    assert rounds.brokers >= sum(killed[each] for each in killed if each.who == "broker") - 1
    assert rounds.drivers >= sum(killed[each] for each in killed if each.who == "driver") - 1
    assert Counter(values) == Counter(
        f"{number}-{row}" for number in range(FIRST, FIRST + ROUNDS) for row in range(ROWS)
    )


def table_of(killed: Counter[Kill]) -> str:
    """How often who was killed where."""
    lines = [f"{'':24}" + "".join(f"{who:>10}" for who in (*VICTIMS, "process"))]
    for step, when in (*POINTS, *STARTS):
        counts = [killed[Kill(who, step, when)] for who in (*VICTIMS, "process")]
        lines.append(f"{f'{when} {step}':24}" + "".join(f"{count:>10}" for count in counts))
    return "\n".join(lines)
