"""Several whole brokers in the loop of the test, on one store: real files, real sockets, real time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ottla.metadata.image.image import MetadataImage
from ottla.metadata.store.location import open_store
from ottla.network.address import Address
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.server.listeners import SocketListeners
from ottla.server.open_files import CONNECTIONS_MAX
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.flush.before.ack": "false",
}


class WholeBroker:
    """One of them."""

    def __init__(self, server: Server, node_id: int) -> None:
        self.server = server
        self.node_id = node_id

    @property
    def address(self) -> Address:
        """Where clients come."""
        return self.server.address

    @property
    def image(self) -> MetadataImage:
        """What the cluster has agreed on, as this broker knows it."""
        return self.server.metadata.current_image()

    @property
    def is_controller(self) -> bool:
        """Whether it decides."""
        return self.server.cluster.deciding.controller.is_active


async def until(holds: Callable[[], object]) -> None:
    """Let everything work until `holds`."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 (what is waited for knows no events)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def cluster(
    directory: Path, count: int, settings: Mapping[str, str] | None = None
) -> AsyncIterator[list[WholeBroker]]:
    """Brokers 1 to `count`, each started when the one before it is ready; the first is the controller."""
    async with AsyncExitStack() as stack:
        starting = (member(directory, node_id, settings) for node_id in range(1, count + 1))
        brokers = [await stack.enter_async_context(each) for each in starting]
        for each in brokers:
            await until(lambda each=each: len(each.image.live_brokers()) == count)  # type: ignore[misc]
        yield brokers


@asynccontextmanager
async def member(
    directory: Path, node_id: int, settings: Mapping[str, str] | None = None
) -> AsyncIterator[WholeBroker]:
    """One broker on the store in `directory`, stopped cleanly at the end."""
    data = directory / f"broker-{node_id}"
    data.mkdir(exist_ok=True)
    given = {**SETTINGS, "node.id": str(node_id), "log.dirs": str(data), **(settings or {})}
    tasks, clock, loop = Tasks(), SystemClock(), asyncio.get_running_loop()
    environment = Environment(clock, SystemRng(), Timer(clock, loop.call_later), tasks, loop.call_soon)
    paths = BrokerSettings(given).data_directories
    logs = LogManager(paths, disk=OsDisk(), clock=clock, timer=environment.timer, tasks=tasks)
    await tasks.in_thread(logs.load)
    configured = BrokerSettings(given)
    server = Server(
        configured,
        logs,
        environment,
        open_store(f"embedded:{directory / 'store'}", data),
        SocketListeners(configured, environment, logs.cork, CONNECTIONS_MAX),
        is_shared=True,
    )
    try:
        await server.start()
        yield WholeBroker(server, node_id)
    finally:
        await server.stop()
