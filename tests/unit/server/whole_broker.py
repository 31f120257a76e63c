"""A whole broker in the loop of the test: real files, real sockets, the client of this package."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.io.cluster import Cluster
from ottla.client.options import ClientOptions
from ottla.network.address import Address
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.server.listeners import GatewayAt
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager
from tests.unit.server.new_server import new_server

BROKER = 4
SET, DELETE = 0, 1


@asynccontextmanager
async def broker(
    directory: Path,
    settings: Mapping[str, str],
    gateways: Sequence[GatewayAt] = (),
    timer: ManualTimer | None = None,
) -> AsyncIterator[Server]:
    """Started, and stopped cleanly at the end; its timers do not move. No two starts make the same topic ids.

    With a `timer` its clock is the broker's as well.
    """
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), **settings}
    clock = SystemClock() if timer is None else timer.clock
    tasks, timer = Tasks(), ManualTimer() if timer is None else timer
    logs = LogManager(directory, disk=OsDisk(), clock=timer.clock, timer=timer, tasks=tasks)
    await tasks.in_thread(logs.load)
    server = new_server(
        BrokerSettings(given),
        logs,
        Environment(clock, SystemRng(), timer, tasks, asyncio.get_running_loop().call_soon),
        gateways,
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[Cluster]:
    """Connected. Raises BrokerUnreachableError when it is not let in."""
    async with client_at(server.address) as cluster:
        yield cluster


@asynccontextmanager
async def client_at(address: Address) -> AsyncIterator[Cluster]:
    """The same at one of its listeners."""
    cluster = Cluster(ClientOptions.of(str(address), client_id="test"), AsyncioIo())
    try:
        await cluster.connect()
        yield cluster
    finally:
        cluster.close()


async def alter(cluster: Cluster, name: str, setting: str, value: str | None) -> None:
    """Set a setting of a broker, of all with the name "", or take it back with None."""
    operation = DELETE if value is None else SET
    resource = AlterConfigsResource(BROKER, name, (AlterableConfig(setting, operation, value),))
    response = await cluster.ask_any(IncrementalAlterConfigsRequest((resource,)), IncrementalAlterConfigsResponse)
    [result] = response.responses
    assert result.error_code == 0, result.error_message
