"""Entries of a stream that are deleted one by one leave the disk, whenever the broker is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.broker_process import BrokerProcess
from tests.cluster import wait_until
from tests.redis_client import RawRedis
from tests.system.redis_address import redis_address as address

ENTRIES = 30_000
SETTINGS = {
    "redis.listener": "127.0.0.1:0",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "0",
}


def small_segments(broker: BrokerProcess, topic: str) -> None:
    entry = ConfigEntry("segment.bytes", str(1 << 20), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    next(iter(admin.incremental_alter_configs([resource]).values())).result(60)


def state_of(client: RawRedis) -> list[Any]:
    return [
        client.call("XLEN", "s"),
        client.call("XRANGE", "s", "-", "+"),
        client.call("XPENDING", "s", "g"),
        client.call("XINFO", "STREAM", "s"),
    ]


def size_of(directory: Path) -> int:
    return sum(each.stat().st_size for each in directory.glob("*.log"))


def offsets_for_kafka(broker: BrokerProcess) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition("s", 0, 0)])
    offsets: list[int] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        offsets.append(message.offset())
    consumer.close()
    return offsets


@pytest.mark.long
def test_deleted_entries_leave_the_disk_and_a_kill_meanwhile_does_no_harm(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        directory = tmp_path / "data" / "s-0"
        client = RawRedis(address(broker))
        client.call("XADD", "s", "1-0", "a", "x")
        small_segments(broker, "s")
        client.call("XGROUP", "CREATE", "s", "g", "0")
        for start in range(2, ENTRIES, 1_000):
            client.pipeline([("XADD", "s", f"{number}-0", "a", "x" * 250) for number in range(start, start + 1_000)])
        client.call("XREADGROUP", "GROUP", "g", "alice", "COUNT", "50", "STREAMS", "s", ">")
        for start in range(1, ENTRIES, 1_000):
            gone = [f"{number}-0" for number in range(start, start + 1_000) if number % 10]
            client.call("XDEL", "s", *gone)
        before, size = state_of(client), size_of(directory)
        client.close()

        def is_cleaning() -> bool:
            return bool(list(directory.glob("*.cleaned")) + list(directory.glob("*.swap"))) or size_of(directory) < size

        wait_until(is_cleaning, "the cleaner at work")
        broker.kill()
        broker.start()
        wait_until(lambda: size_of(directory) < size // 3, "a clean log")
        client = RawRedis(address(broker))
        assert state_of(client) == before
        offsets = offsets_for_kafka(broker)
        assert len(offsets) < ENTRIES // 3
        client.close()
        broker.kill()
        (directory / "stream.index").unlink(missing_ok=True)
        broker.start()
        client = RawRedis(address(broker))
        assert state_of(client) == before
        client.close()
