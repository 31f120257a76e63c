"""The faults: of messages, processes, power, disks, links, sessions and clocks; one function per action.

Each takes the world and three operands between 0 and 255. It does nothing if it does not apply.
"""

from typing import Final

from ottla.simulation import controlling, leading, messages
from ottla.simulation.work import likely_leader, running_broker, some_controller
from ottla.simulation.world import Broker, World

CLOCK_JUMP_MS: Final = 10_000


def drop(world: World, a: int, b: int, c: int) -> None:
    """Lose one of the messages on the network."""
    del b, c
    if world.network:
        lost = world.network.pop(a * len(world.network) >> 8)
        if world.trace is not None:
            world.note("drop", lost)


def repeat(world: World, a: int, b: int, c: int) -> None:
    """Send one of the messages on the network a second time."""
    del b, c
    if world.network:
        world.send(world.network[a * len(world.network) >> 8])


def _crash(world: World, broker: Broker) -> None:
    broker.up = broker.paused = False
    broker.controller_epoch = 0
    broker.applied = 0
    flush = world.swarm.flush
    state = world.metadata.images[-1].partitions
    for replica in broker.replicas:
        now = state[replica.partition]
        if not flush and (broker.broker_id in now.isr or broker.broker_id in now.elr):
            world.ledgers[replica.partition].damaged.add(broker.broker_id)
        replica.stop()


def kill(world: World, a: int, b: int, c: int) -> None:
    """Kill a broker's process; its files keep everything that it wrote, synced or not."""
    del b, c
    broker = world.brokers[1 + a % world.swarm.broker_count]
    if broker.up:
        if world.trace is not None:
            world.note("kill", broker.broker_id)
        _crash(world, broker)


def cut_power(world: World, a: int, b: int, c: int) -> None:
    """Cut the power of a broker's machine; its replicas keep what is synced and a part, often nothing, of the rest."""
    del c
    broker = world.brokers[1 + a % world.swarm.broker_count]
    _lose_power(world, broker, b)


def _lose_power(world: World, broker: Broker, survives: int) -> None:
    if not broker.up:
        return
    if world.trace is not None:
        world.note("power cut", broker.broker_id)
    _crash(world, broker)
    for replica in broker.replicas:
        unsynced = len(replica.records) - replica.synced
        if unsynced:
            replica.lose_power(survives % (unsynced + 1) if survives & 64 else 0)
        if world.swarm.flush:
            leading.check_members(world, replica.partition)


def cut_power_of_all(world: World, a: int, b: int, c: int) -> None:
    """Cut the power of all brokers' machines at once."""
    del a
    for broker in world.brokers[1:]:
        _lose_power(world, broker, b + c * broker.broker_id)


def stop_cleanly(world: World, a: int, b: int, c: int) -> None:
    """A controlled shutdown: the controller moves what the broker leads, then everything is synced and marked clean."""
    broker = running_broker(world, a)
    if broker is None:
        return
    controller = some_controller(world, b)
    if controller is not None and c & 3:
        image = world.metadata.images[controller.view]
        if image.brokers[broker.broker_id].broker_epoch == broker.broker_epoch:
            controlling.fence(world, controller, broker.broker_id, shutting_down=True)
    for replica in broker.replicas:
        replica.synced = len(replica.records)
        replica.checkpoint = replica.high_watermark
        replica.stop()
    broker.clean_mark = (broker.clean_since, broker.broker_epoch)
    broker.up = False
    broker.controller_epoch = 0
    broker.applied = 0
    world.metadata.sessions.pop(broker.broker_id, None)
    if world.trace is not None:
        world.note("stop cleanly", broker.broker_id)


def lose_disk(world: World, a: int, b: int, c: int) -> None:
    """The broker dies and comes back with an empty disk."""
    del b, c
    broker = world.brokers[1 + a % world.swarm.broker_count]
    if broker.up:
        _crash(world, broker)
    broker.directory += 100
    broker.clean_mark = (-1, -1)
    state = world.metadata.images[-1].partitions
    for replica in broker.replicas:
        now = state[replica.partition]
        if broker.broker_id in now.isr or broker.broker_id in now.elr:
            world.ledgers[replica.partition].damaged.add(broker.broker_id)
        replica.wipe()
    if world.trace is not None:
        world.note("disk lost", broker.broker_id)


def pause(world: World, a: int, b: int, c: int) -> None:
    """Stop a broker's process without an end, as SIGSTOP does."""
    del b, c
    broker = world.brokers[1 + a % world.swarm.broker_count]
    if broker.up:
        broker.paused = True
        if world.trace is not None:
            world.note("pause", broker.broker_id)


def cut_link(world: World, a: int, b: int, c: int) -> None:
    """One direction of a link, or both; the store is at the end of some."""
    count = world.swarm.broker_count
    one, other = 1 + a % count, b % (count + 1)
    if one != other:
        world.cut.add((one, other) if c & 1 else (other, one))
        if c & 2:
            world.cut.add((other, one) if c & 1 else (one, other))
        if world.trace is not None:
            world.note("links", sorted(world.cut))


def end_session(world: World, a: int, b: int, c: int) -> None:
    """The store hears nothing of a broker for too long; who runs hears of it, or finds out when it decides."""
    del c
    broker_id = 1 + a % world.swarm.broker_count
    if world.metadata.sessions.pop(broker_id, None) is not None and b & 1:
        world.brokers[broker_id].controller_epoch = 0
    if world.trace is not None:
        world.note("session ends", broker_id)


def fence(world: World, a: int, b: int, c: int) -> None:
    """The controller fences a broker, more often the leader of a partition."""
    controller = some_controller(world, a)
    if controller is not None:
        leader = world.metadata.images[-1].partitions[b % world.partitions].leader
        broker_id = leader if leader > 0 and b & 4 else 1 + b % world.swarm.broker_count
        controlling.fence(world, controller, broker_id, delayed=c & 31 == 0)


def jump(world: World, a: int, b: int, c: int) -> None:
    """Set a broker's clock forward by `CLOCK_JUMP_MS`."""
    del b, c
    world.brokers[1 + a % world.swarm.broker_count].skew_ms += CLOCK_JUMP_MS


def claim(world: World, a: int, b: int, c: int) -> None:
    """A client fetches in the name of a broker, with everything right but the connection."""
    partition = c % world.partitions
    image = world.metadata.images[-1]
    state = image.partitions[partition]
    claimed = state.replicas[b % len(state.replicas)]
    leader = likely_leader(world, a, partition)
    replica = world.brokers[leader].replicas[partition]
    if claimed != leader:
        epochs = image.brokers[claimed].broker_epoch, replica.leader_epoch
        end = len(replica.records)
        client = world.swarm.broker_count + 1
        claim = (messages.CLAIMED_FETCH, client, leader, partition, claimed, *epochs, end, replica.epochs.latest_epoch)
        world.exchange(claim)


def stall(world: World, a: int, b: int, c: int) -> None:
    """A broker's reading of the metadata hangs, or goes on: it acts on what it knew."""
    del b, c
    broker = world.brokers[1 + a % world.swarm.broker_count]
    broker.stalled = not broker.stalled
    if world.trace is not None:
        world.note("stall" if broker.stalled else "reads on", broker.broker_id)
