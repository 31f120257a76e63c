"""A server starts whole or not at all, and what it started it closes."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.groups.coordinator import GroupCoordinator
from ottla.metadata.store.interface import StoreError
from ottla.model.error_code import ErrorCode
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.network.listening_socket import ListenError
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.storage.file_names import CLEAN_SHUTDOWN_MARKER
from tests.unit.server.socketless_broker import Peer, SocketlessBroker, decoded, until
from tools.ports import free_ports


async def find_coordinator(broker: SocketlessBroker) -> None:
    await broker.connect().ask(FindCoordinatorRequest(key="g"), 0)
    await until(lambda: not broker.server.services.groups.is_loading)


async def topics(peer: Peer) -> list[str]:
    return sorted(topic.name for topic in (await peer.ask(MetadataRequest(topics=None), 7)).topics)


async def test_what_was_there_at_the_end_is_there_after_the_next_start(tmp_path: Path) -> None:
    first = await SocketlessBroker(tmp_path).open()
    await first.create_topic("t", 2)
    await find_coordinator(first)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    commit = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),))
    assert (await first.connect().ask(commit, 8)).topics[0].partitions[0].error_code == ErrorCode.NONE
    await first.close()
    assert (tmp_path / CLEAN_SHUTDOWN_MARKER).exists()
    second = await SocketlessBroker(tmp_path).open()
    assert not (tmp_path / CLEAN_SHUTDOWN_MARKER).exists()
    assert await topics(second.connect()) == ["__consumer_offsets", "t"]
    await find_coordinator(second)
    fetched = await second.connect().ask(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert [each.committed_offset for topic in fetched.topics for each in topic.partitions] == [3]
    await second.close()


def fail(*_: Any, **__: Any) -> None:
    raise StoreError("no more")


@pytest.mark.parametrize("step", ["open", "register_broker", "elect", "read", "live_brokers", "append"])
async def test_a_start_that_fails_lets_go_of_everything(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)  # the kernel would give one that was its own to give to the next who asks for any
    broker = SocketlessBroker(tmp_path, {"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    monkeypatch.setattr(broker.store, step, fail)
    with pytest.raises(StoreError, match="no more"):
        await broker.open()
    assert broker.server.address.port == port
    await broker.close()
    assert (len(broker.tasks), len(broker.timer)) == (0, 0)
    with socket.create_server(("127.0.0.1", port)):
        pass
    again = await SocketlessBroker(tmp_path).open()
    assert await topics(again.connect()) == []
    await again.close()


async def test_an_address_that_is_taken_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        broker = SocketlessBroker(tmp_path, {"listeners": listeners})
        with pytest.raises(ListenError):
            await broker.open()
        await broker.close()
    assert not (tmp_path / "metadata.db").exists()


@pytest.mark.parametrize(
    "part",
    [
        lambda broker: (GroupCoordinator, "close"),
        lambda broker: (type(broker.server.gateways.listeners), "close"),
        lambda broker: (type(broker.server._housekeeping), "stop"),
        lambda broker: (broker.store, "close"),
    ],
    ids=["groups", "listeners", "housekeeping", "store"],
)
async def test_a_part_that_cannot_be_closed_keeps_no_other_from_it(
    tmp_path: Path, part: Callable[[SocketlessBroker], tuple[Any, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await SocketlessBroker(tmp_path).open()
    await broker.create_topic("t")
    with monkeypatch.context() as patch:
        patch.setattr(*part(broker), fail)
        with pytest.raises(StoreError, match="no more"):
            await broker.close()
    assert (tmp_path / CLEAN_SHUTDOWN_MARKER).exists()
    assert len(broker.tasks) == 0
    await broker.server.gateways.listeners.close(0)


async def test_whoever_waits_for_a_group_is_told_when_the_broker_stops(tmp_path: Path) -> None:
    broker = await SocketlessBroker(tmp_path, {"group.initial.rebalance.delay.ms": "3000"}).open()
    await find_coordinator(broker)
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    join = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=(protocol,))
    slot = broker.connect().send(join, 0)
    assert slot.frame is None
    await broker.close()
    assert decoded(slot, JoinGroupRequest.API_KEY, 0).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_subscriber_of_the_metadata_that_fails_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await SocketlessBroker(tmp_path).open()
    broker.server.metadata.publisher._subscribers.insert(0, fail)
    await broker.create_topic("t")
    assert broker.server.replicas.find("t", 0) is not None
    assert await topics(broker.connect()) == ["t"]
    assert "no more" in caplog.text
    await broker.close()


async def test_two_brokers_in_turn_do_not_share_what_is_in_memory(tmp_path: Path) -> None:
    one, other = await SocketlessBroker(tmp_path / "one").open(), await SocketlessBroker(tmp_path / "other").open()
    await one.create_topic("t")
    assert (await topics(one.connect()), await topics(other.connect())) == (["t"], [])
    await find_coordinator(one)
    assert (await other.connect().ask(ListGroupsRequest(), 0)).error_code == ErrorCode.NONE
    await asyncio.gather(one.close(), other.close())


async def test_an_offsets_topic_that_grows_loses_no_group(socketless_broker: SocketlessBroker) -> None:
    await socketless_broker.create_topic("t")
    await find_coordinator(socketless_broker)
    peer = socketless_broker.connect()
    groups = [f"g{number}" for number in range(12)]
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    for group_id in groups:
        await peer.ask(OffsetCommitRequest(group_id=group_id, topics=topics), 8)
    growing = (CreatePartitionsTopic(name=CONSUMER_OFFSETS_TOPIC, count=5, assignments=None),)
    grown = await peer.ask(CreatePartitionsRequest(topics=growing, timeout_ms=60_000), 3)
    assert [each.error_code for each in grown.results] == [ErrorCode.NONE]
    await find_coordinator(socketless_broker)
    for group_id in groups:
        fetched = await peer.ask(OffsetFetchRequest(group_id=group_id, topics=None), 7)
        assert [each.committed_offset for topic in fetched.topics for each in topic.partitions] == [3]
