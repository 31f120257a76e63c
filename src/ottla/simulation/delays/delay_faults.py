"""What goes wrong around a simulated delay topic, and is well again some time later."""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.runtime.rng import Rng
from ottla.server.delay_mover import FULL_MS
from ottla.simulation.delays.delay_broker import DelayBroker
from ottla.simulation.delays.delay_cluster import DelayCluster

DOWN_S_MAX: Final = 3.0
PAUSE_S_MAX: Final = 4.0
FULL_S_MAX: Final = 8.0
ATTENTION: Final = 0.6
"""How often a fault is of the leader, whoever that is."""


class DelayFaults:
    """Belongs to the world."""

    def __init__(self, cluster: DelayCluster, rng: Rng) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self._replicas = cluster.replicas
        self._rng = rng
        cluster.on_death_in_thread = lambda broker: self._kill(broker, power=True)
        self._kinds: Mapping[str, Callable[[DelayBroker, Rng], object]] = {
            "kill": lambda broker, _: self._kill(broker, power=False),
            "power": lambda broker, _: self._kill(broker, power=True),
            "die in a thread": self._die_in_thread,
            "pause": self._pause,
            "move the leader": lambda broker, _: self._replicas.elect(avoid=broker.replica, told_s=0.005),
            "move it unknown": self._move_unknown,
            "jump": self._jump,
            "lose requests": self._lose_requests,
            "slow markers": self._slow_markers,
            "full disk": self._fill,
            "damage": lambda broker, _: broker.damage(),
            "delete the target": self._delete_target,
            "lag": self._lag,
            "no coordinator": self._lose_all_requests,
            "change the delay": self._change_delay,
        }

    def begin(self, kind: str, rng: Rng) -> None:
        """Have it happen. Raises KeyError for a kind that there is not."""
        cluster = self._cluster
        broker = cluster.brokers[rng.randbelow(len(cluster.brokers))]
        if self._replicas.leader is not None and rng.random() < ATTENTION:
            broker = cluster.brokers[self._replicas.leader.number]
        cluster.say(f"*** {kind}, broker {broker.replica.number}")
        cluster.disturb()
        self._kinds[kind](broker, rng)

    def end(self) -> None:
        """Everything is well."""
        self._cluster.target.slow_chance = 0.0
        self._make_target()
        for broker in self._cluster.brokers:
            self._answer(broker)
            self._empty(broker)
            broker.dies_in_thread = False
            self._start(broker)
            self._resume(broker)

    # --- brokers ----------------------------------------------------------------------------------------------------

    def _kill(self, broker: DelayBroker, *, power: bool) -> None:
        if not broker.is_up:
            return
        self._cluster.disturb()
        loses = self._rng.randbelow(4) if power else 0
        if not self._replicas.is_unclean and self._replicas.in_sync == {broker.replica.number}:
            loses = 0  # the disk has what one alone has acknowledged
        self._cluster.say(f"broker {broker.replica.number} ends{f' and loses {loses} batches' if loses else ''}")
        broker.kill(power=power)
        self._replicas.went(broker.replica, loses=loses)
        self._loop.in_world(self._rng.uniform(0.05, DOWN_S_MAX), self._start, broker)

    def _start(self, broker: DelayBroker) -> None:
        if not broker.is_up:
            self._cluster.say(f"broker {broker.replica.number} starts")
            broker.start()
            self._replicas.came(broker.replica)

    def _die_in_thread(self, broker: DelayBroker, _rng: Rng) -> None:
        broker.dies_in_thread = True

    def _pause(self, broker: DelayBroker, rng: Rng) -> None:
        if broker.process is None:
            return
        self._loop.pause(broker.process)
        broker.replica.is_paused = True
        self._loop.in_world(rng.uniform(0.0, PAUSE_S_MAX), self._resume, broker)
        if broker.replica is self._replicas.leader:
            if rng.random() < 0.5:
                self._replicas.elect(avoid=broker.replica)
        else:
            self._loop.in_world(rng.uniform(0.3, PAUSE_S_MAX), self._replicas.drop, broker.replica)

    def _resume(self, broker: DelayBroker) -> None:
        self._cluster.disturb()
        if broker.process is not None:
            self._loop.resume(broker.process)
        self._replicas.catch_up(broker.replica)

    def _move_unknown(self, broker: DelayBroker, rng: Rng) -> None:
        self._replicas.elect(avoid=broker.replica, told_s=rng.uniform(0.0, PAUSE_S_MAX))

    def _lag(self, broker: DelayBroker, rng: Rng) -> None:
        broker.replica.is_lagging = broker.replica is not self._replicas.leader
        self._loop.in_world(rng.uniform(0.0, 1.0), self._replicas.drop, broker.replica)
        self._loop.in_world(rng.uniform(0.0, DOWN_S_MAX), self._catch_up, broker)

    def _catch_up(self, broker: DelayBroker) -> None:
        if not broker.replica.is_paused:
            self._replicas.catch_up(broker.replica)

    # --- clocks and disks -------------------------------------------------------------------------------------------

    def _jump(self, broker: DelayBroker, rng: Rng) -> None:
        sign = 1 if rng.random() < 0.5 else -1
        jump_ms = sign * rng.randbelow((100, 3_000, 3_600_000)[rng.randbelow(3)])
        self._cluster.say(f"by {jump_ms:,} ms")
        for each in self._cluster.brokers if rng.random() < 0.3 else (broker,):
            each.clock.ahead_ms += jump_ms

    def _fill(self, broker: DelayBroker, rng: Rng) -> None:
        full_s = rng.uniform(0.0, FULL_S_MAX)
        broker.disk.is_full = True
        self._cluster.rules.blind(self._cluster.now_ms + int(full_s * 1000) + FULL_MS)
        self._loop.in_world(full_s, self._empty, broker)

    def _empty(self, broker: DelayBroker) -> None:
        if broker.disk.is_full:
            self._cluster.disturb(FULL_MS)
            broker.disk.is_full = False

    # --- requests and topics ----------------------------------------------------------------------------------------

    def _lose_requests(self, broker: DelayBroker, rng: Rng) -> None:
        broker.requests.lost_chance = rng.uniform(0.0, 0.5)
        self._loop.in_world(rng.uniform(0.0, DOWN_S_MAX), self._answer, broker)

    def _lose_all_requests(self, _broker: DelayBroker, rng: Rng) -> None:
        for each in self._cluster.brokers:
            each.requests.lost_chance = 1.0
            self._loop.in_world(rng.uniform(0.5, DOWN_S_MAX), self._answer, each)

    def _answer(self, broker: DelayBroker) -> None:
        self._cluster.disturb()
        broker.requests.lost_chance = 0.0

    def _slow_markers(self, _broker: DelayBroker, rng: Rng) -> None:
        self._cluster.target.slow_chance = 0.3
        self._loop.in_world(rng.uniform(1.0, DOWN_S_MAX), self._markers_in_time)

    def _markers_in_time(self) -> None:
        self._cluster.target.slow_chance = 0.0
        self._cluster.disturb()

    def _delete_target(self, _broker: DelayBroker, rng: Rng) -> None:
        self._cluster.target.is_there = False
        self._loop.in_world(rng.uniform(0.0, PAUSE_S_MAX), self._make_target)

    def _make_target(self) -> None:
        self._cluster.disturb()
        self._cluster.target.is_there = True

    def _change_delay(self, _broker: DelayBroker, rng: Rng) -> None:
        cluster = self._cluster
        cluster.delay_ms = cluster.settings.delays_ms[rng.randbelow(len(cluster.settings.delays_ms))]
        cluster.say(f"to {cluster.delay_ms:,} ms")
        for broker in cluster.brokers:
            led = broker.replica.led
            if led is not None:
                self._loop.in_world(rng.uniform(0.0, 0.05), broker.lead, led)
