"""A cluster as if each broker had a host: an address, a disk and a clock of its own, the metadata in ZooKeeper."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from chaos import broker_network, loop_image, preloaded
from chaos.broker_network import BrokerNetwork
from chaos.loop_image import LoopImage
from chaos.shifted_clock import ShiftedClock
from tests.cluster import Cluster
from tools.zookeeper import ZooKeeperServers

ZOOKEEPER_SERVERS = 3
DISK_MB = 512


def why_not() -> str | None:
    """Why there can be none here; None when there can."""
    return broker_network.why_not() or loop_image.why_not() or preloaded.why_not()


class HostCluster(Cluster):
    """Brokers that run between `__enter__` and `__exit__`, with what is around them."""

    def __init__(self, directory: Path, count: int, settings: dict[str, str]) -> None:
        self.network = BrokerNetwork(count)
        self.disks = {
            broker_id: LoopImage(directory / f"disk-{broker_id}", DISK_MB) for broker_id in self.network.brokers
        }
        self.zookeeper = ZooKeeperServers(directory / "zookeeper", ZOOKEEPER_SERVERS, host="0.0.0.0")
        hosts = ",".join(f"{self.network.host}:{port}" for port in self.zookeeper.ports)
        super().__init__(directory, count, settings, metadata=f"zookeeper://{hosts}/ottla")
        self.clocks: dict[int, ShiftedClock] = {}
        """From `__enter__` on."""
        self._around = ExitStack()
        for broker_id, broker in self.brokers.items():
            broker.data_dir = self.disks[broker_id].mount_point / str(broker_id)
            broker.log_dir = directory
            broker.host = self.network.address(broker_id)
            broker.inside = self.network.inside(broker_id)

    def __enter__(self) -> Cluster:
        with ExitStack() as around:
            around.enter_context(self.network)
            for disk in self.disks.values():
                around.enter_context(disk)
            for broker_id, broker in self.brokers.items():
                directory = self.directory / f"clock-{broker_id}"
                directory.mkdir()
                self.clocks[broker_id] = clock = ShiftedClock(directory)
                broker.environment = clock.environment
            around.enter_context(self.zookeeper)
            around.callback(self.kill)
            self.start()
            self._around = around.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._around.close()

    def empty_disk(self, broker_id: int) -> None:
        """What a broker that does not run has is gone, as with a new disk."""
        shutil.rmtree(self.brokers[broker_id].data_dir)

    def others(self, broker_id: int) -> Iterator[int]:
        """All brokers but one."""
        return (each for each in self.brokers if each != broker_id)
