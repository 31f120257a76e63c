"""A broker over a data directory and sockets of this host: what `ottla serve` runs one of, or several."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

import ottla
from ottla.metadata.store.interface import BrokerIdTakenError
from ottla.metadata.store.location import EMBEDDED, ZOOKEEPER, is_shared, open_store
from ottla.native import LogIo
from ottla.network.address import Address
from ottla.runtime.clock import Clock
from ottla.runtime.disk import OsDisk
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SystemRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.server.listeners import SocketListeners
from ottla.server.node_id import free_node_id, kept_node_id
from ottla.server.open_files import OpenFileShares
from ottla.server.other_gateways import other_gateways
from ottla.server.registration import name_of_host
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.metadata.store.zookeeper_security import ZooKeeperSecurity

logger = logging.getLogger(__name__)

ACTIVE_WITHIN_MS: Final = 10_000
"""How long a broker waits for a controller before it says that it is ready all the same."""

_LOOK_AGAIN_MS: Final = 5
_TOLD_IN_CLUSTERS: Final = ("ottla.metadata", "ottla.replication.isr_manager", "ottla.replication.replica_fetcher")
"""Who say what was decided and why, a line for each decision, why leaders want another ISR, and what followers cut."""


class LocalBroker:
    """A broker that runs. Belongs to the event loop."""

    def __init__(
        self,
        server: Server,
        settings: BrokerSettings,
        shares: OpenFileShares,
        clock: Clock,
        others_came: asyncio.Event,
        took_ms: int,
    ) -> None:
        """`took_ms` is how long it took to start."""
        self.server = server
        self.node_id = settings.node_id
        self.others_came = others_came
        """Set when a broker that was alone with its store is so no more: `join` makes it one of several."""
        self._settings = settings
        self._shares = shares
        self._clock = clock
        self._data_dir = _data_dirs(settings)[0]
        self._took_ms = took_ms

    @property
    def ready_line(self) -> str:
        """Where it listens and where its data lies, for the person who started it."""
        listening = listening_at(self.server.addresses, self._settings.listeners.advertised)
        others = "".join(f", {name.lower()} {address}" for name, address in self.server.other_addresses.items())
        where = f"kafka {listening}{others}, data {self._data_dir}"
        return f"ottla {ottla.__version__} is ready: {where}, in {self._took_ms} ms"

    @classmethod
    async def start(
        cls,
        given: Mapping[str, str],
        shares: OpenFileShares,
        clock: Clock,
        *,
        metadata: str | None = None,
        stop: asyncio.Event | None = None,
        on_numbered: Callable[[int], None] | None = None,
    ) -> "LocalBroker":
        """Start a broker with the settings that were given; `metadata` is where the store is, None for its directory.

        Once `stop` is set it does not wait any longer for a controller that counts on it. `on_numbered` is told the
        broker's id before it starts.

        Whatever was opened is closed again when it cannot start. Raises InvalidSettingError, ListenError, StoreError
        and OSError, each with one line for the person who started it.
        """
        begun_ms = clock.monotonic_ms()
        location = metadata or EMBEDDED
        while True:
            settings = BrokerSettings(given)
            data_dirs = _data_dirs(settings)
            data_dir = data_dirs[0]
            is_free = False
            if not settings.is_set("node.id"):
                node_id = kept_node_id(data_dir, OsDisk())
                is_free = node_id is None and is_shared(location)
                if is_free:
                    node_id = await _free_node_id(location, data_dir, settings)
                if node_id is not None:
                    settings = BrokerSettings({**given, "node.id": str(node_id)})
            if on_numbered is not None:
                on_numbered(settings.node_id)
            try:
                others_came = asyncio.Event()
                server = await _start(settings, data_dirs, location, shares, clock, stop, others_came)
            except BrokerIdTakenError:
                if not is_free:
                    raise
                logger.info("another broker took node.id=%d first; choosing another one", settings.node_id)
                continue
            if not is_shared(location) and server.has_peers:
                await server.stop()
                location = f"{EMBEDDED}:{data_dir}"
                continue
            return cls(server, settings, shares, clock, others_came, clock.monotonic_ms() - begun_ms)

    async def join(self) -> "LocalBroker":
        """The same broker as one of several: stopped, and started again where it was, with what it needs for that."""
        settings = self._settings
        addresses = self.server.addresses
        listeners = ",".join(
            str(replace(endpoint, port=addresses[endpoint.listener].port)) for endpoint in settings.listeners.opened
        )
        await self.stop()
        given = {**settings.explicit, "listeners": listeners}
        location = f"{EMBEDDED}:{self._data_dir}"
        return await LocalBroker.start(given, self._shares, self._clock, metadata=location)

    async def stop(self) -> None:
        """Stop it cleanly."""
        await self.server.stop()


def _data_dirs(settings: BrokerSettings) -> list[Path]:
    return [Path(path).absolute() for path in settings.data_directories]


async def _start(
    settings: BrokerSettings,
    data_dirs: Sequence[Path],
    location: str,
    shares: OpenFileShares,
    clock: Clock,
    stop: asyncio.Event | None,
    others_came: asyncio.Event,
) -> Server:
    if is_shared(location):
        for name in _TOLD_IN_CLUSTERS:
            logging.getLogger(name).setLevel(min(logging.INFO, logging.getLogger().level))
    for warning in settings.warnings:
        logger.warning("%s", warning)
    loop = asyncio.get_running_loop()
    tasks = Tasks("ottla")
    environment = Environment(clock, SystemRng(), Timer(clock, loop.call_later), tasks, loop.call_soon)
    logs = LogManager(
        data_dirs,
        disk=OsDisk(),
        clock=clock,
        timer=environment.timer,
        tasks=tasks,
        log_io=lambda: LogIo(open_files_max=max(1, shares.written // len(data_dirs))),
        open_files_max=shares.kept,
        read_files_max=shares.read,
    )
    try:
        session_timeout_ms = settings.integer("broker.session.timeout.ms")
        store = open_store(
            location,
            data_dirs[0],
            session_timeout_ms=session_timeout_ms,
            zookeeper=_zookeeper_security(location, settings),
        )
        report = await tasks.in_thread(logs.load)
        for line in report.lines():
            logger.warning("%s", line)
        listeners = SocketListeners(settings, environment, logs.cork, shares.connections)
        server = Server(
            settings,
            logs,
            environment,
            store,
            listeners,
            gateways=other_gateways(settings),
            is_shared=is_shared(location),
            host_name=name_of_host(location),
            on_peers=others_came.set,
        )
    except BaseException:
        await tasks.close()
        raise
    try:
        await server.start()
        if is_shared(location) or not server.has_peers:  # one of several starts again as such, and is counted on then
            await _until_active(server, environment, stop)
    except BaseException:
        await server.stop()
        raise
    return server


async def _until_active(server: Server, environment: Environment, stop: asyncio.Event | None) -> None:
    """Wait until the controller counts on a broker; where there is no controller clients are served as well."""
    end_ms = environment.clock.monotonic_ms() + ACTIVE_WITHIN_MS
    while not server.is_active and environment.clock.monotonic_ms() < end_ms:
        if stop is not None and stop.is_set():
            return
        await environment.timer.sleep(_LOOK_AGAIN_MS)


async def _free_node_id(location: str, data_dir: Path, settings: BrokerSettings) -> int:
    tasks = Tasks("ottla-node-id")
    try:
        store = open_store(location, data_dir, zookeeper=_zookeeper_security(location, settings))
        return await free_node_id(store, tasks, SystemRng())
    finally:
        await tasks.close()


def _zookeeper_security(location: str, settings: BrokerSettings) -> "ZooKeeperSecurity | None":
    if not location.startswith(ZOOKEEPER):
        return None
    from ottla.metadata.store.zookeeper_security import ZooKeeperSecurity

    return ZooKeeperSecurity.from_settings(settings.__getitem__)


def listening_at(addresses: Mapping[str, Address], advertised: Mapping[str, Endpoint]) -> str:
    """Where a broker listens, with the names of the listeners where there are several, and what it advertises where
    that is another address.
    """
    shown = []
    for name, address in addresses.items():
        endpoint = advertised.get(name)
        told = None if endpoint is None else Address(endpoint.host, endpoint.port)
        facts = [
            *([name] if len(addresses) > 1 else []),
            *([f"advertised as {told}"] if told not in (None, address) else []),
        ]
        shown.append(f"{address} ({', '.join(facts)})" if facts else str(address))
    return " and ".join(shown)


def cluster_line(addresses: Sequence[Address], took_ms: int) -> str:
    """Where all brokers of a host listen, as clients are told of them."""
    where = ",".join(map(str, addresses))
    return f"a cluster of {len(addresses)} brokers is ready: kafka {where}, in {took_ms} ms"
