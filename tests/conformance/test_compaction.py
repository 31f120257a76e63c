"""A compacted topic, written by one client and read by others: what each key said last is there, at its offset."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.broker_process import BrokerProcess
from tests.conformance.clients.face import PATIENCE_S, Client, Reader, Record
from tests.conformance.clients.known import CLIENTS, each_client
from tests.conformance.topics import new_topic

pytestmark = [pytest.mark.proves(feature="compacted topics"), pytest.mark.alone("its files are read")]
KEYS, ROUNDS, VALUE_BYTES = 50, 12, 10_000
SEGMENT_BYTES = 1 << 20


def have_it_look_often(broker: BrokerProcess) -> None:
    """Change the back-off of the cleaner while the broker runs."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def compacted_up_to(broker: BrokerProcess, topic: str) -> int:
    """Where the cleaner says that it has been."""
    checkpoint = Path(broker.data_dir) / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return 0
    rows = [line.split() for line in checkpoint.read_text().splitlines()[2:]]
    return next((int(offset) for name, _, offset in rows if name == topic), 0)


def written() -> list[Record]:
    """Each key in each round; the last round deletes every tenth."""
    rows = []
    for round_number in range(ROUNDS):
        for key in range(KEYS):
            is_deleted = round_number == ROUNDS - 1 and key % 10 == 0
            value = None if is_deleted else (b"%d/%d " % (round_number, key)) * (VALUE_BYTES // 8)
            rows.append(Record(0, b"key %d" % key, value, (("round", b"%d" % round_number),)))
    return rows


def take_up_to(reader: Reader, last_offset: int) -> list[Record]:
    """Read until a record at or after `last_offset` has come."""
    deadline = time.monotonic() + PATIENCE_S
    records: list[Record] = []
    while not records or records[-1].offset < last_offset:
        assert time.monotonic() < deadline, f"only {len(records)} records came"
        records += reader.poll()
    return records


@each_client(tuple(CLIENTS))
def test_what_each_key_said_last_is_there(
    client_named: Callable[[str], Client], group_broker: BrokerProcess, name: str
) -> None:
    have_it_look_often(group_broker)
    topic = new_topic(
        group_broker, cleanup_policy="compact", segment_bytes=str(SEGMENT_BYTES), min_cleanable_dirty_ratio="0.01"
    )
    rows = written()
    client_named("confluent-kafka").produce(topic, rows, idempotent=True)
    deadline = time.monotonic() + PATIENCE_S
    while compacted_up_to(group_broker, topic) < KEYS * 2:
        assert time.monotonic() < deadline, "the cleaner never came"
    reader = client_named(name).reader(topic)
    found = take_up_to(reader, len(rows) - 1)
    reader.close()
    assert len(found) < len(rows) - KEYS
    assert {record.key: record.value for record in found} == {row.key: row.value for row in rows}
    assert found == [rows[record.offset]._replace(offset=record.offset) for record in found]
    assert client_named(name).ends(topic) == (0, len(rows))
