"""The follower's part of a simulated broker: new metadata, fetches, and their responses."""

from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.replication.truncation import EpochEnd
from ottla.simulation.leading import advance, become_leader
from ottla.simulation.messages import FETCH, Message
from ottla.simulation.replica import Replica
from ottla.simulation.world import Broker, World


def begin(world: World) -> None:
    """Every broker acts on the first image."""
    for broker in world.brokers[1:]:
        broker.applied = -1
        follow_metadata(world, broker, 0)


def follow_metadata(world: World, broker: Broker, target: int) -> None:
    """The broker acts on an image that is newer than the one it acted on.

    A process takes no role from an image that does not have its own registration yet: it would lead because an earlier
    process of this broker did.
    """
    if target <= broker.applied:
        return
    broker.applied = target
    image = world.metadata.images[target]
    broker.live.clear()
    broker.live.update(image.live)
    registered = image.brokers.get(broker.broker_id)
    if registered is None or registered.incarnation != str(broker.incarnation):
        return
    for partition, state in enumerate(image.partitions):
        replica = broker.replicas[partition]
        if broker.broker_id in state.replicas:
            _apply(world, broker, replica, state)
        elif replica.leader_epoch >= 0 or replica.records:
            replica.stop()
            replica.wipe()


def _apply(world: World, broker: Broker, replica: Replica, state: PartitionState) -> None:
    if state.leader_epoch > replica.leader_epoch:
        if state.leader == broker.broker_id:
            become_leader(world, broker, replica, state)
        else:
            become_follower(world, replica, state)
        return
    in_sync = replica.in_sync
    if in_sync is None or state.leader_epoch < replica.leader_epoch:
        return
    in_sync.adopt(state.replicas, state.isr, state.partition_epoch, world.clock_of(broker))
    advance(world, broker, replica)


def become_follower(world: World, replica: Replica, state: PartitionState) -> None:
    """Become a follower, or a replica without a leader. Requests that wait for the high watermark get no response."""
    replica.leader = state.leader
    replica.leader_epoch = state.leader_epoch
    replica.partition_epoch = state.partition_epoch
    replica.in_sync = None
    replica.waiting = []
    replica.needs_truncation = True
    if world.trace is not None:
        world.note("follow", replica.broker_id, replica.partition, state.leader_epoch, state.leader)
    cut = world.decisions.become_follower(replica)
    if cut is not None:
        _cut(world, replica, cut)


def _cut(world: World, replica: Replica, end_offset: int) -> None:
    """Cut a log. Who is neither in ISR nor ELR, and follows an epoch that is over, may cut what it likes."""
    newest = world.metadata.images[-1].partitions[replica.partition]
    broker_id = replica.broker_id
    if replica.leader_epoch >= newest.leader_epoch or broker_id in newest.isr or broker_id in newest.elr:
        world.ledgers[replica.partition].cut(replica, end_offset)
    replica.truncate(end_offset)


def request_of(world: World, broker: Broker, replica: Replica) -> Message | None:
    """The fetch that a follower sends; None while it follows nobody, or while its disk has yet to sync.

    It asks from the end of what it has as safe as it has to be, so that the leader may count on all before.
    """
    if replica.leader <= 0 or replica.in_sync is not None:
        return None
    end = len(replica.records)
    if world.swarm.flush and replica.synced < end:
        replica.synced = end
    replica.request += 1
    return (
        FETCH,
        broker.broker_id,
        replica.leader,
        replica.partition,
        broker.broker_epoch,
        replica.leader_epoch,
        end,
        replica.epochs.latest_epoch,
        replica.needs_truncation,
        replica.request,
    )


def on_fetched(world: World, message: Message) -> Message | None:
    """Handle the leader's response: records to append, or where the logs diverge."""
    _, leader, broker_id, partition, leader_epoch, offset, content, leader_high_watermark, number = message
    broker = world.brokers[broker_id]
    replica = broker.replicas[partition]
    if replica.in_sync is not None or replica.leader != leader or replica.request != number:
        return None
    replica.request += 1
    if not world.decisions.is_current(leader_epoch, replica.leader_epoch) or offset != len(replica.records):
        return None
    if isinstance(content, ErrorCode):
        return None
    if isinstance(content, EpochEnd):
        cut = world.decisions.truncation_offset(replica, content)
        if world.trace is not None:
            world.note("cut", broker_id, partition, offset, cut)
        _cut(world, replica, cut)
        return None
    replica.needs_truncation = False
    for entry in content:
        replica.append(entry)
    flush = world.swarm.flush
    if content and world.trace is not None:
        world.note("replicate", broker_id, partition, offset, len(content))
    high_watermark = world.decisions.follower_high_watermark(
        replica.high_watermark, replica.synced if flush else len(replica.records), leader_high_watermark
    )
    if high_watermark != replica.high_watermark:
        world.ledgers[partition].raise_to(replica, high_watermark)
    return None
