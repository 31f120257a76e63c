"""One bit turned over in a segment that was closed long ago: who notices, what it costs, that it stays where it is."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError

from chaos.chapter import TOPIC_CONFIG
from chaos.stage import TroubleOutcome
from chaos.topics import create_load_topics
from tests.broker_process import BrokerProcess
from workload.worker import PATIENCE_S

TOPIC = "flipped"
BATCHES = 30
RECORDS_PER_BATCH = 4
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a batch the bit is: its byte from the start of the batch.

    What `may_pass` has the records whole and every CRC right: a reader may take them for what they are.
    """

    name: str
    byte: int
    may_pass: bool = False


PLACES = (
    Place("a record", 90),
    Place("the CRC", 18),
    Place("the magic byte", 16, may_pass=True),
    Place("the batch length, a little", 11),
    Place("the batch length, a lot", 8),
)


def bit_flip(root: Path, place: Place) -> TroubleOutcome:
    """Turn over a bit of the second batch of a closed segment and look at it from every side."""
    outcome = TroubleOutcome(f"a flipped bit in {place.name}")
    data_dir = root / f"bit-flip-{place.byte}"
    broker = BrokerProcess(data_dir, log_dir=root)
    try:
        broker.start()
        values = _fill(broker)
        broker.stop()
        segment, position, offset = _victim(data_dir / f"{TOPIC}-0")
        _flip(segment, position + place.byte)
        for how, prepare in _starts(data_dir):
            prepare()
            damaged = segment.read_bytes()
            broker.start()
            _look(broker, values, offset, how, place, outcome)
            broker.kill()
            outcome.expect(segment.read_bytes() == damaged, f"{how}: the damaged segment was changed")
        outcome.problems += _verify(data_dir, segment, position)
    finally:
        broker.kill()
    return outcome


def _starts(data_dir: Path) -> list[tuple[str, Callable[[], None]]]:
    """Ways to start: after the clean stop, after a kill, and after a kill that cost the checkpoints."""

    def lose_checkpoints() -> None:
        for name in CHECKPOINTS:
            (data_dir / name).unlink(missing_ok=True)

    return [
        ("after a clean stop", lambda: None),
        ("after a kill", lambda: None),
        ("without checkpoints", lose_checkpoints),
    ]


def _fill(broker: BrokerProcess) -> list[bytes]:
    """Write batches into several segments; the values by offset."""
    create_load_topics(broker.bootstrap, {TOPIC: 1}, TOPIC_CONFIG | {"segment.ms": "1000", "retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    values = []
    for batch in range(BATCHES):
        for record in range(RECORDS_PER_BATCH):
            values.append(b"%d-%d." % (batch, record) * 20)
            producer.produce(TOPIC, value=values[-1], partition=0, timestamp=1_700_000_000_000 + batch * 200)
        if producer.flush(PATIENCE_S):
            raise TimeoutError("the records to damage were not acknowledged")
    return values


def _victim(directory: Path) -> tuple[Path, int, int]:
    """A closed segment that is not the first, and position and offset of its second batch."""
    segments = sorted(directory.glob("*.log"))
    data = segments[2].read_bytes()
    position = 12 + int.from_bytes(data[8:12], "big")
    return segments[2], position, int.from_bytes(data[position : position + 8], "big")


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def _look(
    broker: BrokerProcess, values: list[bytes], offset: int, how: str, place: Place, outcome: TroubleOutcome
) -> None:
    """Two client libraries read what is before the damage, stop at it with an error, and read what is after it."""
    for client, read in (("kafka-python", _read_with_python), ("confluent-kafka", _read_with_confluent)):
        found, error = read(broker, 0, len(values))
        outcome.facts.setdefault(client, error or f"{len(found)} records")
        outcome.expect(found == values[: len(found)], f"{how}: {client} read something else")
        if place.may_pass and len(found) == len(values):
            continue
        outcome.expect(len(found) == offset, f"{how}: {client} read {len(found)} records, not {offset}")
        outcome.expect(error is not None, f"{how}: {client} heard of no error")
    after = next((base for base in _bases(broker) if base > offset), len(values))
    rest, error = _read_with_python(broker, after, len(values))
    outcome.expect(rest == values[after:], f"{how}: {len(rest)} of {len(values) - after} records after it, {error}")


def _bases(broker: BrokerProcess) -> list[int]:
    return sorted(int(path.stem) for path in (broker.data_dir / f"{TOPIC}-0").glob("*.log"))


def _read_with_python(broker: BrokerProcess, start: int, end: int) -> tuple[list[bytes], str | None]:
    partition = PythonPartition(TOPIC, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False, check_crcs=True)
    values: list[bytes] = []
    try:
        consumer.assign([partition])
        consumer.seek(partition, start)
        while start + len(values) < end:
            found = consumer.poll(timeout_ms=1000 * PATIENCE_S)
            if not found:
                return values, None
            values += [record.value for record in found[partition]]
    except KafkaError as error:
        return values, f"{type(error).__name__}: {error}"[:160]
    finally:
        consumer.close()
    return values, None


def _read_with_confluent(broker: BrokerProcess, start: int, end: int) -> tuple[list[bytes], str | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 2,
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, start)])
        while start + len(values) < end:
            message = consumer.poll(PATIENCE_S)
            if message is None:
                return values, None
            error = message.error()
            if error is not None:
                return values, f"{error.name()}: {error.str()}"[:160]
            values.append(message.value())
    finally:
        consumer.close()
    return values, None


def _verify(data_dir: Path, segment: Path, position: int) -> list[str]:
    """What `ottla log dump` says must name the file and the byte."""
    command = [sys.executable, "-m", "ottla.cli", "log", "dump", str(data_dir / f"{TOPIC}-0")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 1 or str(segment) not in done.stderr or f"byte {position}" not in done.stderr:
        return [f"ottla log dump ends with {done.returncode} and says {done.stderr.strip()[:200]!r}"]
    return []
