"""The end of a schedule: everything heals, must come to rest, and is compared with what clients saw.

Links work again, stopped nodes start, paused nodes continue. Then brokers, controller and clients run in turns. Within
`ROUNDS_MAX` of them every partition must have its leader, its whole ISR, equal logs and a high watermark at their end.
All writes must be acknowledged, a new one as well.
"""

from typing import Final

from ottla.metadata.controller.partition_leadership import Election
from ottla.simulation import controlling, following, leading
from ottla.simulation.clients import Producer
from ottla.simulation.comparison import compare
from ottla.simulation.ledger import violated
from ottla.simulation.messages import LOOK, PRODUCE
from ottla.simulation.starting import start
from ottla.simulation.world import COORDINATOR, DATA, STEP_MS, Broker, World

ROUNDS_MAX: Final = 40
"""A clean cluster takes about five."""

OPERATOR_ROUNDS: Final = 8
"""The interval, in rounds, at which an operator looks for partitions that are lost for good."""


def end(world: World) -> None:
    """Heal, wait, compare. Raises Violation."""
    world.healing = True
    world.cut.clear()
    if world.trace is not None:
        world.note("everything heals")
    for broker in world.brokers[1:]:
        broker.paused = False
        start(world, broker)
    last = _last_producer(world)
    for _ in range(ROUNDS_MAX):
        world.step_number += 1
        _round(world)
        if _is_at_rest(world) and last.acknowledged:
            break
    else:
        violated("everything goes on after it healed", _what_is_missing(world, last))
    compare(world)


def _last_producer(world: World) -> Producer:
    """One that begins after everything healed: its write must be acknowledged."""
    last = Producer(world.swarm.broker_count + 5, len(world.producers), idempotent=world.swarm.idempotent)
    last.next_value()
    world.producers.append(last)
    return last


def _round(world: World) -> None:
    world.now_ms += STEP_MS * 4
    network = world.network
    for _ in range(len(network)):
        world.deliver(0)
    brokers = world.brokers[1:]
    controller = _controller(world, brokers)
    for broker in brokers:
        start(world, broker)
    if controller is not None:
        controlling.read_log(world, controller)
        for _ in brokers:
            controlling.tend(world, controller)
        if world.step_number % OPERATOR_ROUNDS == 0 and _is_lost(world):
            controlling.elect(world, controller, election=Election.UNCLEAN)
    newest = len(world.metadata.images) - 1
    for broker in brokers:
        following.follow_metadata(world, broker, newest)
        if controller is not None:
            controlling.heartbeat(world, controller, broker)
    for broker in brokers:
        for replica in broker.replicas:
            if replica.in_sync is not None:
                replica.synced = len(replica.records)
                leading.retry_proposal(world, broker, replica)
                leading.check_lag(world, broker, replica)
            else:
                request = following.request_of(world, broker, replica)
                if request is not None:
                    world.exchange(request)
    _clients(world)


def _is_lost(world: World) -> bool:
    """Whether a partition waits for replicas whose disks were lost, as many as it promises to bear or more: then an
    operator has to say that what is left is to be taken (`ElectLeaders`)."""
    return any(
        state.leader < 0
        and not state.isr
        and not state.elr
        and len(ledger.damaged) >= world.losses_borne(ledger.partition)
        for state, ledger in zip(world.image.partitions, world.ledgers, strict=True)
    )


def _controller(world: World, brokers: list[Broker]) -> Broker | None:
    broker = world.brokers[world.metadata.controller]
    if not broker.controller_epoch or broker.controller_epoch != world.metadata.controller_epoch:
        broker = brokers[world.step_number % len(brokers)]
        controlling.elect_controller(world, broker)
    return broker if broker.controller_epoch else None


def _clients(world: World) -> None:
    leader = world.image.partitions[DATA].leader
    if leader > 0:
        for producer in world.producers:
            for value in tuple(producer.outstanding):
                world.exchange((PRODUCE, producer.node, leader, DATA, value))
    if world.partitions > COORDINATOR:
        leader = world.image.partitions[COORDINATOR].leader
        client = world.coordinator_client
        if leader > 0:
            if client.outstanding >= 0:
                world.exchange((PRODUCE, client.node, leader, COORDINATOR, client.outstanding))
            world.exchange((LOOK, client.node, leader, COORDINATOR, 0))


def _is_at_rest(world: World) -> bool:
    image = world.image
    for partition, state in enumerate(image.partitions):
        if state.leader < 0 or len(state.isr) < len(state.replicas) or state.adding or state.removing:
            return False
        leader = world.brokers[state.leader].replicas[partition]
        if leader.in_sync is None or leader.in_sync.proposed is not None or leader.waiting:
            return False
        end_offset = len(leader.records)
        for broker_id in state.replicas:
            replica = world.brokers[broker_id].replicas[partition]
            if replica.high_watermark != end_offset or len(replica.records) != end_offset:
                return False
    if any(producer.outstanding for producer in world.producers) and not _was_lossy(world):
        return False
    return world.coordinator_client.outstanding < 0 or _was_lossy(world)


def _was_lossy(world: World) -> bool:
    """Whether producers may have to begin anew: what they wrote before is gone, and may be."""
    return any(ledger.floor_epoch for ledger in world.ledgers)


def _what_is_missing(world: World, last: Producer) -> str:
    states = "; ".join(str(tuple(state)) for state in world.image.partitions)
    outstanding = [producer.outstanding for producer in world.producers]
    return f"after {ROUNDS_MAX} rounds: {states}; outstanding {outstanding}; {last.acknowledged}"
