"""A real Apache Kafka beside Ottla, for tests that compare their answers."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.peers import java_class_path
from tools.ports import free_ports

JVM_FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
CLUSTER_ID = "4L6g3nShMI-eMCtK--X86sw"
START_PATIENCE_S = 300


@contextmanager
def kafka_broker(directory: Path, settings: Mapping[str, str], protocol: str = "PLAINTEXT") -> Iterator[int]:
    """The port of a running Kafka of one node, with few partitions of its own topics. `protocol` is how it speaks.

    Raises:
        PeerUnavailableError: its jars cannot be had.
    """
    port, controller_port = free_ports(2)
    java = ["java", *JVM_FLAGS, f"-Dlog4j2.configurationFile={_logging(directory)}", "-cp", java_class_path()]
    properties = directory / "server.properties"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocol}:{protocol}",
        "log.dirs": str(directory / "log"),
        **{
            f"{topic}.{setting}": "1"
            for topic, settings_of_topic in (
                ("offsets.topic", ("replication.factor", "num.partitions")),
                ("transaction.state.log", ("replication.factor", "min.isr", "num.partitions")),
                ("share.coordinator.state.topic", ("replication.factor", "min.isr", "num.partitions")),
            )
            for setting in settings_of_topic
        },
        **settings,
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    format_it = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties), "--standalone"]
    done = subprocess.run([*java, *format_it], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_it_listens(process, port, directory / "output")
        yield port
    finally:
        process.kill()
        process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"Kafka did not start: {output.read_text()[-2000:]}")


def _logging(directory: Path) -> Path:
    """Warnings only, to its standard output."""
    path = directory / "log4j2.xml"
    path.write_text(
        '<Configuration><Appenders><Console name="out"/></Appenders>'
        '<Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>'
    )
    return path
