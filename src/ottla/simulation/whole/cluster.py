"""A simulated cluster: hosts with brokers, a network, a store, and a trace of what happened."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.runtime.rng import Rng, SeededRng
from ottla.simulation.whole.broker import BrokerHost
from ottla.simulation.whole.event_loop import SimulatedLoop
from ottla.simulation.whole.network import Network
from ottla.simulation.whole.store import Ensemble

SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "100",
}
"""What every broker is given, unless a schedule says otherwise."""


class Trace:
    """What happened, line by line, with the virtual time; two runs are the same when their hashes are."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.lines: list[str] = []
        self._loop = loop

    def tell(self, line: str) -> None:
        """Something happened."""
        self.lines.append(f"{self._loop.time():12.6f} {line}")

    @property
    def hash(self) -> str:
        """Of all lines so far, and of how far everything had got."""
        text = "\n".join((*self.lines, f"{self._loop.time()!r} {self._loop.turns}"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class SimulatedCluster:
    """Everything of one run. `directory` is empty and belongs to it."""

    def __init__(self, seed: int, directory: Path, count: int, settings: Mapping[str, str]) -> None:
        self.rng: Rng = SeededRng(seed)
        self.loop = SimulatedLoop(self._draw())
        self.trace = Trace(self.loop)
        self.network = Network(self.loop, self._draw())
        given = {**SETTINGS, **settings}
        timeout_ms = int(given.get("broker.session.timeout.ms", "9000"))
        self.ensemble = Ensemble(self.network, self._draw(), timeout_ms)
        self.brokers = [
            BrokerHost(
                node_id,
                directory / f"broker-{node_id}",
                given,
                self.loop,
                self.network,
                self.ensemble,
                self._draw(),
                self.trace.tell,
            )
            for node_id in range(1, count + 1)
        ]

    def _draw(self) -> Rng:
        """A generator of its own for a part, so that what one part draws changes nothing for the others."""
        return SeededRng(self.rng.randbelow(1 << 62))

    @property
    def bootstrap(self) -> str:
        """Where clients begin."""
        return ",".join(f"{broker.address}:9092" for broker in self.brokers)
