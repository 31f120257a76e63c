"""The controller's part of a simulated broker: sessions, fencing, elections, answers to AlterPartition.

Each decision uses the image that the controller knows. It is appended under the controller's epoch, and expects the
log to end there. A node that is no longer the controller, or has not read the whole log, appends nothing.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from ottla.metadata.controller.broker_registration import loss_of
from ottla.metadata.controller.partition_leadership import Election, PartitionProposal, unclean_order
from ottla.metadata.image.image import BrokerImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.simulation.leading import check_members
from ottla.simulation.ledger import violated
from ottla.simulation.messages import ALTERED, APPEND, STORE, Message
from ottla.simulation.metadata_log import Image
from ottla.simulation.world import Broker, World


def elect_controller(world: World, broker: Broker) -> None:
    """A broker tries to become the controller; it succeeds if it saw the newest epoch and its session lives."""
    if not (world.is_reachable(broker.broker_id, STORE) and world.is_reachable(STORE, broker.broker_id)):
        return
    metadata = world.metadata
    epoch = metadata.elect(broker.broker_id, broker.broker_epoch, metadata.controller_epoch)
    if epoch:
        broker.controller_epoch = epoch
        broker.view = len(metadata.images) - 1
        image = metadata.images[-1]
        if world.trace is not None:
            world.note("controller", broker.broker_id, epoch)
        _append(world, broker, image, image.brokers, image.partitions)


def is_controller(world: World, broker: Broker) -> bool:
    """Whether a broker runs and believes that it is the controller."""
    return broker.up and not broker.paused and broker.controller_epoch > 0


def _append(
    world: World,
    broker: Broker,
    image: Image,
    brokers: dict[int, BrokerImage],
    partitions: tuple[PartitionState, ...],
    *,
    delayed: bool = False,
) -> bool:
    """Append a decision made on `image`; returns whether it is in the log now."""
    live = {
        broker_id: registered.broker_epoch
        for broker_id, registered in brokers.items()
        if not registered.fenced and not registered.shutting_down
    }
    after = Image(broker.broker_id, brokers, partitions, live)
    message = (APPEND, broker.broker_id, STORE, 0, broker.controller_epoch, broker.view + 1, after)
    if delayed:
        world.send(message)
        return False
    if not world.is_reachable(broker.broker_id, STORE):
        return False
    if not take(world, message):
        if world.metadata.controller_epoch != broker.controller_epoch:
            broker.controller_epoch = 0
        else:
            broker.view = len(world.metadata.images) - 1
        return False
    broker.view += 1
    return True


def take(world: World, message: Message) -> bool:
    """The store appends a decision, or refuses it as fenced or stale."""
    _, _, _, _, controller_epoch, expected_end, after = message
    metadata = world.metadata
    if not metadata.may_append(controller_epoch, expected_end):
        return False
    before = metadata.images[-1]
    metadata.images.append(after)
    for partition, (old, new) in enumerate(zip(before.partitions, after.partitions, strict=True)):
        if old is not new:
            _check_change(world, partition, old, new)
            check_members(world, partition)
    return True


def on_append(world: World, message: Message) -> Message | None:
    """A delayed decision reaches the store. Its controller learns the outcome when it reads the log."""
    take(world, message)
    return None


def _check_change(world: World, partition: int, old: PartitionState, new: PartitionState) -> None:
    if world.trace is not None:
        world.note("decide", partition, new)
    if new.leader_epoch < old.leader_epoch or new.partition_epoch <= old.partition_epoch:
        violated("epochs rise", f"{old} to {new}")
    if new.leader_epoch == old.leader_epoch and new.leader != old.leader:
        violated("one leader an epoch", f"{old} to {new}")
    if new.leader >= 0 and new.leader not in new.isr:
        violated("the leader is in the ISR", f"{new}")
    if new.leader >= 0 and new.leader != old.leader:
        _check_leader(world, partition, old, new)
    damaged = world.ledgers[partition].damaged
    if damaged:
        damaged.difference_update([member for member in new.isr if member not in old.isr and member not in old.elr])


def _check_leader(world: World, partition: int, old: PartitionState, new: PartitionState) -> None:
    """Who is elected has everything that is committed, unless more was broken than the cluster promises to bear.

    Who died since, or was started anew and is not registered yet, will not lead in this epoch.
    """
    ledger = world.ledgers[partition]
    swarm = world.swarm
    broker = world.brokers[new.leader]
    replica = broker.replicas[partition]
    end = replica.synced if swarm.flush else len(replica.records)
    eligible = {*old.isr, *old.elr}
    if swarm.unclean and new.leader not in eligible:
        ledger.forgive(replica, end, new.leader_epoch)
        return
    if not broker.up or str(broker.incarnation) != world.image.brokers[new.leader].incarnation:
        return
    if ledger.is_held_by(replica, end):
        return
    if not (eligible <= ledger.damaged and len(ledger.damaged) >= world.losses_borne(partition)):
        violated(
            "who is elected has what is committed",
            f"{len(ledger.committed)} records, broker {new.leader} has {len(replica.records)}; {old} to {new}",
        )
    ledger.forgive(replica, end, new.leader_epoch)


def read_log(world: World, broker: Broker) -> None:
    """The controller reads the log to its end."""
    if world.is_reachable(STORE, broker.broker_id):
        broker.view = len(world.metadata.images) - 1
        if world.metadata.controller_epoch != broker.controller_epoch:
            broker.controller_epoch = 0


def _election(world: World) -> Election:
    return Election.UNCLEAN if world.swarm.unclean else Election.ONLINE


def tend(world: World, broker: Broker, *, delayed: bool = False) -> None:
    """Handle new registrations, ended sessions, and partitions that could have a leader."""
    image = world.metadata.images[broker.view]
    sessions = world.metadata.sessions
    for broker_id, registered in image.brokers.items():
        session = sessions.get(broker_id)
        if session is None:
            if not registered.fenced:
                fence(world, broker, broker_id, delayed=delayed)
                return
        elif session.broker_epoch != registered.broker_epoch:
            _register(world, broker, broker_id, delayed=delayed)
            return
    elect(world, broker, delayed=delayed)


def _register(world: World, broker: Broker, broker_id: int, *, delayed: bool) -> None:
    """A broker began another session: a new process is fenced until it is heard, and loses what it may have lost."""
    image = world.metadata.images[broker.view]
    session = world.metadata.sessions[broker_id]
    known = image.brokers[broker_id]
    said = session.said
    states, fenced, shutting_down = image.partitions, known.fenced, known.shutting_down
    if said.incarnation != known.incarnation:
        fenced, shutting_down = True, False
        live = {each: epoch for each, epoch in image.live.items() if each != broker_id}
        min_isr = world.swarm.min_insync_replicas
        loss = loss_of(known, said)
        states = tuple(
            world.decisions.register(state, broker_id, live, min_isr=min_isr, loss=loss)
            if broker_id in state.replicas
            else state
            for state in image.partitions
        )
    after = replace(
        known,
        broker_epoch=session.broker_epoch,
        incarnation=said.incarnation,
        directories=said.directories,
        fenced=fenced,
        shutting_down=shutting_down,
    )
    if world.trace is not None:
        world.note("register", broker_id, session)
    _append(world, broker, image, {**image.brokers, broker_id: after}, states, delayed=delayed)


def fence(world: World, broker: Broker, broker_id: int, *, delayed: bool = False, shutting_down: bool = False) -> bool:
    """Fence a broker that is silent, or shuts down: it leads nothing and leaves the ISRs."""
    image = world.metadata.images[broker.view]
    registered = image.brokers[broker_id]
    if registered.fenced or (shutting_down and registered.shutting_down):
        return False
    live = {each: epoch for each, epoch in image.live.items() if each != broker_id}
    states = tuple(
        world.decisions.fence(
            state, broker_id, live, min_isr=world.swarm.min_insync_replicas, election=_election(world)
        )
        if broker_id in state.replicas
        else state
        for state in image.partitions
    )
    after = replace(registered, fenced=not shutting_down, shutting_down=shutting_down)
    if world.trace is not None:
        world.note("stop" if shutting_down else "fence", broker_id)
    return _append(world, broker, image, {**image.brokers, broker_id: after}, states, delayed=delayed)


def heartbeat(world: World, controller: Broker, broker: Broker) -> None:
    """Handle a heartbeat: a broker is unfenced once it has read the metadata beyond its own registration."""
    image = world.metadata.images[controller.view]
    broker_id = broker.broker_id
    registered = image.brokers[broker_id]
    if not registered.fenced or registered.broker_epoch != broker.broker_epoch:
        return
    followed = world.metadata.images[broker.applied].brokers[broker_id]
    if followed.broker_epoch != broker.broker_epoch:
        return
    after = replace(registered, fenced=False, shutting_down=False)
    live = {**image.live, broker_id: registered.broker_epoch}
    states = _elected(world, image.partitions, live)
    if world.trace is not None:
        world.note("unfence", broker_id)
    _append(world, controller, image, {**image.brokers, broker_id: after}, states)


def _elected(
    world: World, partitions: Iterable[PartitionState], live: dict[int, int], election: Election | None = None
) -> tuple[PartitionState, ...]:
    swarm = world.swarm
    wanted = _election(world) if election is None else election
    return tuple(
        world.decisions.elect(
            state,
            live,
            min_isr=swarm.min_insync_replicas,
            election=wanted,
            unclean_order=_order(world, index, state) if wanted is Election.UNCLEAN else None,
        )
        for index, state in enumerate(partitions)
    )


def _order(world: World, partition: int, state: PartitionState) -> tuple[int, ...]:
    ends = {}
    for broker_id in state.replicas:
        broker = world.brokers[broker_id]
        if broker.up and not broker.paused:
            replica = broker.replicas[partition]
            ends[broker_id] = (replica.epochs.latest_epoch, len(replica.records))
    return unclean_order(state.replicas, ends)


def elect(world: World, broker: Broker, *, election: Election | None = None, delayed: bool = False) -> None:
    """Elect leaders for partitions; `election` selects preferred or unclean leaders."""
    image = world.metadata.images[broker.view]
    states = _elected(world, image.partitions, image.live, election)
    if any(old is not new for old, new in zip(image.partitions, states, strict=True)):
        _append(world, broker, image, image.brokers, states, delayed=delayed)


def reassign(world: World, broker: Broker, partition: int, target: list[int]) -> None:
    """Reassign a partition to other brokers, the preferred leader first; old replicas stay until they are in sync."""
    image = world.metadata.images[broker.view]
    state = image.partitions[partition]
    after = world.decisions.begin_reassignment(state, target, image.live, min_isr=world.swarm.min_insync_replicas)
    _change(world, broker, partition, after)


def cancel_reassignment(world: World, broker: Broker, partition: int) -> None:
    """Cancel a reassignment, unless only added replicas are in sync."""
    image = world.metadata.images[broker.view]
    state = image.partitions[partition]
    if not (state.adding or state.removing):
        return
    after = world.decisions.cancel_reassignment(
        state, image.live, min_isr=world.swarm.min_insync_replicas, may_lose_records=False
    )
    if after is not None:
        _change(world, broker, partition, after)


def _change(world: World, broker: Broker, partition: int, after: PartitionState) -> bool:
    image = world.metadata.images[broker.view]
    if after is image.partitions[partition]:
        return True
    states = (*image.partitions[:partition], after, *image.partitions[partition + 1 :])
    return _append(world, broker, image, image.brokers, states)


def on_alter(world: World, message: Message) -> Message | None:
    """Handle a leader's proposal of an ISR; there is no response if the decision cannot be stored."""
    _, leader, controller_id, partition, broker_epoch, leader_epoch, partition_epoch, members, attempt = message
    controller = world.brokers[controller_id]

    def answer(outcome: object) -> Message:
        return (ALTERED, controller_id, leader, partition, leader_epoch, partition_epoch, outcome, attempt)

    if controller.controller_epoch == 0:
        return answer(ErrorCode.NOT_CONTROLLER)
    image = world.metadata.images[controller.view]
    if image.brokers[leader].broker_epoch != broker_epoch:
        return answer(ErrorCode.STALE_BROKER_EPOCH)
    outcome = world.decisions.alter(
        image.partitions[partition],
        leader,
        PartitionProposal(ZERO_UUID, partition, leader_epoch, partition_epoch, members),
        brokers=image.brokers,
        live=image.live,
        min_isr=world.swarm.min_insync_replicas,
    )
    if isinstance(outcome, ErrorCode):
        return answer(outcome)
    if not _change(world, controller, partition, outcome):
        return None
    return answer(outcome if outcome.leader == leader else ErrorCode.NEW_LEADER_ELECTED)
