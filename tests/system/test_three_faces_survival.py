"""A group of three protocols when its leader is killed: what was finished stays so, the rest comes to whoever works."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
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


def _is_described(command: Callable[..., tuple[int, str]], group: str) -> bool | None:
    return command("describe", group)[0] == 0 or None


@pytest.mark.long
def test_tools_at_any_broker_see_and_change_the_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path, settings={**LISTENERS, **REPLICATED}) as cluster:
        cluster.wait_until_registered()
        groups = [f"group-{number}" for number in range(6)]  # coordinated by all three brokers
        with RawRedis(redis_address(cluster.brokers[1])) as redis:
            for number in range(1, 4):
                redis.call("XADD", KEY, f"{number}-0", "job", str(number))
            for group in groups:
                assert redis.call("XGROUP", "CREATE", KEY, group, "0") == "+OK"
                redis.call("XREADGROUP", "GROUP", group, "alice", "COUNT", "1", "STREAMS", KEY, ">")

            def command(*words: str) -> tuple[int, str]:
                capsys.readouterr()
                code = run_command(["group", words[0], "--bootstrap", cluster.bootstrap, *words[1:]])
                return code, capsys.readouterr().out

            for group in groups:
                wait_until(partial(_is_described, command, group), "the group is listed")
                (found,) = json.loads(command("describe", group, "--json")[1])
                assert [(row["lag"], row["in_flight"]) for row in found["partitions"]] == [(3, 1)]
                assert command("delete", group)[0] != 0, "alice has something"
                redis.call("XACK", KEY, group, "1-0")
                assert command("reset", group, KEY, "--to-earliest")[0] == 0
                reply = redis.call("XREADGROUP", "GROUP", group, "bob", "NOACK", "STREAMS", KEY, ">")
                assert [row[0] for row in reply[0][1]] == [b"1-0", b"2-0", b"3-0"]
            for group in groups[:3]:
                assert command("delete", group)[0] == 0
            assert sorted(row[1] for row in redis.call("XINFO", "GROUPS", KEY)) == [g.encode() for g in groups[3:]]
            for group in groups[3:]:
                assert redis.call("XGROUP", "DESTROY", KEY, group) == 1
            wait_until(lambda: not set(command("list", "-q")[1].split()) & set(groups) or None, "none is listed")
