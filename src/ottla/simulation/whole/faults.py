"""The faults of a simulated cluster.

Each fault is over after a while; several may be there at once.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from ottla.metadata.image.image import PartitionImage
from ottla.runtime.rng import Rng, SeededRng
from ottla.simulation.whole.broker import BrokerHost
from ottla.simulation.whole.cluster import SimulatedCluster
from ottla.simulation.whole.decided_metadata import DecidedMetadata
from ottla.simulation.whole.network import DELAY_S
from ottla.simulation.whole.store import STORE_HOST


class _Fault(Struct, frozen=True):
    """A kind of fault, and how often it comes where it is not left out."""

    weight: int
    begin: "Callable[[Faults], None]"


class Faults:
    """Makes things go wrong until `end`. Belongs to the world."""

    def __init__(
        self, cluster: SimulatedCluster, decided: DecidedMetadata, operate: Callable[[str, Rng], None]
    ) -> None:
        """`operate` has an operator do something."""
        self._cluster = cluster
        self._operate = operate
        self._decided = decided
        self._is_over = False
        self._has_lost = False  # whether something written is gone that the cluster promises to bear once
        # Where nothing is flushed every broker that is killed may have lost what it had, as far as others know: either
        # none does, or one after the other ends in such a way.
        self._is_lossy = not cluster.flushes and cluster.draw_rng().random() < 0.5
        self._rng: Rng
        self._focus = 0

    def begin(self, kind: str, rng: Rng, focus: int = 0) -> None:
        """Starts a fault of a kind in `FAULTS`; `rng` draws its details, `focus` selects the partition."""
        if not self._is_over:
            self._rng, self._focus = rng, focus
            FAULTS[kind].begin(self)

    def end(self) -> None:
        """Ends all faults: links, disks and clocks work, and all brokers run."""
        self._is_over = True
        cluster = self._cluster
        cluster.trace.tell("everything heals")
        cluster.network.mend_all()
        cluster.ensemble.come_back()
        for broker in cluster.brokers:
            broker.disk.slow, broker.disk.is_full, broker.clock.ahead_ms = 1.0, False, 0
            if broker.disk.is_failing:
                self._repair(broker)
            if broker.process is not None:
                cluster.loop.resume(broker.process)
            broker.start()

    def _later(self, delay_s: float, then: Callable[[], None]) -> None:
        """Go on with a fault, unless all has healed by then; its details are its own."""
        rng, focus = SeededRng(self._rng.randbelow(1 << 62)), self._focus

        def unless_over() -> None:
            if not self._is_over:
                self._rng, self._focus = rng, focus
                then()

        self._cluster.loop.in_world(delay_s, unless_over)

    def _one(self) -> BrokerHost:
        """Whom it strikes: who leads the partition, who is in sync, who is not yet, or anybody."""
        draw, brokers, partition = self._rng.random(), self._cluster.brokers, self._partition()
        ids: Sequence[int] = ()
        if partition is not None:
            outside = set(partition.replicas) - set(partition.isr)
            ids = (
                (partition.leader,)
                if draw < 0.4
                else [each for each in partition.isr if each != partition.leader]
                if draw < 0.6
                else sorted(outside)
                if draw < 0.7
                else ()
            )
        found = [broker for broker in brokers if broker.node_id in ids] or brokers
        return found[self._rng.randbelow(len(found))]

    def _partition(self) -> PartitionImage | None:
        """The one that is in the focus, as it was decided last."""
        topics = self._decided.image.topics_by_name
        partitions = [partition for name in sorted(topics) for partition in topics[name].partitions]
        return partitions[self._focus % len(partitions)] if partitions else None

    def _leader_and_others(self) -> tuple[BrokerHost, list[BrokerHost]] | None:
        """Who leads the partition in the focus, and its other replicas in a drawn order."""
        partition = self._partition()
        by_id = {broker.node_id: broker for broker in self._cluster.brokers}
        if partition is None or partition.leader not in by_id:
            return None
        others = [by_id[each] for each in partition.replicas if each != partition.leader and each in by_id]
        drawn = [others.pop(self._rng.randbelow(len(others))) for _ in range(len(others))]
        return by_id[partition.leader], drawn

    def _some_s(self, *most_s: float) -> float:
        """How long something lasts: a moment or long."""
        return self._rng.uniform(0.05, most_s[self._rng.randbelow(len(most_s))])

    def _tell(self, line: str) -> None:
        self._cluster.trace.tell(f"*** {line}")

    # Processes.

    def kill_one(self) -> None:
        """Kills a broker, and starts it later."""
        self._kill(self._one())

    def kill_all(self) -> None:
        """Kills all brokers at once, unless that may lose records."""
        if self._is_lossy:
            return
        self._tell("all brokers are killed")
        for broker in self._cluster.brokers:
            self._kill(broker)

    def _kill(self, broker: BrokerHost) -> None:
        if self._is_lossy and not self._is_whole():
            return
        broker.kill()
        self._later(self._some_s(0.5, 2.0, 8.0), broker.start)

    def stop_one(self) -> None:
        """Stops a broker, and starts it later."""
        broker, pause_s = self._one(), self._rng.uniform(0.1, 4.0)
        if broker.server is None:
            return

        async def stop() -> None:
            await broker.stop()
            self._later(pause_s, broker.start)

        self._cluster.loop.spawn(self._cluster.loop.world, stop())

    def pause_one(self) -> None:
        """Pauses a broker, and resumes it later."""
        broker = self._one()
        process = broker.process
        if process is None or not broker.is_up:
            return
        loop, pause_s = self._cluster.loop, self._some_s(1.0, 5.0, 20.0)
        self._tell(f"broker {broker.node_id} is stopped for {pause_s:.1f} s")
        loop.pause(process)
        self._later(pause_s, lambda: loop.resume(process))

    # Disks.

    def cut_power_of_one(self) -> None:
        """Cuts the power of a host."""
        broker = self._one()
        if self._may_lose(broker):
            self._cut_power(broker)

    def lose_disk(self) -> None:
        """Restarts a host with an empty disk."""
        broker = self._one()
        if self._may_lose(broker, everything=True):
            broker.lose_disk()
            self._later(self._some_s(1.0, 8.0), broker.start)

    def _may_lose(self, broker: BrokerHost, *, everything: bool = False) -> bool:
        """Whether what a broker has not flushed may be lost, or everything: where the cluster flushes the first always,
        the second once; where it does not, when all others have it, and as many runs lose nothing.
        """
        topics = self._decided.image.topics_by_name.values()
        others = [
            set(partition.replicas) - set(partition.adding) - {broker.node_id}
            for topic in topics
            for partition in topic.partitions
        ]
        if not self._cluster.flushes:
            return self._is_lossy and bool(others) and all(others) and self._is_whole()
        if not everything:
            return True
        if self._has_lost or not others:
            return False
        self._has_lost = all(others)
        return self._has_lost

    def _is_whole(self) -> bool:
        """Whether every replica is in sync, by what the controller knows of the processes that run."""
        return all(
            broker.is_up and self._decided.is_taken_in(broker.node_id) for broker in self._cluster.brokers
        ) and all(
            len(partition.isr) == len(partition.replicas)
            for topic in self._decided.image.topics_by_name.values()
            for partition in topic.partitions
        )

    def cut_power_of_all(self) -> None:
        """Cuts the power of all hosts, if the cluster guarantees to survive that."""
        if self._cluster.flushes:
            self._tell("there is no power")
            for broker in self._cluster.brokers:
                self._cut_power(broker)

    def _cut_power(self, broker: BrokerHost) -> None:
        broker.cut_power()
        self._later(self._some_s(1.0, 8.0), broker.start)

    def slow_disk(self) -> None:
        """Slows down the disk of a host."""
        broker, factor = self._one(), self._rng.uniform(10.0, 200.0)
        self._tell(f"the disk of broker {broker.node_id} is {factor:.0f} times slower")
        broker.disk.slow = factor

        def sound() -> None:
            broker.disk.slow = 1.0

        self._later(self._rng.uniform(1.0, 10.0), sound)

    def full_disk(self) -> None:
        """Fills the disk of a host for a while."""
        broker = self._one()
        self._tell(f"the disk of broker {broker.node_id} is full")
        broker.disk.is_full = True

        def empty() -> None:
            self._tell(f"the disk of broker {broker.node_id} has room again")
            broker.disk.is_full = False

        self._later(self._rng.uniform(0.5, 6.0), empty)

    def failing_disk(self) -> None:
        """Make writes and syncs of a host fail for a while; then restart the host, as brokers require."""
        broker, pause_s = self._one(), self._rng.uniform(0.1, 4.0)
        if self._is_lossy:
            return
        self._tell(f"the disk of broker {broker.node_id} fails")
        broker.disk.is_failing = True

        def sound() -> None:
            self._repair(broker)
            self._later(pause_s, broker.start)

        self._later(self._rng.uniform(0.5, 6.0), sound)

    def _repair(self, broker: BrokerHost) -> None:
        self._tell(f"the disk of broker {broker.node_id} is sound again")
        broker.disk.is_failing = False
        if self._cluster.flushes:
            broker.cut_power()
        else:
            broker.kill()

    def jump_clock(self) -> None:
        """Shifts the wall clock of a host."""
        broker = self._one()
        broker.clock.ahead_ms = self._rng.randbelow(7_200_000) - 3_600_000
        self._tell(f"the clock of broker {broker.node_id} is {broker.clock.ahead_ms} ms ahead")

    # Links.

    def cut_off_one(self) -> None:
        """Isolates a broker from all others."""
        broker = self._one()
        others = [each.address for each in self._cluster.brokers if each is not broker]
        hosts = [*others, STORE_HOST, *self._cluster.client_hosts]
        self._tell(f"broker {broker.node_id} is cut off")
        self._cut([(broker.address, host) for host in hosts] + [(host, broker.address) for host in hosts])

    def cut_off_from_store(self) -> None:
        """Cuts the links between a broker and the store."""
        broker = self._one()
        self._tell(f"broker {broker.node_id} is cut off from the store")
        self._cut([(broker.address, STORE_HOST), (STORE_HOST, broker.address)])

    def cut_one_way(self) -> None:
        """Cuts the links of a broker in one direction."""
        broker = self._one()
        others = [each.address for each in self._cluster.brokers if each is not broker]
        if self._rng.random() < 0.5:
            self._tell(f"broker {broker.node_id} hears the others and is not heard by them")
            self._cut([(broker.address, host) for host in others])
        else:
            self._tell(f"broker {broker.node_id} is heard by the others and does not hear them")
            self._cut([(host, broker.address) for host in others])

    def cut_two(self) -> None:
        """Cuts the links between two brokers."""
        one, other = self._one(), self._one()
        if one is not other:
            self._tell(f"brokers {one.node_id} and {other.node_id} are cut off from each other")
            self._cut([(one.address, other.address), (other.address, one.address)])

    def _cut(self, pairs: list[tuple[str, str]]) -> None:
        self._cut_until(pairs, self._some_s(1.0, 4.0, 15.0))

    def _cut_for(self, some: Sequence[BrokerHost], others: Sequence[BrokerHost], time_s: float) -> None:
        """None of some and of others reach each other."""
        pairs = [(one.address, other.address) for one in some for other in others if one is not other]
        self._cut_until([*pairs, *((other, one) for one, other in pairs)], time_s)

    def _cut_until(self, pairs: list[tuple[str, str]], time_s: float) -> None:
        network = self._cluster.network
        for pair in pairs:
            network.cut(*pair)

        def mend() -> None:
            self._tell("links are mended")
            for pair in pairs:
                network.mend(*pair)

        self._later(time_s, mend)

    def slow_links(self) -> None:
        """Delays what a broker sends."""
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
        """Resets some connections, possibly within a frame."""
        hosts = [*(each.address for each in self._cluster.brokers), *self._cluster.client_hosts]
        count = sum(self._cluster.network.reset_one(hosts) for _ in range(1 + self._rng.randbelow(6)))
        self._tell(f"{count} connections are reset")

    def lose_store(self) -> None:
        """Makes the store unavailable."""
        self._tell("the store is away")
        self._cluster.ensemble.is_away = True

        def back() -> None:
            self._tell("the store is back")
            self._cluster.ensemble.come_back()

        self._later(self._some_s(1.0, 4.0, 15.0), back)

    # Several at once, around one partition.

    def leave_behind(self) -> None:
        """A follower misses what the leader goes on with, until that ends; who decides may not be asked meanwhile."""
        found = self._leader_and_others()
        if found is None or not found[1]:
            return
        leader, others = found
        behind = others[0]
        self._tell(f"broker {behind.node_id} misses what broker {leader.node_id} does")
        self._cut_for([leader], [behind], self._some_s(4.0, 8.0))
        if self._rng.random() < 0.5:
            self._later(self._some_s(1.0, 3.0), self.lose_store)
        self._end_later(leader, self._some_s(1.0, 5.0))
        if self._rng.random() < 0.3:
            self._end_later(others[-1], self._some_s(1.0, 5.0))

    def leave_alone(self) -> None:
        """A leader has clients and no followers, and ends."""
        found = self._leader_and_others()
        if found is None:
            return
        leader, _ = found
        self._tell(f"broker {leader.node_id} is left alone with its clients")
        self._cut_for([leader], [each for each in self._cluster.brokers if each is not leader], self._some_s(1.0, 6.0))
        self._end_later(leader, self._some_s(0.3, 1.0, 3.0))

    def change_leaders(self) -> None:
        """One leader after the other ends and is back soon, with or without having heard of the others."""
        found = self._leader_and_others()
        if found is None:
            return
        leader, others = found
        if self._rng.random() < 0.6:
            self._tell("no replica hears of the others")
            self._cut_for([leader, *others], [leader, *others], self._some_s(1.5, 5.0))
        at_s = 0.0
        for _ in range(2 + self._rng.randbelow(4)):
            at_s += self._some_s(0.3, 1.5)
            self._later(at_s, self._end_leader)

    def leave_unheard(self) -> None:
        """A leader proposes an ISR that the controller hears of late, when another may lead."""
        found, cluster = self._leader_and_others(), self._cluster
        controller = [each for each in cluster.brokers if each.node_id == self._decided.image.controller_id]
        if found is None or not found[1] or found[0] in controller:
            return
        leader, others = found
        self._tell(f"what broker {leader.node_id} proposes is heard late")
        self._cut_for([leader], others[:1], cluster.lag_s + cluster.session_s + 4.0)
        heard_s = cluster.session_s + self._some_s(4.0)
        self._later(cluster.lag_s * self._rng.uniform(0.9, 1.3), lambda: self._cut_for([leader], controller, heard_s))

    def change_minds(self) -> None:
        """The first replica is made the leader, does not reach the one before it, and ends."""
        partition, found = self._partition(), self._leader_and_others()
        if partition is None or found is None or not found[1]:
            return
        if partition.leader == partition.replicas[0]:
            self._end_leader()
            self._later(self._rng.uniform(1.0, 2.5), self._part_from_preferred)
        else:
            self._part_from_preferred()

    def _part_from_preferred(self) -> None:
        partition, found = self._partition(), self._leader_and_others()
        if partition is None or found is None or partition.leader == partition.replicas[0]:
            return
        leader, others = found
        preferred = [each for each in others if each.node_id == partition.replicas[0]]
        self._tell(f"broker {leader.node_id} does not reach broker {partition.replicas[0]}, which is to lead")
        self._cut_for([leader], preferred, self._some_s(2.0, 4.0))
        rng, at_s = SeededRng(self._rng.randbelow(1 << 62)), self._some_s(0.8)
        self._later(at_s, lambda: self._operate("elect", rng))
        self._later(at_s + 0.2 + self._some_s(0.8), self._end_leader)

    def _end_later(self, broker: BrokerHost, delay_s: float) -> None:
        self._later(delay_s, lambda: self._end_now(broker))

    def _end_leader(self) -> None:
        found = self._leader_and_others()
        if found is not None:
            self._end_now(found[0])

    def _end_now(self, broker: BrokerHost) -> None:
        """It is killed, or its host is."""
        if self._rng.random() < 0.5 and self._may_lose(broker):
            self._cut_power(broker)
        else:
            self._kill(broker)


FAULTS: Final = {
    "change leaders": _Fault(3, Faults.change_leaders),
    "change minds": _Fault(3, Faults.change_minds),
    "clock": _Fault(1, Faults.jump_clock),
    "cut off": _Fault(3, Faults.cut_off_one),
    "cut off from the store": _Fault(2, Faults.cut_off_from_store),
    "cut one way": _Fault(2, Faults.cut_one_way),
    "cut two": _Fault(2, Faults.cut_two),
    "disk lost": _Fault(1, Faults.lose_disk),
    "failing disk": _Fault(1, Faults.failing_disk),
    "full disk": _Fault(1, Faults.full_disk),
    "kill": _Fault(5, Faults.kill_one),
    "kill all": _Fault(1, Faults.kill_all),
    "leave alone": _Fault(3, Faults.leave_alone),
    "leave behind": _Fault(3, Faults.leave_behind),
    "leave unheard": _Fault(2, Faults.leave_unheard),
    "no store": _Fault(1, Faults.lose_store),
    "pause": _Fault(3, Faults.pause_one),
    "power cut": _Fault(4, Faults.cut_power_of_one),
    "power cut of all": _Fault(1, Faults.cut_power_of_all),
    "reset": _Fault(3, Faults.reset_connections),
    "slow disk": _Fault(2, Faults.slow_disk),
    "slow links": _Fault(2, Faults.slow_links),
    "stop": _Fault(3, Faults.stop_one),
}
