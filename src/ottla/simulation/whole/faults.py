"""What goes wrong in a simulated cluster, in the order of a seed.

Some kinds of faults are left out of a schedule, others come often (swarm testing). Each begins at a time of its own and
is over after a while; several may be there at once.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from ottla.runtime.rng import Rng
from ottla.simulation.whole.broker import BrokerHost
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.network import DELAY_S
from ottla.simulation.whole.store import STORE_HOST

PAUSE_S: Final = 0.2
"""How long it takes at least until the next fault."""

PAUSE_S_MAX: Final = (1.5, 8.0)
"""And how long at most: drawn for each schedule, so that some have little rest and others heal in between."""


class _Fault(Struct, frozen=True):
    """A kind of fault, and how often it comes where it is not left out."""

    weight: int
    begin: "Callable[[Faults], None]"


class Faults:
    """Makes things go wrong, from `start` to `end`. Belongs to the world."""

    def __init__(self, cluster: SimulatedCluster, rng: Rng, kinds: Sequence[str] = ()) -> None:
        """Of these kinds, or of those that are drawn."""
        self._cluster = cluster
        self._rng = rng
        self._is_over = False
        self._has_cut_power = False
        drawn = [kind for kind in _KINDS if rng.random() < 0.5] or list(_KINDS)
        self.names = sorted(kinds or drawn)
        self._drawn = [kind for kind in self.names for _ in range(_KINDS[kind].weight)]
        self._pause_s = rng.uniform(*PAUSE_S_MAX)

    def start(self) -> None:
        """From now on."""
        self._later(self._rng.uniform(0.2, 1.5), self._next)

    def end(self) -> None:
        """Everything heals: links, disks, clocks, and all brokers run."""
        self._is_over = True
        cluster = self._cluster
        cluster.trace.tell("everything heals")
        cluster.network.mend_all()
        cluster.ensemble.come_back()
        for broker in cluster.brokers:
            broker.disk.slow, broker.disk.is_full, broker.clock.ahead_ms = 1.0, False, 0
            if broker.process is not None:
                cluster.loop.resume(broker.process)
            broker.start()

    def _next(self) -> None:
        if self._is_over:
            return
        kind = self._drawn[self._rng.randbelow(len(self._drawn))]
        _KINDS[kind].begin(self)
        self._later(self._rng.uniform(PAUSE_S, self._pause_s), self._next)

    def _later(self, delay_s: float, then: Callable[[], None]) -> None:
        def unless_over() -> None:
            if not self._is_over:
                then()

        self._cluster.loop.in_world(delay_s, unless_over)

    def _one(self) -> BrokerHost:
        brokers = self._cluster.brokers
        return brokers[self._rng.randbelow(len(brokers))]

    def _tell(self, line: str) -> None:
        self._cluster.trace.tell(f"*** {line}")

    # Processes.

    def kill_one(self) -> None:
        """SIGKILL, and a start some time later."""
        self._kill(self._one())

    def kill_all(self) -> None:
        """All at once."""
        self._tell("all brokers are killed")
        for broker in self._cluster.brokers:
            self._kill(broker)

    def _kill(self, broker: BrokerHost) -> None:
        broker.kill()
        self._later(self._rng.uniform(0.1, 8.0), broker.start)

    def stop_one(self) -> None:
        """SIGTERM, and a start some time later."""
        broker = self._one()
        if broker.server is None:
            return

        async def stop() -> None:
            await broker.stop()
            self._later(self._rng.uniform(0.1, 4.0), broker.start)

        self._cluster.loop.spawn(self._cluster.loop.world, stop())

    def pause_one(self) -> None:
        """SIGSTOP, and on again."""
        broker = self._one()
        process = broker.process
        if process is None or not broker.is_up:
            return
        loop, pause_s = self._cluster.loop, self._rng.uniform(0.5, 20.0)
        self._tell(f"broker {broker.node_id} is stopped for {pause_s:.1f} s")
        loop.pause(process)
        self._later(pause_s, lambda: loop.resume(process))

    # Disks.

    def cut_power_of_one(self) -> None:
        """The host is gone; where the cluster does not flush before it acknowledges, this may happen once."""
        if self._has_cut_power and not self._cluster.flushes:
            return
        self._has_cut_power = True
        self._cut_power(self._one())

    def cut_power_of_all(self) -> None:
        """All hosts at once, where the cluster promises to bear that."""
        if self._cluster.flushes:
            self._tell("there is no power")
            for broker in self._cluster.brokers:
                self._cut_power(broker)

    def _cut_power(self, broker: BrokerHost) -> None:
        broker.cut_power()
        self._later(self._rng.uniform(0.5, 8.0), broker.start)

    def slow_disk(self) -> None:
        """Everything takes longer there."""
        broker, factor = self._one(), self._rng.uniform(10.0, 200.0)
        self._tell(f"the disk of broker {broker.node_id} is {factor:.0f} times slower")
        broker.disk.slow = factor

        def sound() -> None:
            broker.disk.slow = 1.0

        self._later(self._rng.uniform(1.0, 10.0), sound)

    def full_disk(self) -> None:
        """Nothing can be written there for a while."""
        broker = self._one()
        self._tell(f"the disk of broker {broker.node_id} is full")
        broker.disk.is_full = True

        def empty() -> None:
            self._tell(f"the disk of broker {broker.node_id} has room again")
            broker.disk.is_full = False

        self._later(self._rng.uniform(0.5, 6.0), empty)

    def jump_clock(self) -> None:
        """The wall clock of a host is wrong from now on."""
        broker = self._one()
        broker.clock.ahead_ms = self._rng.randbelow(7_200_000) - 3_600_000
        self._tell(f"the clock of broker {broker.node_id} is {broker.clock.ahead_ms} ms ahead")

    # Links.

    def cut_off_one(self) -> None:
        """Nobody reaches a broker, and it reaches nobody."""
        broker = self._one()
        others = [each.address for each in self._cluster.brokers if each is not broker]
        hosts = [*others, STORE_HOST, *self._cluster.client_hosts]
        self._tell(f"broker {broker.node_id} is cut off")
        self._cut([(broker.address, host) for host in hosts] + [(host, broker.address) for host in hosts])

    def cut_off_from_store(self) -> None:
        """A broker and the store do not reach each other."""
        broker = self._one()
        self._tell(f"broker {broker.node_id} is cut off from the store")
        self._cut([(broker.address, STORE_HOST), (STORE_HOST, broker.address)])

    def cut_one_way(self) -> None:
        """What a broker sends reaches the others no more, or what they send to it."""
        broker = self._one()
        others = [each.address for each in self._cluster.brokers if each is not broker]
        if self._rng.random() < 0.5:
            self._tell(f"broker {broker.node_id} hears the others and is not heard by them")
            self._cut([(broker.address, host) for host in others])
        else:
            self._tell(f"broker {broker.node_id} is heard by the others and does not hear them")
            self._cut([(host, broker.address) for host in others])

    def cut_two(self) -> None:
        """Two brokers do not reach each other."""
        one, other = self._one(), self._one()
        if one is not other:
            self._tell(f"brokers {one.node_id} and {other.node_id} are cut off from each other")
            self._cut([(one.address, other.address), (other.address, one.address)])

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        network = self._cluster.network
        for pair in pairs:
            network.cut(*pair)

        def mend() -> None:
            self._tell("links are mended")
            for pair in pairs:
                network.mend(*pair)

        self._later(self._rng.uniform(0.5, 15.0), mend)

    def slow_links(self) -> None:
        """What a broker sends takes long."""
        broker, delay_s = self._one(), self._rng.uniform(0.01, 0.4)
        self._tell(f"what broker {broker.node_id} sends takes up to {delay_s * 1000:.0f} ms")
        hosts = [each.address for each in self._cluster.brokers if each is not broker]
        links = [self._cluster.network.link(broker.address, host) for host in (*hosts, *self._cluster.client_hosts)]
        for link in links:
            link.delay_s = (0.0, delay_s)

        def fast() -> None:
            for link in links:
                link.delay_s = DELAY_S

        self._later(self._rng.uniform(1.0, 10.0), fast)

    def reset_connections(self) -> None:
        """Some connections break, in the middle of whatever they carry."""
        hosts = [*(each.address for each in self._cluster.brokers), *self._cluster.client_hosts]
        count = sum(self._cluster.network.reset_one(hosts) for _ in range(1 + self._rng.randbelow(6)))
        self._tell(f"{count} connections are reset")

    def lose_store(self) -> None:
        """The store answers nobody."""
        self._tell("the store is away")
        self._cluster.ensemble.is_away = True

        def back() -> None:
            self._tell("the store is back")
            self._cluster.ensemble.come_back()

        self._later(self._rng.uniform(0.5, 15.0), back)


_KINDS: Final = {
    "clock": _Fault(1, Faults.jump_clock),
    "cut off": _Fault(3, Faults.cut_off_one),
    "cut off from the store": _Fault(2, Faults.cut_off_from_store),
    "cut one way": _Fault(2, Faults.cut_one_way),
    "cut two": _Fault(2, Faults.cut_two),
    "full disk": _Fault(1, Faults.full_disk),
    "kill": _Fault(5, Faults.kill_one),
    "kill all": _Fault(1, Faults.kill_all),
    "no store": _Fault(1, Faults.lose_store),
    "pause": _Fault(3, Faults.pause_one),
    "power cut": _Fault(4, Faults.cut_power_of_one),
    "power cut of all": _Fault(1, Faults.cut_power_of_all),
    "reset": _Fault(3, Faults.reset_connections),
    "slow disk": _Fault(2, Faults.slow_disk),
    "slow links": _Fault(2, Faults.slow_links),
    "stop": _Fault(3, Faults.stop_one),
}
