"""Driver, executor and broker die at every request of an exactly-once batch; each row is read once.

A batch takes some thirty requests, from the plan to the end of its transaction. In each round a process writes one and
is killed before or after one of them, or the broker is; then others write the same batch until one has it committed, as
a supervisor starts a query again.
"""

from __future__ import annotations

import os
import pickle
import signal
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from ottla.client.admin.admin import NewTopic
from ottla.client.blocking import BlockingClient
from ottla.client.io.blocking_io import BlockingConnection
from pyspark_ottla import DefaultSource, sink_state
from pyspark_ottla.spark_process import SparkTask
from tests.broker_process import BrokerProcess
from tests.committed_records import committed_records, wait_until_ended

ROUNDS = int(os.environ.get("OTTLA_SINK_ROUNDS", "210"))
REQUESTS = 35
"""More than a batch takes: in the last rounds nobody is killed."""
ROWS = 20
PARTITIONS = 3
TOPIC = "rounds"
WAYS = ("before", "after", "broker")
COMMITTED, FAILED = 0, 3


def name_of(driver: str) -> str:
    return driver


def write_batch(bootstrap: str, driver: str, batch: int, kill: tuple[int, str], broker_pid: int) -> int:
    """A driver and its two tasks in one process; its exit code."""
    requests, (at, way) = count(), kill
    send = BlockingConnection._send

    def sent(connection: BlockingConnection, *given: Any) -> None:
        now = next(requests) == at
        if now and way == "before":
            os._exit(signal.SIGKILL)
        if now and way == "broker":
            os.kill(broker_pid, signal.SIGKILL)
        send(connection, *given)
        if now and way == "after":
            os._exit(signal.SIGKILL)

    BlockingConnection._send = sent  # type: ignore[assignment,method-assign]
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.default.api.timeout.ms": "20000",
        "topic": TOPIC,
        "mode": "exactly-once",
        "transactionalId": TOPIC,
    }
    schema = StructType([StructField("value", StringType())])
    source = DefaultSource(options)
    writer = source.streamWriter(schema, False)
    writer._driver = partial(name_of, driver)
    try:
        planned = pickle.dumps(writer)
        messages = []
        for index in range(2):
            task = pickle.loads(planned)
            task._task = partial(SparkTask, index, f"{driver}-{index}", "query", driver, batch)
            values = [f"{batch}-{index}-{row}" for row in range(ROWS)]
            messages.append(task.write(iter([pa.record_batch({"value": values})])))
        source.streamWriter(schema, False).commit(messages, batch)
    except Exception:
        return FAILED
    return COMMITTED


class Rounds:
    """One broker that is started again whenever it was killed, and what the processes came to."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.killed = self.failed = self.brokers_killed = 0
        self._drivers = count()

    def run(self, batch: int, kill: tuple[int, str]) -> bool:
        """One process; whether it says that the batch is committed."""
        process = self.broker.process
        assert process is not None
        pid = os.fork()
        if pid == 0:
            os._exit(write_batch(self.broker.bootstrap, f"driver-{next(self._drivers)}", batch, kill, process.pid))
        next(self._drivers)
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if process.poll() is not None:
                self.brokers_killed += 1
                process = self.broker.start().process
                assert process is not None
            if ended:
                break
            signal.sigtimedwait([signal.SIGCHLD], 0.01)
        code = os.waitstatus_to_exitcode(status)
        self.killed += code == signal.SIGKILL
        self.failed += code == FAILED
        return code == COMMITTED


@pytest.mark.long
def test_every_row_is_read_once_whoever_dies_at_whichever_request(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic(NewTopic(TOPIC, PARTITIONS))
        rounds = Rounds(broker)
        for batch in range(ROUNDS):
            kill = (batch // len(WAYS) % REQUESTS, WAYS[batch % len(WAYS)])
            while not rounds.run(batch, kill):
                kill = (-1, "")
        expected = {f"{batch}-{index}-{row}" for batch in range(ROUNDS) for index in range(2) for row in range(ROWS)}
        wait_until_ended(broker.bootstrap, TOPIC)
        values = [each.value().decode() for each in committed_records(broker.bootstrap, TOPIC)]
        state = sink_state.committed_batch(broker.bootstrap, TOPIC)
    print(
        f"{ROUNDS} rounds: {rounds.killed} processes and {rounds.brokers_killed} brokers killed, {rounds.failed} failed"
    )
    assert rounds.killed
    assert rounds.brokers_killed
    assert len(values) == len(expected), (len(values), len(expected))
    assert set(values) == expected
    assert state is not None
    assert state.batch_id == ROUNDS - 1
