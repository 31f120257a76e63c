"""Checks invariants of a running cluster at intervals, from outside."""

from typing import Final
from uuid import UUID

from ottla.metadata.image.image import PartitionImage
from ottla.replication.partition import Partition
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.decided_metadata import DecidedMetadata
from ottla.simulation.whole.process import Process

EVERY_S: Final = 0.05

BROKEN_MAX: Final = 10
"""The maximum number of reported violations; later ones are usually consequences."""


class Invariants:
    """Belongs to the world. `broken` has the violations, each once."""

    def __init__(self, cluster: SimulatedCluster, decided: DecidedMetadata) -> None:
        self.broken: list[str] = []
        self._decided = decided
        self._committed: dict[tuple[UUID, int], int] = {}
        self._cluster = cluster
        self._leaders: dict[tuple[UUID, int, int], Process] = {}
        self._high_watermarks: dict[tuple[Process, UUID, int, int], int] = {}
        cluster.loop.in_world(EVERY_S, self._look)

    def _look(self) -> None:
        found: dict[tuple[UUID, int], dict[int, Partition]] = {}
        for broker in self._cluster.brokers:
            if broker.server is not None and broker.process is not None:
                for partition in broker.server.replicas:
                    self._look_at(broker.process, partition)
                    found.setdefault((partition.topic_id, partition.index), {})[broker.node_id] = partition
        image = self._decided.image
        for (topic_id, index), replicas in found.items():
            topic = image.topic_by_id(topic_id)
            if topic is not None:
                self._look_at_members(topic_id, topic.partitions[index], replicas)
        self._cluster.loop.in_world(EVERY_S, self._look)

    def _look_at_members(self, topic_id: UUID, decided: PartitionImage, replicas: dict[int, Partition]) -> None:
        """Who may be elected has everything committed, as soon as it is known what it lost while it was away."""
        committed = self._committed.get((topic_id, decided.index), 0)
        for leading in replicas.values():
            if leading.is_leader:
                committed = max(committed, leading.high_watermark)
        self._committed[topic_id, decided.index] = committed
        for broker_id in (*decided.isr, *decided.elr):
            partition = replicas.get(broker_id)
            if partition is None or partition.log.log_end_offset >= committed:
                continue
            if self._decided.is_taken_in(broker_id):
                (name, index), end = partition.topic_partition, partition.log.log_end_offset
                members = f"ISR {decided.isr}, ELR {decided.elr}"
                where = f"{name}-{index} in epoch {decided.leader_epoch}, {members}"
                self._break(f"ISR and ELR hold what is committed: broker {broker_id} has {end} of {committed}, {where}")

    def _look_at(self, process: Process, partition: Partition) -> None:
        (name, index), topic = partition.topic_partition, partition.topic_id
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        where = f"{name}-{index} at {process.name}, epoch {epoch}"
        if partition.is_leader and partition.partition_epoch >= 0:
            leader = self._leaders.setdefault((topic, index, epoch), process)
            if leader is not process:
                self._break(f"one leader an epoch: {where}, and {leader.name}")
            before = self._high_watermarks.get((process, topic, index, epoch), -1)
            if high_watermark < before:
                self._break(f"the high watermark never falls: {where}, from {before} to {high_watermark}")
            self._high_watermarks[process, topic, index, epoch] = high_watermark
        if partition.last_stable_offset > high_watermark:
            self._break(f"LSO is at most the high watermark: {partition.last_stable_offset}, {high_watermark}, {where}")
        if high_watermark > partition.log.log_end_offset:
            self._break(f"the log has what is committed: it ends at {partition.log.log_end_offset}, {where}")

    def _break(self, what: str) -> None:
        self._cluster.is_broken = True
        if len(self.broken) < BROKEN_MAX and what not in self.broken:
            self.broken.append(what)
            self._cluster.trace.tell(f"!!! {what}")
