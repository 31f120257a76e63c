"""AlterReplicaLogDirs, and what DescribeLogDirs tells of the moves."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.gateways.kafka.api_34_alter_replica_log_dirs import API
from ottla.gateways.kafka.api_35_describe_log_dirs import API as DESCRIBE
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.storage import log_manager
from ottla.storage.future_logs import FutureLogs
from tests.unit.gateways.log_gateway import LogGateway
from tests.unit.metadata.images import image_of, topic_record
from tests.unit.storage.data_directory import names_in


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[LogGateway]:
    gateway = await LogGateway([tmp_path / "a", tmp_path / "b"]).open()
    yield gateway
    await gateway.close()


@pytest.fixture
def a(gateway: LogGateway) -> str:
    return gateway.logs.directories[0].path


@pytest.fixture
def b(gateway: LogGateway) -> str:
    return gateway.logs.directories[1].path


async def alter(
    gateway: LogGateway, *moves: tuple[str, int, str], version: int = API.max_version
) -> dict[str, ErrorCode]:
    """Ask for partitions to be moved; the error of each."""
    request = AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(path, (AlterReplicaLogDirTopic(topic, (index,)),)) for topic, index, path in moves
        )
    )
    answer = await gateway.ask(API, request, version)
    return {
        f"{topic.topic_name}-{each.partition_index}": ErrorCode(each.error_code)
        for topic in answer.results
        for each in topic.partitions
    }


async def described(gateway: LogGateway) -> dict[str, list[tuple[str, int, bool]]]:
    """Name, lag and whether it is a copy of each log in each directory."""
    results = (await gateway.ask(DESCRIBE, DescribeLogDirsRequest(topics=None))).results
    return {
        Path(result.log_dir).name: [
            (f"{topic.name}-{each.partition_index}", each.offset_lag, each.is_future_key)
            for topic in result.topics
            for each in topic.partitions
        ]
        for result in results
    }


async def ended(gateway: LogGateway) -> None:
    for each in gateway.logs.moves.all():
        assert each.task is not None
        await each.task


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_a_partition_is_moved_and_stays_when_it_is_there(gateway: LogGateway, a: str, b: str, version: int):
    partition = await gateway.partition()
    await gateway.append(partition, 5)
    assert await alter(gateway, ("t", 0, a), version=version) == {"t-0": ErrorCode.NONE}
    assert gateway.logs.moves.all() == ()
    assert await alter(gateway, ("t", 0, b), version=version) == {"t-0": ErrorCode.NONE}
    await ended(gateway)
    assert await described(gateway) == {"a": [], "b": [("t-0", 0, False)]}
    await gateway.append(partition, 2)
    assert partition.log.log_end_offset == 7


async def test_what_was_answered_goes_on_after_a_kill(gateway: LogGateway, a: str, b: str):
    for index in (0, 2, 4):
        await gateway.append(await gateway.partition(index=index), 5)
    gateway.logs.moves.configure(1e-3)
    await alter(gateway, ("t", 0, b), ("t", 4, b), ("t", 2, a))
    left = sorted(name.split(".")[0] for path in (a, b) for name in names_in(Path(path)) if name.endswith("-future"))
    assert left == ["t-0", "t-2", "t-4"]


async def test_a_copy_that_cannot_be_made_is_no_move(
    gateway: LogGateway, a: str, b: str, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    await gateway.append(await gateway.partition(), 5)
    monkeypatch.setattr(FutureLogs, "begin", fails)
    assert await alter(gateway, ("t", 0, b)) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}
    assert (await described(gateway))["a"] == [("t-0", 0, False)]


async def test_what_is_under_way_is_told_and_can_be_taken_back(gateway: LogGateway, a: str, b: str):
    for index in (0, 2, 4):
        await gateway.append(await gateway.partition(index=index), 5)
    assert await described(gateway) == {"a": [("t-0", 0, False), ("t-4", 0, False)], "b": [("t-2", 0, False)]}
    gateway.logs.moves.configure(1e-3)
    assert await alter(gateway, ("t", 0, b), ("t", 4, b), ("t", 2, a)) == dict.fromkeys(
        ("t-0", "t-2", "t-4"), ErrorCode.NONE
    )
    told = {
        name: [(log, is_future) for log, lag, is_future in logs if lag <= 5]
        for name, logs in (await described(gateway)).items()
    }
    assert told == {
        "a": [("t-0", False), ("t-2", True), ("t-4", False)],
        "b": [("t-0", True), ("t-2", False), ("t-4", True)],
    }
    under_way = gateway.logs.moves.all()
    assert await alter(gateway, ("t", 0, b)) == {"t-0": ErrorCode.NONE}
    assert gateway.logs.moves.all() == under_way, "it goes on"
    assert await alter(gateway, ("t", 0, a), ("t", 4, a), ("t", 2, b)) == dict.fromkeys(
        ("t-0", "t-2", "t-4"), ErrorCode.NONE
    )
    assert await described(gateway) == {"a": [("t-0", 0, False), ("t-4", 0, False)], "b": [("t-2", 0, False)]}


async def test_what_cannot_be_is_refused_by_itself(gateway: LogGateway, a: str, b: str, tmp_path: Path):
    await gateway.append(await gateway.partition(), 5)
    elsewhere = [str(tmp_path), "/etc", "", f"{b}/", f"{a}/../b", "b", "../b", "\x00", "é" * 5_000]
    for path in elsewhere:
        assert await alter(gateway, ("t", 0, path)) == {"t-0": ErrorCode.LOG_DIR_NOT_FOUND}
    long = "x" * 249
    assert await alter(gateway, (long, 0, b), ("../../etc", 0, b), ("t", -1, b), ("t", 0, b)) == {
        f"{long}-0": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "../../etc-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t--1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t-0": ErrorCode.NONE,
    }
    await ended(gateway)
    assert names_in(tmp_path) == ["a", "b"]
    gateway.logs.directories[0].writer.failure = OSError(5, "Input/output error")
    assert await alter(gateway, ("t", 0, a)) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}


async def test_a_partition_that_comes_later_is_made_where_it_was_wanted(
    gateway: LogGateway, b: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_manager, "PREFERRED_MAX", 2)
    for index in range(3):
        assert await alter(gateway, ("t", index, b)) == {f"t-{index}": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    for index in range(3):
        await gateway.partition(index=index)
    assert await described(gateway) == {"a": [("t-0", 0, False)], "b": [("t-1", 0, False), ("t-2", 0, False)]}


async def test_a_partition_that_other_brokers_have_is_not_available_here(
    gateway: LogGateway, b: str, monkeypatch: pytest.MonkeyPatch
):
    image = image_of(topic_record("t", 1))
    monkeypatch.setattr(gateway.replicas, "_current_image", lambda: image)
    assert await alter(gateway, ("t", 0, b), ("t", 1, b)) == {
        "t-0": ErrorCode.REPLICA_NOT_AVAILABLE,
        "t-1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_a_partition_of_a_directory_that_is_not_there_cannot_be_moved(gateway: LogGateway, b: str):
    partition = await gateway.partition()
    gateway.replicas.remove([partition.topic_partition])
    gateway.replicas.offline[partition.topic_partition] = "its disk is away"
    assert await alter(gateway, ("t", 0, b)) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}
