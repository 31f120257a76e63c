"""A streams group as an operator sees it, in a broker that dies and comes back. Its member is played by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.io.blocking_io import BlockingIo, run_blocking
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker_process import BrokerProcess
from tests.waiting_lines import ended

SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.min.assignment.interval.ms": "0"}
TOPOLOGY = Topology(
    1,
    (
        Subtopology("0", source_topics=("lines",), repartition_sink_topics=("app-by-word",)),
        Subtopology("1", (), (), (TopicInfo("app-counts"),), (), (TopicInfo("app-by-word"),)),
    ),
)
DEADLINE_S = 300


class Member:
    """A member of the group `app`."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._io = BlockingIo()
        self._cluster = Cluster(ClientOptions.of(broker.bootstrap), self._io)

    def close(self) -> None:
        self._io.stop()
        self._cluster.close()

    def heartbeat(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(group_id="app", member_id="m", member_epoch=epoch, **fields)

        async def attempt() -> StreamsGroupHeartbeatResponse:
            answer = await self._cluster.ask_coordinator("app", request, StreamsGroupHeartbeatResponse)
            assert isinstance(answer, StreamsGroupHeartbeatResponse)
            return answer

        return run_blocking(self._cluster.retrying(attempt, self._cluster.deadline()))

    def join(self) -> StreamsGroupHeartbeatResponse:
        return self.heartbeat(
            0,
            rebalance_timeout_ms=60_000,
            topology=TOPOLOGY,
            process_id="p",
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
        )

    def get_tasks(self) -> StreamsGroupHeartbeatResponse:
        """Go on until there are tasks, or an error."""
        answer = self.join()
        while not answer.error_code and not answer.active_tasks:
            answer = self.heartbeat(answer.member_epoch)
        return answer


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", SETTINGS) as process:
        yield process


@pytest.fixture
def member(broker: BrokerProcess) -> Iterator[Member]:
    member = Member(broker)
    yield member
    member.close()


def cli(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap}
    command = [sys.executable, "-m", "ottla.cli", *arguments]
    return ended(subprocess.run(command, capture_output=True, text=True, env=env, timeout=DEADLINE_S, check=False))


def ok(broker: BrokerProcess, *arguments: str) -> str:
    done = cli(broker, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_streams_group_is_shown_moved_and_deleted_and_outlives_the_broker(broker: BrokerProcess, member: Member):
    ok(broker, "topic", "create", "lines", "--partitions", "2")
    got = member.get_tasks()
    assert got.active_tasks == (TaskIds("0", (0, 1)), TaskIds("1", (0, 1)))
    assert ok(broker, "group", "list").split()[4:] == ["app", "Stable", "streams", "streams"]

    def described() -> dict[str, Any]:
        (group,) = json.loads(ok(broker, "group", "describe", "app", "--json"))
        return group

    group = described()
    (shown,) = group["members"]
    assert (group["state"], group["type"], shown["member_id"], shown["protocol"]) == (
        "Stable",
        "streams",
        "m",
        "streams",
    )
    read = [["app-by-word", 0], ["app-by-word", 1], ["lines", 0], ["lines", 1]]
    assert (shown["epoch"], shown["partitions"]) == (got.member_epoch, read)

    broker.kill()
    broker.start()
    assert described()["members"] == group["members"]
    assert member.heartbeat(got.member_epoch).error_code == 0

    moved = cli(broker, "group", "reset", "app", "lines", "--to-earliest")
    assert moved.returncode == 0, moved.stderr
    assert moved.stderr.startswith("removed 1 member of group ")
    assert member.heartbeat(got.member_epoch).error_code == 25, "it is to join again, and goes on from there"
    again = member.get_tasks()
    assert again.active_tasks == got.active_tasks
    assert cli(broker, "group", "delete", "app").returncode == 1
    assert member.heartbeat(-1).error_code == 0
    ok(broker, "group", "delete", "app")
    assert cli(broker, "group", "describe", "app").returncode == 4
