"""A simulated host with a broker: started, killed, started again over what its disk has kept."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.metadata.image.image import MetadataImage
from ottla.metadata.store.interface import StoreError
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.simulation.whole.clock import HostClock
from ottla.simulation.whole.disk import HostDisk, SimulatedDisk
from ottla.simulation.whole.event_loop import settle
from ottla.simulation.whole.listeners import simulated_listeners
from ottla.simulation.whole.log_io import SimulatedLogIo
from ottla.simulation.whole.process import Life, Process
from ottla.simulation.whole.store import SimulatedStore
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.simulation.whole.cluster import SimulatedCluster

logger = logging.getLogger(__name__)

PORT: Final = 9092

AGAIN_S: Final = 2.0
"""The time after which a broker that could not start is started again."""


class BrokerHost:
    """Belongs to the world. `directory` is where its files are."""

    def __init__(self, node_id: int, directory: Path, given: Mapping[str, str], cluster: "SimulatedCluster") -> None:
        self.node_id = node_id
        self.address = f"10.0.0.{node_id}"
        self.clock = HostClock(cluster.loop)
        directory.mkdir()
        self.disk = HostDisk(directory, cluster.draw_rng(), self.clock)
        self.process: Process | None = None
        self.server: Server | None = None
        self._given = {
            **given,
            "node.id": str(node_id),
            "broker.rack": f"rack-{node_id}",
            "log.dirs": str(directory),
            "listeners": f"PLAINTEXT://{self.address}:{PORT}",
        }
        self._loop = cluster.loop
        self._network = cluster.network
        self._ensemble = cluster.ensemble
        self._processes = cluster.all_processes
        self._rng = cluster.draw_rng()
        self._tell = cluster.trace.tell
        self._incarnations = 0
        self._is_wanted = False

    @property
    def is_up(self) -> bool:
        """Whether its process lives, running or paused."""
        return self.process is not None and not self.process.is_dead

    @property
    def mark(self) -> str:
        """Its state as one character: `|` running, `x` running with cut links, `:` paused, `.` not running."""
        if self.process is None or self.process.life is Life.DEAD:
            return "."
        if self.process.life is Life.PAUSED:
            return ":"
        return "x" if self._network.misses_links(self.address) else "|"

    @property
    def image(self) -> MetadataImage | None:
        """The metadata image of its broker, if it serves."""
        return self.server.metadata.current_image() if self.is_up and self.server is not None else None

    def start(self) -> None:
        """Start a process, unless there is one."""
        self._is_wanted = True
        if self.is_up:
            return
        self._network.power_on(self.address)
        self._incarnations += 1
        process = self.process = Process(f"broker {self.node_id}.{self._incarnations}", self.address)
        self._processes.append(process)
        process.on_death.append(self._disown)
        self.server = None
        self._tell(f"broker {self.node_id} starts")
        process.kept.append(self._loop.spawn(process, self._main(process)))

    async def _main(self, process: Process) -> None:
        try:
            self.server = await self._serve(process)
        except (StoreError, OSError) as error:
            self._tell(f"broker {self.node_id} cannot start: {error}")
            self._loop.in_world(0.0, self._exit, process)
        except Exception:
            logger.exception("broker %d cannot start", self.node_id)
            self._loop.in_world(0.0, self._exit, process)
        else:
            self._tell(f"broker {self.node_id} is ready")

    async def _serve(self, process: Process) -> Server:
        settings = BrokerSettings(self._given)
        loop, clock = self._loop, self.clock
        rng = SeededRng(self._rng.randbelow(1 << 62))
        tasks = Tasks("ottla")
        environment = Environment(clock, rng, Timer(clock, loop.call_later), tasks, loop.call_soon)
        logs = LogManager(
            settings.data_directories,
            disk=SimulatedDisk(self.disk, process),
            clock=clock,
            timer=environment.timer,
            tasks=tasks,
            rng=rng,
            log_io=lambda: SimulatedLogIo(loop, self.disk, self._rng),
        )
        process.kept.append(logs)
        report = await tasks.in_thread(logs.load)
        for line in report.lines():
            self._tell(f"broker {self.node_id}: {line}")
        listeners = simulated_listeners(settings, environment, logs.cork, self._network)
        store = SimulatedStore(self._ensemble, process)
        server = Server(settings, logs, environment, store, listeners, is_shared=True, host_name=self.address)
        process.kept.append(server)
        await server.start()
        return server

    def _exit(self, process: Process) -> None:
        self._loop.kill(process)
        self._loop.in_world(AGAIN_S, self._start_if_wanted)

    def _start_if_wanted(self) -> None:
        if self._is_wanted:
            self.start()

    def _disown(self) -> None:
        self.server = None

    def kill(self) -> None:
        """SIGKILL."""
        self._is_wanted = False
        if self.process is not None and self.is_up:
            self._tell(f"broker {self.node_id} is killed")
            self._loop.kill(self.process)

    def cut_power(self) -> None:
        """Cuts the power: everything that is not on disk is lost."""
        self._is_wanted = False
        self._network.power_off(self.address)
        if self.process is not None and self.is_up:
            self._loop.kill(self.process)
        self._tell(f"broker {self.node_id} has no power: it loses {self.disk.cut_power()}")

    def lose_disk(self) -> None:
        """Replaces the disk by an empty one."""
        self.kill()
        self.disk.empty()
        self._tell(f"broker {self.node_id} has a new disk")

    async def stop(self) -> None:
        """SIGTERM, and wait until it has ended; called by the world."""
        self._is_wanted = False
        server, process = self.server, self.process
        if server is None or process is None or process.is_dead:
            return
        self._tell(f"broker {self.node_id} is asked to stop")
        stopped: asyncio.Future[None] = self._loop.create_future()

        async def stop() -> None:
            try:
                await server.stop()
            finally:
                self._loop.in_world(0.0, settle, stopped, None)

        process.kept.append(self._loop.spawn(process, stop()))
        process.on_death.append(partial(settle, stopped, None))
        await stopped
        self._loop.kill(process)
        self._tell(f"broker {self.node_id} has stopped")
        self._start_if_wanted()
