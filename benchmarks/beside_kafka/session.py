"""One target in one round: its broker or its three, the load against it, and where the figures go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from benchmarks.beside_kafka.aims import LONGEST_STALL, OTHERS_CORES, STALLED
from benchmarks.beside_kafka.brokers import Broker, Target
from benchmarks.beside_kafka.cluster import Cluster
from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.load_generator import LoadGenerator, compiled, librdkafka
from benchmarks.beside_kafka.process_usage import CpuSeconds, cpu_seconds, machine_busy_seconds, own_seconds
from benchmarks.beside_kafka.stalls import Stalls, watching

WARM_UP_RECORDS = 1_000_000
ADMIN_PATIENCE_S = 300.0
OPENSSL = ("-lssl", "-lcrypto")
OF_OPENSSL = frozenset({"secure_connections", "handshakes"})
"""Programs that need OpenSSL's headers (Debian: libssl-dev)."""
PARTITIONS_AT_ONCE = 5_000  # Kafka refuses to make ten thousand in one request


@dataclass
class Session:
    """Given to each row. `scale` multiplies counts and times; 1 is a real run, a smoke test takes a thousandth."""

    target: Target
    work: Path  # data directories and programs are made here
    figures: Figures
    kafka_class_path: Callable[[], str]
    fill_page_cache: Callable[[], object]
    say: Callable[[str], None]
    scale: float = 1.0
    catch_up_gb: float = 1.0
    """How far a replica is behind that catches up."""
    _brokers: int = field(default=0)

    def new_broker(self, **settings: str) -> Broker:
        """A broker over a new, empty data directory; not started."""
        self._brokers += 1
        broker = Broker(self.target, self.work / f"data-{self._brokers}", settings, self.kafka_class_path)
        broker.remove()
        return broker

    def new_cluster(self) -> Cluster:
        """Three brokers over new, empty data directories; not started."""
        self._brokers += 1
        cluster = Cluster(self.target, self.work / f"cluster-{self._brokers}", self.kafka_class_path)
        cluster.remove()
        return cluster

    def program(self, name: str) -> Path:
        """A compiled part of the load generator."""
        libraries = (librdkafka(),) if name == "load" else ()
        return compiled(name, self.work / "bin", libraries, OPENSSL if name in OF_OPENSSL else ())

    def load(self, broker: Broker | Cluster) -> LoadGenerator:
        return LoadGenerator(self.program("load"), broker.bootstrap)

    def count(self, records: int) -> int:
        """Scaled, and at least one."""
        return max(1, int(records * self.scale))

    def seconds(self, seconds: float) -> float:
        """Scaled, and at least a fifth of a second."""
        return max(0.2, seconds * self.scale)

    def record(self, row: str, metric: str, value: float) -> None:
        self.figures.add(row, metric, self.target.key, value)

    def create_topic(
        self, broker: Broker | Cluster, name: str, partitions: int = 1, replication_factor: int = 1, **configs: str
    ) -> float:
        """Seconds until every partition of the new topic has a leader."""
        begun = time.perf_counter()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        topic = NewTopic(name, min(partitions, PARTITIONS_AT_ONCE), replication_factor, config=configs)
        for creation in admin.create_topics([topic], request_timeout=ADMIN_PATIENCE_S).values():
            creation.result()
        for total in range(2 * PARTITIONS_AT_ONCE, partitions + PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE):
            growth = NewPartitions(name, min(total, partitions))
            for creation in admin.create_partitions([growth], request_timeout=ADMIN_PATIENCE_S).values():
                creation.result()
        until = begun + ADMIN_PATIENCE_S
        while time.perf_counter() < until:
            known = admin.list_topics(name, timeout=ADMIN_PATIENCE_S).topics[name]
            if len(known.partitions) == partitions and all(each.leader >= 0 for each in known.partitions.values()):
                return time.perf_counter() - begun
            time.sleep(0.01)
        raise TimeoutError(f"{name} has no leaders after {ADMIN_PATIENCE_S:.0f} s")

    def warm_up(self, broker: Broker) -> None:
        """A million records in and out, uncounted: for the JVM's compiler, and the same for everyone."""
        load, count = self.load(broker), self.count(WARM_UP_RECORDS)
        self.create_topic(broker, "warm-up")
        load.produce("warm-up", size=100, count=count)
        load.consume("warm-up", count=count)

    def measure_cpu(self, broker: Broker | Cluster) -> Callable[[], CpuSeconds]:
        """Call it when the work is done, for what the broker, or all of the cluster, used since now."""
        before = {pid: cpu_seconds(pid) for pid in broker.pids}
        return lambda: sum((cpu_seconds(pid) - used for pid, used in before.items()), start=CpuSeconds(0.0, 0.0))

    @contextmanager
    def noting_others(self, row: str, broker: Broker | Cluster) -> Iterator[None]:
        """Records how many cores others took than the brokers and the load, which has ended by then; and how long the
        machine stood still, where that can be seen.
        """
        with watching(self.program("stalls")) as stalls:
            begun, busy, used = time.perf_counter(), machine_busy_seconds() - own_seconds(), self.measure_cpu(broker)
            yield
            taken = machine_busy_seconds() - own_seconds() - busy - used().total
            self.record(row, OTHERS_CORES, max(0.0, taken / (time.perf_counter() - begun)))
        self.record_stalls(row, stalls)

    def record_stalls(self, row: str, stalls: Stalls) -> None:
        """Those of the machine while a row was measured, if they are known."""
        if stalls.per_mille is not None and stalls.longest_ms is not None:
            self.record(row, STALLED, stalls.per_mille)
            self.record(row, LONGEST_STALL, stalls.longest_ms)
            self.say(f"{row}: the machine stood still for {stalls.per_mille:.1f} ‰, {stalls.longest_ms:.1f} ms at most")
