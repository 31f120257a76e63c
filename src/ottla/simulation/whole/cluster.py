"""A simulated cluster: hosts with brokers, a network, a store, and a trace of what happened."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.runtime.rng import Rng, SeededRng
from ottla.simulation.whole.broker import PORT, BrokerHost
from ottla.simulation.whole.event_loop import SimulatedLoop
from ottla.simulation.whole.network import Network
from ottla.simulation.whole.process import Process
from ottla.simulation.whole.store import Ensemble

SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "100",
    "log.segment.delete.delay.ms": "2000",
    "leader.imbalance.check.interval.seconds": "20",
}
"""The settings of all brokers, unless a schedule changes them."""


class Trace:
    """The events of a run, one per line, with the virtual time; two runs are equal if their hashes are.

    Between time and line is a mark of each broker and of the store: `|` it runs, `x` it misses links, `:` it is paused,
    `.` it does not run.
    """

    def __init__(self, loop: SimulatedLoop, directory: Path) -> None:
        """Where files happen to lie is left out."""
        self.lines: list[str] = []
        self.marks: Callable[[], str] = str
        self._loop = loop
        self._directory = f"{directory}/"

    def tell(self, line: str) -> None:
        """Adds a line to the trace."""
        self.lines.append(f"{self._loop.time():12.6f}  {self.marks()}  {line.replace(self._directory, '')}")

    @property
    def hash(self) -> str:
        """The hash of all lines, and of the current state of all parts."""
        text = "\n".join((*self.lines, f"{self._loop.time()!r} {self._loop.turns}"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class SimulatedCluster:
    """The cluster of one run. `directory` must be empty, and belongs to it."""

    def __init__(self, seed: int, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """What `settings` does not say of the brokers is drawn."""
        self.rng: Rng = SeededRng(seed)
        self.loop = SimulatedLoop(self.draw_rng())
        self.trace = Trace(self.loop, directory)
        self.network = Network(self.loop, self.draw_rng())
        given = {**SETTINGS, **_drawn(self.draw_rng()), **(settings or {})}
        self.flushes = given["log.flush.before.ack"] == "true"
        """Whether brokers flush before they acknowledge."""
        self.session_s = int(given["broker.session.timeout.ms"]) / 1000
        self.lag_s = int(given["replica.lag.time.max.ms"]) / 1000
        self.ensemble = Ensemble(self.network, self.draw_rng(), int(given["broker.session.timeout.ms"]))
        self.all_processes: list[Process] = []
        """Of brokers, those that have ended too."""
        self.client_hosts: list[str] = []
        self.is_broken = False
        """Whether something was seen that must never be."""
        count = 3 if self.rng.random() < 0.7 else 4
        drawn = (f"{name}={given[name]}" for name in ("log.flush.before.ack", "broker.session.timeout.ms"))
        self.described = f"{count} brokers, {', '.join(drawn)}"
        self.brokers = [
            BrokerHost(node_id, directory / f"broker-{node_id}", given, self) for node_id in range(1, count + 1)
        ]
        self.trace.marks = self._marks

    def _marks(self) -> str:
        store = "." if self.ensemble.is_away else "|"
        return " ".join((*(broker.mark for broker in self.brokers), store))

    def draw_rng(self) -> Rng:
        """A separate random generator for one part, so that parts do not influence each other."""
        return SeededRng(self.rng.randbelow(1 << 62))

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses of clients."""
        return ",".join(f"{broker.address}:{PORT}" for broker in self.brokers)

    def new_client_host(self) -> str:
        """The address of one more host, with a client."""
        self.client_hosts.append(f"10.0.1.{len(self.client_hosts) + 1}")
        return self.client_hosts[-1]


def _drawn(rng: Rng) -> dict[str, str]:
    """What brokers of a schedule have in common, and those of others have not."""
    session_ms = (2_000, 3_000, 9_000)[rng.randbelow(3)]
    return {
        "log.flush.before.ack": "true" if rng.random() < 0.5 else "false",
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // 5),
        "replica.lag.time.max.ms": str((1_000, 2_000, 10_000)[rng.randbelow(3)]),
        "log.roll.ms": str((1_000, 10_000, 1 << 40)[rng.randbelow(3)]),
    }
