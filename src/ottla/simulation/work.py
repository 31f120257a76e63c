"""The normal activity of a cluster: requests, fetches, heartbeats, elections, timers; one function per action.

Each takes the world and three operands between 0 and 255. It does nothing if it does not apply.
"""

from ottla.metadata.controller.partition_leadership import Election
from ottla.simulation import clients, controlling, following, leading
from ottla.simulation.messages import STORE
from ottla.simulation.starting import start as start_broker
from ottla.simulation.world import COORDINATOR, DATA, Broker, World


def running_broker(world: World, a: int) -> Broker | None:
    """The broker an operand names, if it runs."""
    broker = world.brokers[1 + a % world.swarm.broker_count]
    return broker if broker.up and not broker.paused else None


def some_controller(world: World, a: int) -> Broker | None:
    """The controller; now and then another that still believes to be it."""
    if a & 7:
        metadata = world.metadata
        newest = world.brokers[metadata.controller]
        if controlling.is_controller(world, newest):
            return newest
    broker = world.brokers[1 + (a >> 3) % world.swarm.broker_count]
    return broker if controlling.is_controller(world, broker) else None


def likely_leader(world: World, a: int, partition: int) -> int:
    """Whom clients believe to lead: mostly who does, now and then somebody else."""
    if a & 7:
        leader = world.metadata.images[-1].partitions[partition].leader
        if leader > 0:
            return leader
    return 1 + (a >> 4) % world.swarm.broker_count


def produce(world: World, a: int, b: int, c: int) -> None:
    """A producer sends a batch, or a coordinator's client commits or looks up."""
    if world.swarm.coordinator and c & 1:
        clients.commit_or_look(world, b, likely_leader(world, a, COORDINATOR), at_once=c & 2 == 0)
        return
    producer = world.producers[(c >> 2) % len(world.producers)]
    clients.produce(world, producer, b, likely_leader(world, a, DATA), at_once=c & 2 == 0)


def deliver(world: World, a: int, b: int, c: int) -> None:
    """One message on the network arrives: the oldest, or another where the swarm reorders."""
    del b, c
    count = len(world.network)
    if count:
        world.deliver(a * count >> 8 if world.swarm.reorder else 0 if a & 7 else a * count >> 8)


def fetch(world: World, a: int, b: int, c: int) -> None:
    """A follower sends a Fetch request for one partition; the answer comes later."""
    del c
    broker = running_broker(world, a)
    if broker is not None:
        request = following.request_of(world, broker, broker.replicas[b % world.partitions])
        if request is not None:
            world.send(request)


def replicate(world: World, a: int, b: int, c: int) -> None:
    """A follower fetches one partition, request and answer in one step."""
    del c
    broker = running_broker(world, a)
    if broker is not None:
        request = following.request_of(world, broker, broker.replicas[b % world.partitions])
        if request is not None:
            world.exchange(request)


def sync(world: World, a: int, b: int, c: int) -> None:
    """A replica's records reach the disk."""
    del c
    broker = running_broker(world, a)
    if broker is not None:
        replica = broker.replicas[b % world.partitions]
        replica.synced = len(replica.records)
        leading.advance(world, broker, replica)


def follow_metadata(world: World, a: int, b: int, c: int) -> None:
    """A broker reads the metadata log: up to its end, or one entry."""
    del c
    broker = running_broker(world, a)
    if broker is not None and world.is_reachable(STORE, broker.broker_id):
        newest = len(world.metadata.images) - 1
        if broker.stalled:
            return
        is_at_once = b & 3 and not world.swarm.slow_metadata
        following.follow_metadata(world, broker, newest if is_at_once else min(newest, broker.applied + 1))


def tend(world: World, a: int, b: int, c: int) -> None:
    """The controller looks after registrations, ended sessions and elections; now and then it reads its log first."""
    del c
    controller = some_controller(world, a)
    if controller is not None:
        if b & 3 == 3:
            controlling.read_log(world, controller)
        controlling.tend(world, controller, delayed=b & 31 == 0)


