"""The peers' life cycle: Ottla and Apache Kafka as processes of their own, each started the way a user starts it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.beside_kafka import wire
from tools.ports import free_ports

# Those of Kafka's own start script, kafka-run-class.sh and kafka-server-start.sh.
KAFKA_JVM_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
KAFKA_CLUSTER_ID = "b3R0bGEtYmVzaWRlLWthZg"
KAFKA_BOOTSTRAP = "controller.quorum.bootstrap.servers"
KAFKA_VOTERS = "controller.quorum.voters"
"""Where several are to be controllers, fixed when they are formatted; one alone is its own quorum."""
LISTENERS = "listeners"
"""Where there are several: that of `port` is PLAINTEXT, and Kafka's have CONTROLLER at `controller_port`."""
STOP_PATIENCE_S = 600
FIRST_TOPIC = "first"


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured: a broker with a promise. `key` stands in the results."""

    key: str
    title: str
    kind: str  # "ottla" or "kafka"
    settings: tuple[tuple[str, str], ...] = ()


OTTLA = Target("ottla", "Ottla, on disk before the ack (default)", "ottla")
OTTLA_WRITTEN = Target("ottla-written", "Ottla, written before the ack", "ottla", (("log.flush.before.ack", "false"),))
KAFKA = Target("kafka", "Kafka, written before the ack (default)", "kafka")
KAFKA_SYNCED = Target("kafka-synced", "Kafka, on disk before the ack", "kafka", (("log.flush.interval.messages", "1"),))
TARGETS = {target.key: target for target in (OTTLA_WRITTEN, KAFKA, OTTLA, KAFKA_SYNCED)}


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Seconds from the start of the process."""

    first_answer: float
    first_acknowledgement: float


@dataclass
class Broker:
    """One broker process over its data directory; it can be stopped or killed, and started again."""

    target: Target
    data: Path
    settings: dict[str, str] = field(default_factory=dict)
    kafka_class_path: Callable[[], str] | None = None
    port: int = 0
    controller_port: int = 0
    metadata: str | None = None
    """Where the store of an Ottla is that shares it with others."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def output(self) -> Path:
        return self.data.with_name(self.data.name + ".output")

    @property
    def log_directory(self) -> Path:
        """Where the directories of partitions are."""
        return self.data / "log" if self.target.kind == "kafka" else self.data

    def start(self) -> StartTimes:
        """Starts it and waits for the first acknowledged record, in the topic `first`.

        Raises:
            RuntimeError: it ended instead; the message holds what it said.
        """
        begun = self.spawn()
        try:
            connection = wire.first_answer(self.port)
            answered = time.perf_counter() - begun
            wire.create_topic(connection, FIRST_TOPIC)
            wire.first_acknowledgement(connection, FIRST_TOPIC)
            acknowledged = time.perf_counter() - begun
            connection.close()
        except (OSError, TimeoutError) as reason:
            self.kill()
            raise self.did_not_start(reason) from reason
        return StartTimes(answered, acknowledged)

    def spawn(self) -> float:
        """Starts it and waits for nothing; when that was, by `time.perf_counter`."""
        command = self._kafka_command() if self.target.kind == "kafka" else self._ottla_command()
        # An installed broker has its bytecode beside it, whatever the shell of whoever measures says.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with self.output.open("ab") as output:
            begun = time.perf_counter()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment,
            )
        return begun

    def did_not_start(self, reason: Exception) -> RuntimeError:
        """What is raised then, with the last that it said."""
        said = self.output.read_text(errors="replace")[-2000:] if self.output.exists() else ""
        return RuntimeError(f"{self.target.title} did not start: {reason}\n{said}")

    def stop(self) -> None:
        """As an operator does it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash does it."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """Its data and what it said."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.output.unlink(missing_ok=True)

    def _end(self, signal_number: int) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal_number)
        try:
            self.process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"{self.target.title} did not end in {STOP_PATIENCE_S} s") from None
        finally:
            self.process = None

    def _ottla_command(self) -> list[str]:
        if not self.port:
            (self.port,) = free_ports(1)
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(self.data)]
        if LISTENERS not in self.settings:
            command += ["--kafka", self.bootstrap]
        if self.metadata is not None:
            command += ["--metadata", self.metadata]
        for key, value in {**dict(self.target.settings), **self.settings}.items():
            command += ["--set", f"{key}={value}"]
        return command

    def _kafka_command(self) -> list[str]:
        assert self.kafka_class_path is not None, "Kafka needs its jars"
        java = ["java", *KAFKA_JVM_FLAGS, "-cp", self.kafka_class_path()]
        properties = self.data / "server.properties"
        if not properties.exists():
            self.data.mkdir(parents=True)
            if not self.port:
                self.port, self.controller_port = free_ports(2)
            properties.write_text(self._kafka_properties())
            format_it = ["kafka.tools.StorageTool", "format", "-t", KAFKA_CLUSTER_ID, "-c", str(properties)]
            if KAFKA_VOTERS not in self.settings:
                format_it.append("--standalone")
            done = subprocess.run([*java, *format_it], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"Kafka's storage could not be formatted: {done.stdout}{done.stderr}")
        return [*java, "kafka.Kafka", str(properties)]

    def _kafka_properties(self) -> str:
        controllers = {} if KAFKA_VOTERS in self.settings else {KAFKA_BOOTSTRAP: f"127.0.0.1:{self.controller_port}"}
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            LISTENERS: f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.log_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **controllers,
            **dict(self.target.settings),
            **self.settings,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())
