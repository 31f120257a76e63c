"""The parts of a broker, wired to a store and a network that are not of this host: as a simulation wires them."""

import asyncio
from pathlib import Path

from ottla.network.address import Address
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.wire_protocol import WireProtocol
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.listener_tls import BrokerTls
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint
from ottla.storage.log_manager import LogManager
from tests.unit.metadata.memory_store import MemoryStore
from tests.unit.server.socketless_broker import Peer

PLACE = Address("simulated", 1)


class NoSocket:
    """A listener that clients reach by other ways."""

    def __init__(self, name: str, said: list[str]) -> None:
        self.name = name
        self.address = PLACE
        self._said = said

    async def bind(self) -> None:
        self._said.append("bind")

    async def start(self) -> None:
        self._said.append("start")

    async def close(self, drain_ms: int = 0) -> None:
        self._said.append("close")


class NoSockets:
    """Gives such listeners."""

    def __init__(self) -> None:
        self.quotas = ConnectionQuotas(10, 10)
        self.connections_max = 10
        timer = ManualTimer()
        environment = Environment(
            timer.clock, SeededRng(2), timer, Tasks("nobody's"), asyncio.get_running_loop().call_soon
        )
        self.tls = BrokerTls(BrokerSettings(), environment)
        self.said: list[str] = []

    def listener(self, endpoint: Endpoint, protocol: WireProtocol) -> NoSocket:
        return NoSocket(endpoint.listener, self.said)


async def started(directory: Path, store: MemoryStore, network: NoSockets) -> Server:
    """A broker over them; its time stands still."""
    timer, tasks = ManualTimer(ManualClock(1_700_000_000_000)), Tasks("simulated")
    logs = LogManager(directory, disk=OsDisk(), clock=timer.clock, timer=timer, tasks=tasks, rng=SeededRng(1))
    logs.load()
    environment = Environment(timer.clock, SeededRng(2), timer, tasks, asyncio.get_running_loop().call_soon)
    server = Server(BrokerSettings({"log.dirs": str(directory)}), logs, environment, store, network)
    await server.start()
    return server


async def test_a_broker_lives_on_a_store_and_a_network_that_are_given(tmp_path: Path) -> None:
    store, network = MemoryStore(), NoSockets()
    server = await started(tmp_path, store, network)
    assert network.said == ["bind", "start"]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    created = await Peer(server).ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7)
    assert created.topics[0].error_code == 0
    found = await Peer(server).ask(FindCoordinatorRequest(key="g"), 3)
    assert (found.error_code, found.port) == (0, Peer(server).local.port)
    await server.stop()
    assert network.said == ["bind", "start", "close"]
    assert await store.live_brokers() == []
    again = await started(tmp_path, store, network)
    names = [topic.name for topic in (await Peer(again).ask(MetadataRequest(topics=None), 7)).topics]
    assert sorted(names) == ["__consumer_offsets", "t"]
    await again.stop()