def heartbeat(world: World, a: int, b: int, c: int) -> None:
    """A broker sends a heartbeat to a controller, if the link between them works."""
    del c
    controller, broker = some_controller(world, a), running_broker(world, b)
    if controller is None or broker is None:
        return
    if world.is_reachable(broker.broker_id, controller.broker_id):
        controlling.heartbeat(world, controller, broker)


def elect_controller(world: World, a: int, b: int, c: int) -> None:
    """A broker becomes the controller, if there is none in session or, rarely, beside it."""
    del c
    broker = running_broker(world, a)
    if broker is None:
        return
    metadata = world.metadata
    if metadata.controller in metadata.sessions and world.brokers[metadata.controller].controller_epoch and b & 7:
        return
    controlling.elect_controller(world, broker)


def read(world: World, a: int, b: int, c: int) -> None:
    """A consumer reads a partition from any broker."""
    del c
    clients.read(world, world.brokers[1 + a % world.swarm.broker_count], b % world.partitions)


def check_lag(world: World, a: int, b: int, c: int) -> None:
    """A leader looks for followers that are behind for too long."""
    del c
    broker = running_broker(world, a)
    if broker is not None:
        leading.check_lag(world, broker, broker.replicas[b % world.partitions])


def retry_proposal(world: World, a: int, b: int, c: int) -> None:
    """A leader sends its pending change of the ISR again."""
    del c
    broker = running_broker(world, a)
    if broker is not None:
        leading.retry_proposal(world, broker, broker.replicas[b % world.partitions])


def start(world: World, a: int, b: int, c: int) -> None:
    """Start a broker that is down; one that runs without a session begins another."""
    del b, c
    start_broker(world, world.brokers[1 + a % world.swarm.broker_count])


def heal(world: World, a: int, b: int, c: int) -> None:
    """Restore one direction of a link, or all links."""
    del b, c
    if not world.cut:
        return
    if a & 1:
        world.cut.clear()
    else:
        links = sorted(world.cut)
        world.cut.discard(links[a % len(links)])
    if world.trace is not None:
        world.note("links", sorted(world.cut))


def resume(world: World, a: int, b: int, c: int) -> None:
    """Continue a paused broker."""
    del b, c
    broker = world.brokers[1 + a % world.swarm.broker_count]
    if broker.paused:
        broker.paused = False
        if world.trace is not None:
            world.note("resume", broker.broker_id)


def checkpoint(world: World, a: int, b: int, c: int) -> None:
    """A replica writes its high watermark to disk, at most what is synced."""
    del c
    broker = running_broker(world, a)
    if broker is not None:
        replica = broker.replicas[b % world.partitions]
        replica.checkpoint = min(replica.high_watermark, replica.synced)


def prefer(world: World, a: int, b: int, c: int) -> None:
    """The controller elects preferred leaders."""
    del b, c
    controller = some_controller(world, a)
    if controller is not None:
        controlling.elect(world, controller, election=Election.PREFERRED)


def unclean_election(world: World, a: int, b: int, c: int) -> None:
    """The controller elects leaders for partitions without one, also outside of the ISR."""
    del b, c
    controller = some_controller(world, a)
    if controller is not None:
        controlling.elect(world, controller, election=Election.UNCLEAN)


def reassign(world: World, a: int, b: int, c: int) -> None:
    """Other brokers are to hold a partition, as many as before or one more or less; or a move is called off."""
    controller = some_controller(world, a)
    if controller is None:
        return
    partition = b % world.partitions
    if c & 7 == 0:
        controlling.cancel_reassignment(world, controller, partition)
        return
    count = world.swarm.broker_count
    wanted = max(2, min(count, world.swarm.replica_count + (c >> 3) % 3 - 1))
    first = (c >> 5) + b
    controlling.reassign(world, controller, partition, [1 + (first + index) % count for index in range(wanted)])
