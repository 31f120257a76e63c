"""What holds at every moment, as far as it can be seen from outside: looked at every so often while a cluster runs."""

from typing import Final

from ottla.replication.partition import Partition
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.process import Process

EVERY_S: Final = 0.05


class Invariants:
    """Belongs to the world. `broken` says what did not hold, once each."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.broken: list[str] = []
        self._cluster = cluster
        self._leaders: dict[tuple[str, int, int], Process] = {}
        self._high_watermarks: dict[tuple[Process, str, int, int], int] = {}
        cluster.loop.in_world(EVERY_S, self._look)

    def _look(self) -> None:
        for broker in self._cluster.brokers:
            if broker.server is not None and broker.process is not None:
                for partition in broker.server._replicas:
                    self._look_at(broker.process, partition)
        self._cluster.loop.in_world(EVERY_S, self._look)

    def _look_at(self, process: Process, partition: Partition) -> None:
        topic, index = partition.topic_partition
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        where = f"{topic}-{index} at {process.name}, epoch {epoch}"
        if partition.is_leader and partition.partition_epoch >= 0:
            leader = self._leaders.setdefault((topic, index, epoch), process)
            if leader is not process:
                self._break(f"one leader an epoch: {where}, and {leader.name}")
            before = self._high_watermarks.get((process, topic, index, epoch), -1)
            if high_watermark < before:
                self._break(f"the high watermark never falls: {where}, from {before} to {high_watermark}")
            self._high_watermarks[process, topic, index, epoch] = high_watermark
        if partition.last_stable_offset > high_watermark:
            self._break(f"LSO {partition.last_stable_offset} is above the high watermark {high_watermark}: {where}")
        if high_watermark > partition.log.log_end_offset:
            self._break(f"the log ends at {partition.log.log_end_offset}, below what is committed: {where}")

    def _break(self, what: str) -> None:
        if what not in self.broken:
            self.broken.append(what)
            self._cluster.trace.tell(f"!!! {what}")
