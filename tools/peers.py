"""What others wrote, brought beside Ottla for tests and measurements: Kafka's jars and Spark's own Kafka connector.

    python -m tools.peers kafka kafka-streams kafka-connect spark    # brings them (once) and prints where they are

They are kept in `.peers/` of the checkout; nothing of the product needs them. Maven Central is the only source.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".peers"
KAFKA_POM = ROOT / "tools" / "kafka_jars" / "pom.xml"
# Fetched one by one: the connector's own parent names repositories that are not needed.
SPARK_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
KAFKA_STREAMS = (
    "org.apache.kafka:kafka-streams:4.3.1",
    "org.rocksdb:rocksdbjni:10.1.3",  # its stores are not used, but it is looked for
)
KAFKA_CONNECT = tuple(
    f"org.apache.kafka:{name}:4.3.1" for name in ("connect-file", "connect-mirror", "connect-mirror-client")
)
TRIES = 3
TIME_LIMIT_S = 600


class PeerUnavailableError(Exception):
    """A peer could not be brought here; the message says which and why."""


def kafka_jars() -> list[Path]:
    """Apache Kafka 4.3.1 (broker, tools, Java client) as jars.

    Raises:
        PeerUnavailableError: Maven is not installed or its repository cannot be reached.
    """
    return _kept("kafka", lambda folder: [["dependency:copy-dependencies", "-f", str(KAFKA_POM), _output(folder)]])


def spark_connector_jars() -> list[Path]:
    """Spark's own Kafka connector and what it needs, for `spark.jars`.

    Raises:
        PeerUnavailableError: Maven is not installed or its repository cannot be reached.
    """
    return _kept(
        "spark-connector",
        lambda folder: [["dependency:copy", f"-Dartifact={name}", _output(folder)] for name in SPARK_CONNECTOR],
    )


def kafka_streams_jars() -> list[Path]:
    """Kafka Streams 4.3.1 and what it needs beside `kafka_jars`.

    Raises:
        PeerUnavailableError: Maven is not installed or its repository cannot be reached.
    """
    return _kept(
        "kafka-streams",
        lambda folder: [["dependency:copy", f"-Dartifact={name}", _output(folder)] for name in KAFKA_STREAMS],
    )


def kafka_connect_jars() -> list[Path]:
    """Connectors of Kafka Connect 4.3.1 for files, and MirrorMaker: what they need beside `kafka_jars`.

    Raises:
        PeerUnavailableError: Maven is not installed or its repository cannot be reached.
    """
    return _kept(
        "kafka-connect",
        lambda folder: [["dependency:copy", f"-Dartifact={name}", _output(folder)] for name in KAFKA_CONNECT],
    )


def java_class_path() -> str:
    """The class path that has Kafka, its tools and its client, as `java -cp` takes it."""
    return str(kafka_jars()[0].parent / "*")


def _output(folder: Path) -> str:
    return f"-DoutputDirectory={folder}"


def _kept(name: str, goals: Callable[[Path], list[list[str]]]) -> list[Path]:
    folder = PEERS / name
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise PeerUnavailableError(f"{name}: mvn was not found; install Maven (Debian: apt-get install maven)")
        PEERS.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PEERS) as temporary:
            new = Path(temporary) / name
            for goal in goals(new):
                _maven(name, goal)
            try:
                new.rename(folder)
            except OSError:  # another process brought the same meanwhile
                if not folder.exists():
                    raise
    return sorted(folder.glob("*.jar"))


def _maven(name: str, goal: list[str]) -> None:
    said = fetch(["mvn", "--quiet", "--batch-mode", *goal], PEERS)
    if said is not None:
        errors = [line for line in said.splitlines() if "ERROR" in line]
        raise PeerUnavailableError(f"{name}: Maven could not bring it: {errors[0] if errors else said[-300:]}")


def fetch(command: list[str], folder: Path) -> str | None:
    """Run what brings something from elsewhere, and again when that fails; what it said in the end, None if all is
    there. Where it is cut off in the middle, it goes on from what it has."""
    said = ""
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                command,
                check=False,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIME_LIMIT_S,
            )
        except subprocess.TimeoutExpired as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return None
        said = done.stdout
    return said


BRING = {
    "kafka": kafka_jars,
    "kafka-streams": kafka_streams_jars,
    "kafka-connect": kafka_connect_jars,
    "spark": spark_connector_jars,
}


def main(names: list[str]) -> int:
    """Brings the named peers; exits with 1 when one cannot be had."""
    try:
        for name in names or list(BRING):
            jars = BRING[name]()
            print(f"{name}: {len(jars)} jars in {jars[0].parent}")
    except KeyError as unknown:
        print(f"peers: {unknown.args[0]!r} is not known; choose from {', '.join(BRING)}", file=sys.stderr)
        return 2
    except PeerUnavailableError as reason:
        print(f"peers: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
