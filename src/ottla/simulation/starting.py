"""Starts simulated processes: they register with the store, and serve once the controller has seen that."""

from ottla.metadata.registration import BrokerRegistration
from ottla.simulation.messages import STORE
from ottla.simulation.world import Broker, World


def start(world: World, broker: Broker) -> None:
    """Start a broker that is down: it registers, with what its disk says of how it stopped."""
    reachable = world.is_reachable(broker.broker_id, STORE)
    if broker.up and not broker.paused and reachable:
        if not world.metadata.holds(broker.broker_id, broker.broker_epoch):
            renew(world, broker)
        return
    if broker.up or (world.cut and (broker.broker_id, STORE) in world.cut):
        return
    broker.up = True
    broker.incarnation += 1
    broker.clean_since, previous_epoch = broker.clean_mark
    broker.clean_mark = (-1, -1)
    _register(world, broker, previous_epoch)
    if world.trace is not None:
        world.note("start", broker.broker_id, broker.broker_epoch)


def renew(world: World, broker: Broker) -> None:
    """Begin a new session for a running broker; it has lost nothing."""
    broker.controller_epoch = 0
    _register(world, broker, broker.broker_epoch)
    if world.trace is not None:
        world.note("renew", broker.broker_id, broker.broker_epoch)


def _register(world: World, broker: Broker, previous_epoch: int) -> None:
    said = BrokerRegistration(
        host=None,
        port=0,
        incarnation=str(broker.incarnation),
        directories=(str(broker.directory),),
        previous_epoch=previous_epoch,
        clean_since=broker.clean_since,
        flush=world.swarm.flush,
    )
    broker.broker_epoch = world.metadata.register(broker.broker_id, said)
    if broker.clean_since < 0:
        broker.clean_since = broker.broker_epoch
