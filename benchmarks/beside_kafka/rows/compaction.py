"""How fast a dirty log is compacted, and what it costs: from when it may be until all closed segments are clean."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.beside_kafka.brokers import Broker
from benchmarks.beside_kafka.load_generator import LoadError
from benchmarks.beside_kafka.session import Session
from ottla.client import BlockingClient
from ottla.native import build_batch

# Size of values in bytes, records, distinct keys: each is written ten times, spread over the log.
SHAPES = ((100, 6_000_000, 600_000), (1_000, 1_500_000, 150_000))
RECORDS_A_BATCH = {100: 2_000, 1_000: 500}
SEGMENT_BYTES = 64 << 20
MINIMUM_SEGMENT_BYTES = 1 << 20
KEY_BYTES = 16
LOOK_S = 0.05
PATIENCE_S = 600.0
# Kafka's cleaner looks for work every 15 s, which would be most of what is measured.
SETTINGS = {"log.cleaner.backoff.ms": "100"}
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0"}


def measure(session: Session) -> None:
    """Rows `compaction of SIZE B records`: one thread of the cleaner, as is the default of both."""
    for size, records, keys in SHAPES:
        broker = session.new_broker(**SETTINGS)
        try:
            broker.start()
            _measure(session, broker, size, session.count(records), session.count(keys))
        finally:
            broker.kill()
            broker.remove()


def _measure(session: Session, broker: Broker, size: int, records: int, keys: int) -> None:
    row, topic = f"compaction of {size:,} B records", f"compacted-{size}"
    segment_bytes = max(MINIMUM_SEGMENT_BYTES, int(SEGMENT_BYTES * session.scale))
    session.create_topic(broker, topic, 1, 1, **{"segment.bytes": str(segment_bytes), **KEPT})
    session.fill_page_cache()
    _write(broker, topic, size, records, keys)
    folder = broker.log_directory / f"{topic}-0"
    active = max(_base_offsets(folder))
    dirty = _closed_bytes(folder, active)
    if not dirty:
        raise LoadError(f"{row}: the log has no closed segment")
    used, begun = session.measure_cpu(broker), time.perf_counter()
    _alter(broker, topic)
    _until_clean(broker, topic, active, begun + PATIENCE_S)
    seconds, cpu = time.perf_counter() - begun, used()
    megabytes, left = dirty / 1e6, _closed_bytes(folder, active) / 1e6
    if left > megabytes / 2:
        raise LoadError(f"{row}: {left:,.0f} of {megabytes:,.0f} MB are left when all is said to be clean")
    session.record(row, "MB/s", megabytes / seconds)
    session.record(row, "until clean s", seconds)
    session.record(row, "broker CPU s/GB", cpu.total / (megabytes / 1_000))
    session.record(row, "left of the log", left / megabytes)
    session.say(f"{row}: {megabytes:,.0f} MB in {seconds:.1f} s, {megabytes / seconds:,.0f} MB/s, {left:,.0f} MB left")


def _write(broker: Broker, topic: str, size: int, records: int, keys: int) -> None:
    """All keys in turn, again and again."""
    value, step = bytes(size), min(RECORDS_A_BATCH[size], keys)
    batches = [
        bytes(
            build_batch([(0, b"%0*d" % (KEY_BYTES, key), value, ()) for key in range(first, min(first + step, keys))])
        )
        for first in range(0, keys, step)
    ]
    with BlockingClient(broker.bootstrap) as client:
        written = 0
        while written < records:
            for batch in batches:
                client.produce_raw(topic, 0, batch)
            written += keys


def _alter(broker: Broker, topic: str) -> None:
    """From now on the log is compacted."""
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in COMPACTED.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for change in admin.incremental_alter_configs([resource]).values():
        change.result()


def _until_clean(broker: Broker, topic: str, active: int, until: float) -> None:
    """Until the cleaner says that it has come to the segment that is written to, which it leaves alone.

    Raises:
        TimeoutError: it does not come there.
    """
    checkpoint = broker.log_directory / "cleaner-offset-checkpoint"
    while time.perf_counter() < until:
        if checkpoint.exists() and clean_offset(checkpoint.read_text(), topic, 0) >= active:
            return
        time.sleep(LOOK_S)
    raise TimeoutError(f"{topic} is not clean after {PATIENCE_S:.0f} s")


def clean_offset(text: str, topic: str, partition: int) -> int:
    """The first offset of a partition that is not clean, from a checkpoint of the cleaner; -1 when it has none."""
    for line in text.splitlines()[2:]:
        words = line.split()
        if words[:2] == [topic, str(partition)]:
            return int(words[2])
    return -1


def _base_offsets(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.log") if path.stem.isdigit()]


def _closed_bytes(folder: Path, active: int) -> int:
    """Of the segments before the one that is written to."""
    return sum((folder / f"{base:020d}.log").stat().st_size for base in _base_offsets(folder) if base < active)
