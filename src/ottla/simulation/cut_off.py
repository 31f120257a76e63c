"""Network partitions between brokers that all reach the store: the part that can serve must go on.

    a schedule, run to its end: all is well
    links between brokers are cut, those to the store are not
    rounds: heartbeats --> the controller fences who is silent, or resigns --> another is elected --> a write

The broker's own `HeartbeatTracker` and `CheckQuorum` hold the controller's knowledge of heartbeats. The links stay
cut.
"""

from collections.abc import Iterable
from itertools import permutations
from typing import Final

from ottla.metadata.controller.check_quorum import CheckQuorum
from ottla.metadata.controller.heartbeat_tracker import HeartbeatTracker
from ottla.simulation import controlling, following, leading
from ottla.simulation.clients import Producer
from ottla.simulation.ledger import violated
from ottla.simulation.messages import PRODUCE
from ottla.simulation.world import DATA, Broker, World

ROUND_MS: Final = 500
"""The interval between heartbeats: one round."""

SESSION_MS: Final = 9_000

STAND_BACK_ROUNDS: Final = 10
"""The number of rounds in which a controller that resigned lets others be elected."""


class CutOff:
    """A healed world, in which some links are cut from now on."""

    def __init__(self, world: World, cut: Iterable[tuple[int, int]], check_quorum: type[CheckQuorum]) -> None:
        """`check_quorum` decides whether a controller hears enough."""
        self.world = world
        self.elections = 0
        """How often a controller was elected since."""
        world.cut.update(cut)
        self._check_quorum = check_quorum
        self._quorum = check_quorum(SESSION_MS)
        self._tracker = HeartbeatTracker(SESSION_MS)
        self._resigned: set[int] = set()
        self._vacant_rounds = 0
        self._begin(world.brokers[world.metadata.controller])
        self._producer = Producer(world.swarm.broker_count + 6, len(world.producers), idempotent=world.swarm.idempotent)
        world.producers.append(self._producer)

    def require_writes(self, rounds_max: int) -> None:
        """Run rounds until a new write is acknowledged. Raises Violation after `rounds_max`."""
        self._producer.next_value()
        before = len(self._producer.acknowledged)
        for _ in range(rounds_max):
            self.round()
            if len(self._producer.acknowledged) > before:
                return
        partitions = [tuple(each) for each in self.world.image.partitions]
        violated("who hears enough goes on", f"no write in {rounds_max} rounds: {partitions}, {self.world.cut}")

    def round(self) -> None:
        """Run one round: each node does its work once."""
        world = self.world
        world.step_number += 1
        world.now_ms += ROUND_MS
        _deliver_all(world)
        controller = self._controller()
        if controller is None:
            controller = self._elect()
        if controller is not None:
            self._control(controller)
        newest = len(world.metadata.images) - 1
        for broker in world.brokers[1:]:
            following.follow_metadata(world, broker, newest)
        for broker in world.brokers[1:]:
            _replicate(world, broker)
        leader = world.image.partitions[DATA].leader
        if leader > 0:
            for value in tuple(self._producer.outstanding):
                world.exchange((PRODUCE, self._producer.node, leader, DATA, value))

    def _controller(self) -> Broker | None:
        metadata = self.world.metadata
        broker = self.world.brokers[metadata.controller]
        return broker if broker.controller_epoch == metadata.controller_epoch else None

    def _elect(self) -> Broker | None:
        """Somebody stands; who resigned before only when nobody else did for a while."""
        world = self.world
        self._vacant_rounds += 1
        first = world.step_number % world.swarm.broker_count
        candidates = [*world.brokers[1 + first :], *world.brokers[1 : 1 + first]]
        for broker in candidates:
            if broker.broker_id in self._resigned and self._vacant_rounds <= STAND_BACK_ROUNDS:
                continue
            controlling.elect_controller(world, broker)
            if broker.controller_epoch:
                self.elections += 1
                self._begin(broker)
                return broker
        return None

    def _begin(self, controller: Broker) -> None:
        world = self.world
        self._vacant_rounds = 0
        live = {each: epoch for each, epoch in world.image.live.items() if each != controller.broker_id}
        self._tracker = HeartbeatTracker(SESSION_MS)
        self._tracker.restart(live, world.now_ms)
        self._quorum = self._check_quorum(SESSION_MS)
        self._quorum.restart(live, world.now_ms)

    def _control(self, controller: Broker) -> None:
        world = self.world
        controlling.read_log(world, controller)
        for _ in world.brokers[1:]:
            controlling.tend(world, controller)
        for broker in world.brokers[1:]:
            if broker is not controller and _hear_each_other(world, controller, broker):
                self._quorum.heard(broker.broker_id, broker.broker_epoch, world.now_ms)
                controlling.heartbeat(world, controller, broker)
                if broker.broker_id in world.image.live:
                    self._tracker.heard(broker.broker_id, world.now_ms, 0)
        sessions = {each: session.broker_epoch for each, session in world.metadata.sessions.items()}
        own_id = controller.broker_id
        is_lost = self._quorum.is_lost(sessions, own_id=own_id, now_ms=world.now_ms)
        overdue = self._tracker.overdue(world.now_ms)
        if is_lost and own_id not in self._resigned and (overdue or not self._tracker.next_check_ms()):
            self._resigned.add(own_id)
            controller.controller_epoch = 0
            return
        for broker_id in overdue:
            controlling.fence(world, controller, broker_id)
            self._tracker.forget(broker_id)


def links_of(broker_id: int, broker_count: int) -> list[tuple[int, int]]:
    """The links of a broker with the others, both ways."""
    others = [each for each in range(1, broker_count + 1) if each != broker_id]
    return [*((broker_id, other) for other in others), *((other, broker_id) for other in others)]


def all_links(broker_count: int) -> list[tuple[int, int]]:
    """The links between brokers."""
    return list(permutations(range(1, broker_count + 1), 2))


def _hear_each_other(world: World, one: Broker, other: Broker) -> bool:
    """Whether a connection works: one way is none."""
    return world.is_reachable(one.broker_id, other.broker_id) and world.is_reachable(other.broker_id, one.broker_id)


def _deliver_all(world: World) -> None:
    """What is on the way arrives, but for what waits at a link that is cut."""
    index = 0
    for _ in range(len(world.network)):
        message = world.network[index]
        world.deliver(index)
        if index < len(world.network) and world.network[index] is message:
            index += 1


def _replicate(world: World, broker: Broker) -> None:
    for replica in broker.replicas:
        if replica.in_sync is not None:
            replica.synced = len(replica.records)
            leading.advance(world, broker, replica)
            leading.retry_proposal(world, broker, replica)
            leading.check_lag(world, broker, replica)
        else:
            request = following.request_of(world, broker, replica)
            if request is not None:
                world.exchange(request)
