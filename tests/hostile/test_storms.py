"""Attacks at full size, against the figure that `ottla serve --check` computes: the broker stays below it and serves.

Every attack runs against the same broker, one after another, so that what one leaves behind shows in the next.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from ottla.native import build_batch
from ottla.network.config import NetworkConfig
from ottla.protocol.frame import encode_request
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.memory_figure import memory_figure, total
from ottla.server.open_files import OpenFileShares
from ottla.server.server import FETCH_WATCHES_MAX
from ottla.settings.broker_settings import BrokerSettings
from tests.broker_process import BrokerProcess
from tests.hostile.conftest import create_topic, end_offset
from tests.hostile.process_memory import peak_mib, pss_mib
from tests.hostile.raw_peer import RawPeer

pytestmark = pytest.mark.long

MIB = 1 << 20
SETTINGS = {
    "queued.max.request.bytes": str(64 * MIB),
    "socket.request.max.bytes": str(16 * MIB),
    "partitions.per.broker.max": "2000",
    "max.connections": "12000",
}
PARTITIONS = 1_000


@pytest.fixture(scope="module")
def connections_max() -> int:
    """How many connections this process may open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(10_000, OpenFileShares.of(hard).connections - 100)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that is attacked."""
    with BrokerProcess(tmp_path_factory.mktemp("storms") / "data", SETTINGS) as broker:
        create_topic(broker.port, "wide", partitions=PARTITIONS)
        create_topic(broker.port, "good")
        yield broker


def figure_mib() -> float:
    settings = BrokerSettings(SETTINGS)
    shares = OpenFileShares.of(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return (
        total(memory_figure(settings, NetworkConfig.from_settings(settings, shares.connections), FETCH_WATCHES_MAX))
        / MIB
    )


def many(port: int, count: int, stack: contextlib.ExitStack, receive_buffer_bytes: int = 0) -> list[RawPeer]:
    """Connections from as many addresses as their ports need."""
    return [
        stack.enter_context(RawPeer(port, f"127.0.0.{2 + number % 200}", receive_buffer_bytes))
        for number in range(count)
    ]


def push(peer: RawPeer, data: bytes) -> None:
    """Send what the socket takes now; whether the broker has hung up does not matter."""
    peer.sock.setblocking(False)
    with contextlib.suppress(OSError):
        peer.sock.send(data)


def idle_connections(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    many(port, connections_max, stack)


def parts_of_requests(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    for peer in many(port, connections_max, stack):
        push(peer, struct.pack(">i", 1 << 20) + bytes(15_000))


def announcements_of_the_largest_request(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    for peer in many(port, 2_000, stack):
        push(peer, struct.pack(">i", 16 * MIB) + b"\0")


def halves_of_large_requests(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    peers = many(port, 200, stack)
    for peer in peers:
        push(peer, struct.pack(">i", 16 * MIB))
    for _ in range(8):
        for peer in peers:
            push(peer, bytes(1 << 20))


def readers_that_never_read(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    request = encode_request(7, "deaf", MetadataRequest(topics=None), 12)
    peers = many(port, 1_000, stack, receive_buffer_bytes=4096)
    for _ in range(20):
        for peer in peers:
            push(peer, request * 20)


def requests_of_as_many_elements_as_may_be(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    topics = tuple(MetadataRequestTopic(name=f"{number:x}") for number in range(131_000))
    request = encode_request(7, "wide", MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    for peer in many(port, 3, stack):
        peer.send(request)


def fetches_that_wait_for_ever(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    wanted = tuple(FetchPartition(partition=index, partition_max_bytes=1) for index in range(PARTITIONS))
    request = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=2**31 - 1,
        max_bytes=2**31 - 1,
        session_epoch=-1,
        topics=(FetchTopic(topic="wide", partitions=wanted),),
    )
    data = encode_request(7, "patient", request, 11)
    for peer in many(port, 200, stack):
        push(peer, data * 2)


def fetch_sessions_of_everything(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    wanted = tuple(FetchPartition(partition=index, partition_max_bytes=1) for index in range(PARTITIONS))
    request = FetchRequest(session_epoch=0, topics=(FetchTopic(topic="wide", partitions=wanted),))
    data = encode_request(7, "session", request, 11)
    for peer in many(port, 300, stack):
        push(peer, data)


def resets(port: int, stack: contextlib.ExitStack, connections_max: int) -> None:
    for _ in range(5_000):
        peer = RawPeer(port)
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()


ATTACKS = (
    idle_connections,
    parts_of_requests,
    announcements_of_the_largest_request,
    halves_of_large_requests,
    readers_that_never_read,
    requests_of_as_many_elements_as_may_be,
    fetches_that_wait_for_ever,
    fetch_sessions_of_everything,
    resets,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_the_broker_stays_below_its_figure_and_serves(
    target: BrokerProcess, connections_max: int, attack: Callable[[int, contextlib.ExitStack, int], None]
):
    batch = bytes(build_batch([(1_000, None, b"good", [])]))
    data = (PartitionProduceData(index=0, records=batch),)
    request = ProduceRequest(
        acks=-1, timeout_ms=60_000, topic_data=(TopicProduceData(name="good", partition_data=data),)
    )
    before = end_offset(target.port, "good")
    with RawPeer(target.port) as peer, contextlib.ExitStack() as stack:
        peer.sock.settimeout(120)
        attack(target.port, stack, connections_max)
        for _ in range(20):
            ((answer,),) = (each.partition_responses for each in peer.ask(request, 9).responses)
            assert answer.error_code == 0
        assert peak_mib(target) < figure_mib()
    assert end_offset(target.port, "good") == before + 20


def test_memory_comes_back_when_the_attacks_are_over(target: BrokerProcess, connections_max: int):
    with RawPeer(target.port) as peer:
        peer.sock.settimeout(120)
        assert peer.is_served()
    now = pss_mib(target)
    assert now < figure_mib() / 3, f"{now:.0f} MiB of at most {figure_mib():.0f}"
