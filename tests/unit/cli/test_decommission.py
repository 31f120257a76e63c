"""Nothing is on a broker any more when it has deleted its logs: until then it is not to be stopped."""

from typing import Any

import pytest

from ottla.cli import cluster_change
from ottla.cli.cluster_change import _until_deleted
from ottla.client.address import Address
from ottla.client.admin.log_directories import LogDirectory, ReplicaLog
from ottla.client.errors import BrokerUnreachableError
from ottla.client.io.brokers import ClusterDescription, RegisteredBroker
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition


class Cluster:
    def __init__(self) -> None:
        self.io = self
        self.pauses = 0

    async def pause(self, _delay_ms: int) -> None:
        self.pauses += 1


def answers(monkeypatch: pytest.MonkeyPatch, *given: int | Exception, is_fenced: bool = False) -> None:
    """How many logs the broker has each time that it is asked, or why it does not say."""
    remaining = iter(given)

    async def describe_logs(_cluster: Any, ids: list[int]) -> list[LogDirectory]:
        assert ids == [3]
        said = next(remaining)
        if isinstance(said, Exception):
            raise said
        logs = tuple(ReplicaLog(TopicPartition("t", index), 0, 0, is_future=False) for index in range(said))
        return [LogDirectory(3, "/data", ErrorCode.NONE, None, None, logs)]

    async def describe(_cluster: Any) -> ClusterDescription:
        known = (RegisteredBroker(3, Address("b", 9092), None, is_fenced),)
        return ClusterDescription("c", 1, known)

    monkeypatch.setattr(cluster_change, "describe_log_directories", describe_logs)
    monkeypatch.setattr(cluster_change, "describe_cluster", describe)


async def test_it_waits_until_the_last_log_is_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, 2, 2, 1, 0)
    cluster = Cluster()
    assert await _until_deleted(cluster, 3)  # type: ignore[arg-type]
    assert cluster.pauses == 3
    assert capsys.readouterr().out.splitlines() == [
        "broker 3 still has to delete 2 logs",
        "broker 3 still has to delete 1 log",
    ]


async def test_one_that_does_not_answer_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, 1, BrokerUnreachableError("gone"), 0)
    assert await _until_deleted(Cluster(), 3)  # type: ignore[arg-type]
    assert "retrying: gone" in capsys.readouterr().err


async def test_one_that_does_not_run_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, BrokerUnreachableError("gone"), is_fenced=True)
    assert not await _until_deleted(Cluster(), 3)  # type: ignore[arg-type]
