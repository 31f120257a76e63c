"""A group of three protocols when its leader is killed: what was finished stays so, the rest comes to whoever works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ottla.cli.main import run as run_command
from ottla.client import AcknowledgementMode, AcknowledgeType, ShareConsumerOptions, SyncShareConsumer
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster, wait_until
from tests.redis_client import RawRedis
from tests.system.nsq_client import NsqClient
from tests.system.redis_address import redis_address
from tests.system.test_nsq_failover import REPLICATED

LISTENERS = {"redis.listener": "127.0.0.1:0", "nsq.listener": "127.0.0.1:0"}
KEY, GROUP = "jobs", "workers"
JOBS = [f"job {number}" for number in range(1, 11)]


def nsq_at(broker: BrokerProcess, ready: int) -> NsqClient:
    match = re.search(r"nsq (\S+):(\d+)", broker.ready_line)
    assert match is not None, broker.ready_line
    return NsqClient((match[1], int(match[2]))).subscribe(KEY, GROUP, ready)


def job_of(value: bytes | None) -> str:
    assert value is not None
    _, name = msgspec.msgpack.decode(value)
    return str(name.decode())


def work_and_kill(
    bootstrap: str, redis: RawRedis, leader: BrokerProcess, next_leader: Callable[[], BrokerProcess]
) -> None:
    """Each face has something when the leader is killed; all that nobody of Redis has is done after it."""
    for number, job in enumerate(JOBS, 1):
        assert redis.call("XADD", KEY, f"{number}-0", "job", job)
    assert redis.call("XGROUP", "CREATE", KEY, GROUP, "0") == "+OK"
    assert redis.call("XREADGROUP", "GROUP", GROUP, "alice", "COUNT", "1", "STREAMS", KEY, ">")
    worker = nsq_at(leader, 1)
    held = worker.message()
    worker.send(b"RDY 0")
    options = ShareConsumerOptions(GROUP, acknowledgement_mode=AcknowledgementMode.EXPLICIT, max_poll_records=3)
    with SyncShareConsumer(bootstrap, options) as consumer:
        consumer.subscribe([KEY])
        records = wait_until(lambda: list(consumer.poll(timeout_ms=10_000)) or None, "a share consumer gets jobs")
        consumer.acknowledge(records[0], AcknowledgeType.ACCEPT)
        assert not any(consumer.commit().values())
        finished = {job_of(records[0].value)}
        leader.kill()
    worker.close()
    worker = nsq_at(next_leader(), 1)
    left = set(JOBS) - finished - {JOBS[0]}
    assert job_of(held.body) in left
    while left:
        message = worker.message()
        assert job_of(message.body) in left, "what is finished is not given out again"
        assert message.attempts == (2 if message.body == held.body else message.attempts)
        left.discard(job_of(message.body))
        worker.finish(message)
    rows = wait_until(lambda: found if len(found := pending(redis)) == 1 else None, "the others are done")
    assert rows == [[b"1-0", b"alice", 1]]
    assert redis.call("XACK", KEY, GROUP, "1-0") == 1
    worker.close()


def pending(redis: RawRedis) -> list[list[object]]:
    return [[row[0], row[1], row[3]] for row in redis.call("XPENDING", KEY, GROUP, "-", "+", "100")]


def test_a_broker_that_is_killed_goes_on_with_the_group(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", LISTENERS) as broker:
        clients: list[RawRedis] = []

        def start_again() -> BrokerProcess:
            broker.start()
            clients[0].socket = RawRedis(redis_address(broker)).socket
            return broker

        clients.append(RawRedis(redis_address(broker)))
        work_and_kill(broker.bootstrap, clients[0], broker, start_again)


@pytest.mark.long
def test_another_broker_goes_on_with_the_group(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings={**LISTENERS, **REPLICATED}) as cluster:
        cluster.wait_until_registered()
        first = cluster.brokers[1]
        assert (
            run_command(
                [
                    "config",
                    "set",
                    "--bootstrap",
                    cluster.bootstrap,
                    "--group",
                    GROUP,
                    "share.auto.offset.reset=earliest",
                ]
            )
            == 0
        )
        RawRedis(redis_address(first)).call("XADD", KEY, "0-1", "job", "none")
        RawRedis(redis_address(first)).call("XDEL", KEY, "0-1")
        cluster.wait_until_in_sync(KEY)
        leader = cluster.leader(KEY)
        other = next(each for each in cluster.brokers.values() if each is not leader)

        def next_leader() -> BrokerProcess:
            return wait_until(lambda: now if (now := cluster.leader(KEY)) is not leader else None, "another leads")

        with RawRedis(redis_address(other)) as redis:
            work_and_kill(cluster.bootstrap, redis, leader, next_leader)
