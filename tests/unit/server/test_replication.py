"""Whole brokers in one loop: what is produced to one is on all of them, and another leads when its leader is gone."""

import asyncio
import errno
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.options import ClientOptions
from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.network.address import Address
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.server.peer_cluster import PeerCluster
from ottla.storage.directory_logs import DirectoryLogs
from tests.unit.server.whole_cluster import WholeBroker, cluster, member, until
from tests.unit.storage.test_storage_failure import FailedIo

pytestmark = pytest.mark.slow

TIMEOUT_MS = 60_000


def partition_of(broker: WholeBroker, index: int = 0) -> Partition:
    return broker.server.replicas.get("t", index)


def leader_of(brokers: list[WholeBroker], index: int = 0, *, seen_by: WholeBroker | None = None) -> WholeBroker:
    """The broker that leads, as the first of them knows it unless another is named."""
    leader_id = (seen_by or brokers[0]).image.topics_by_name["t"].partitions[index].leader
    return next(each for each in brokers if each.node_id == leader_id)


async def create(brokers: list[WholeBroker], *, partitions: int = 1) -> None:
    address: Address = brokers[0].address
    connection = await AsyncioIo().connect(address, ClientOptions((address,)))  # type: ignore[arg-type]
    topics = (CreatableTopic("t", partitions, len(brokers)),)
    answer = await connection.request(CreateTopicsRequest(topics), CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    assert answer.topics[0].error_code == ErrorCode.NONE
    connection.close()
    for each in brokers:
        await until(lambda each=each: each.server.replicas.find("t", partitions - 1))  # type: ignore[misc]


async def append(broker: WholeBroker, value: bytes, index: int = 0) -> AppendAck:
    acked: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()
    batch = build_batch([(1_000, None, value, ())])
    partition_of(broker, index).append(batch, acks=ACKS_ALL, on_ack=acked.set_result)
    async with asyncio.timeout(60):
        return await acked


@pytest.mark.parametrize("flush", ["true", "false"])
async def test_what_is_acknowledged_is_on_every_broker(tmp_path: Path, flush: str) -> None:
    async with cluster(tmp_path, 3, {"log.flush.before.ack": flush}) as brokers:
        await create(brokers, partitions=3)
        for number in range(30):
            index = number % 3
            assert (await append(leader_of(brokers, index), b"%d" % number, index)).error is ErrorCode.NONE
            assert {partition_of(each, index).local_end_offset for each in brokers} == {number // 3 + 1}
        for index in range(3):
            image = brokers[0].image.topics_by_name["t"].partitions[index]
            assert set(image.isr) == {1, 2, 3}
            for each in brokers:
                await until(lambda each=each, index=index: partition_of(each, index).high_watermark == 10)  # type: ignore[misc]
        contents = {await partition_of(each).read_bytes(0, 1 << 20) for each in brokers}
        assert len(contents) == 1


async def test_another_broker_leads_when_the_leader_stops_and_it_follows_when_it_is_back(tmp_path: Path) -> None:
    running: dict[int, WholeBroker] = {}
    async with AsyncExitStack() as others:
        stacks = {node_id: AsyncExitStack() for node_id in (1, 2, 3)}
        for node_id, stack in stacks.items():
            await others.enter_async_context(stack)
            running[node_id] = await stack.enter_async_context(member(tmp_path, node_id))
        brokers = list(running.values())
        await until(lambda: all(len(each.image.live_brokers()) == 3 for each in brokers))
        await create(brokers)
        old = leader_of(brokers)
        assert (await append(old, b"before")).error is ErrorCode.NONE
        await stacks[old.node_id].aclose()
        rest = [each for each in brokers if each is not old]
        await until(lambda: leader_of(brokers, seen_by=rest[0]) is not old and partition_of(leader_of(rest)).is_leader)
        new = leader_of(rest)
        assert (await append(new, b"after")).error is ErrorCode.NONE
        assert [partition_of(each).local_end_offset for each in rest] == [2, 2]
        back = await others.enter_async_context(member(tmp_path, old.node_id))
        await until(lambda: len(new.image.topics_by_name["t"].partitions[0].isr) == 3)
        assert (await append(leader_of(rest), b"with all")).error is ErrorCode.NONE
        assert partition_of(back).local_end_offset == 3
        await until(lambda: partition_of(back).high_watermark == partition_of(new).high_watermark == 3)
        assert await partition_of(back).read_bytes(0, 1 << 20) == await partition_of(new).read_bytes(0, 1 << 20)


async def no_room(_directory: DirectoryLogs) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_others_lead_what_a_broker_cannot_write_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, 3) as brokers:
        await create(brokers)
        failing = leader_of(brokers)
        rest = [each for each in brokers if each is not failing]
        assert (await append(failing, b"before")).error is ErrorCode.NONE
        writer = failing.server._logs.directories[0].writer
        sound, writer._io = writer._io, FailedIo("write", errno.ENOSPC)
        with monkeypatch.context() as full:
            full.setattr(DirectoryLogs, "resume", no_room)
            writer.poll()
            writer._io = sound
            await until(lambda: all(leader_of(brokers, seen_by=each) is not failing for each in rest))
            await until(lambda: partition_of(leader_of(rest)).is_leader)
            assert failing.node_id not in rest[0].image.live_brokers()
        assert (await append(leader_of(rest), b"on the others")).error is ErrorCode.NONE
        await until(lambda: len(rest[0].image.topics_by_name["t"].partitions[0].isr) == 3)
        assert failing.node_id in rest[0].image.live_brokers(), "there is room again"


async def test_who_only_says_that_it_is_a_replica_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await create(brokers)
        address = brokers[0].address
        connection = await AsyncioIo().connect(address, ClientOptions((address,)))  # type: ignore[arg-type]
        topic_id = brokers[0].image.topics_by_name["t"].topic_id
        request = FetchRequest(
            replica_state=ReplicaState(1, 1), topics=(FetchTopic("", topic_id, (FetchPartition(0),)),)
        )
        answer = await connection.request(request, FetchResponse, timeout_ms=TIMEOUT_MS)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        connection.close()


async def test_who_is_seen_to_die_leads_nothing_for_clients_until_the_controller_has_decided(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as brokers:
        controller, other = brokers[0].server, brokers[1]
        peers, view = controller.cluster, controller.services.broker.cluster
        assert isinstance(peers, PeerCluster)
        told: list[tuple[bool, set[int], set[int]]] = []

        def look(image: MetadataImage, _delta: object) -> None:
            told.append((image.brokers[other.node_id].fenced, set(view.departed), set(view.lingering)))

        controller.metadata.publisher.subscribe(look)
        peers._on_unreachable(other.node_id, other.server.cluster.deciding.lifecycle.session.broker_epoch)
        assert (view.departed, view.lingering) == ({other.node_id}, frozenset())
        # It is fenced, and serves again: it lives, after all.
        await until(lambda: any(is_fenced for is_fenced, *_ in told) and not told[-1][0])
        assert (True, set(), {other.node_id}) in told
        assert told[-1] == (False, set(), set())
