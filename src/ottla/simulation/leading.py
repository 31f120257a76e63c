"""The leader's part of a simulated broker: appends, followers' fetches, the high watermark, proposals of an ISR."""

from typing import Final

from ottla.metadata.controller.partition_leadership import NO_BROKER_EPOCH
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.simulation.messages import ALTER, FETCH, FETCHED, LOOKED, PRODUCED, Message
from ottla.simulation.replica import Replica
from ottla.simulation.world import COORDINATOR, Broker, World

FETCH_RECORDS_MAX: Final = 4
"""The maximum number of records in a response."""

REFUSED: Final = -2
"""The value of a coordinator's response that refuses to answer."""


def become_leader(world: World, broker: Broker, replica: Replica, state: PartitionState) -> None:
    """The broker begins to lead, in the leader epoch of `state`."""
    replica.leader = broker.broker_id
    replica.leader_epoch = state.leader_epoch
    replica.partition_epoch = state.partition_epoch
    replica.waiting = []
    replica.unanswered = 0
    replica.loaded_end = len(replica.records)
    replica.in_sync = world.decisions.in_sync_replicas(
        broker.broker_id,
        state.replicas,
        state.isr,
        state.partition_epoch,
        epoch_start_offset=len(replica.records),
        live_brokers=broker.live,
        lag_max_ms=world.swarm.lag_max_ms,
        now_ms=world.clock_of(broker),
    )
    ledger = world.ledgers[replica.partition]
    ledger.leads(replica, broker.broker_epoch)
    newest = world.metadata.images[-1].partitions[replica.partition]
    if newest.leader_epoch == state.leader_epoch and not ledger.is_held_by(replica, len(replica.records)):
        ledger.missing_on(replica)
    if world.swarm.idempotent and replica.partition != COORDINATOR:
        replica.producers = world.decisions.producer_batches()
        replica.producers.replay([value for _, value in replica.records])
    if world.trace is not None:
        world.note("lead", broker.broker_id, replica.partition, state.leader_epoch, state.isr)
    advance(world, broker, replica)


def advance(world: World, broker: Broker, replica: Replica) -> None:
    """Advance the high watermark, and answer the requests that wait for it."""
    in_sync = replica.in_sync
    if in_sync is None:
        return
    swarm = world.swarm
    before = replica.high_watermark
    high_watermark = in_sync.high_watermark(
        before,
        world.decisions.safe_end(replica, swarm.flush),
        swarm.min_insync_replicas,
        world.clock_of(broker),
    )
    if high_watermark == before:
        return
    if world.trace is not None:
        world.note("high watermark", broker.broker_id, replica.partition, high_watermark)
    if world.ledgers[replica.partition].raise_to(replica, high_watermark):
        check_members(world, replica.partition)
    _answer_waiting(world, replica)


def _answer_waiting(world: World, replica: Replica) -> None:
    high_watermark = replica.high_watermark
    ledger = world.ledgers[replica.partition]
    kept = []
    for waiting in replica.waiting:
        required, client, value, offset = waiting
        if required > high_watermark:
            kept.append(waiting)
            continue
        if replica.leader_epoch < ledger.floor_epoch:
            ledger.lost.add(value)
        if offset < 0:
            world.send((LOOKED, replica.broker_id, client, replica.partition, value, -offset - 2))
        else:
            world.send((PRODUCED, replica.broker_id, client, replica.partition, value, offset))
    replica.waiting = kept


def check_members(world: World, partition: int) -> None:
    """Every member of ISR and ELR, as the store has them, holds everything that is committed.

    Except whose disk was lost, and, where nothing is synced first, who died or was started anew and is not registered
    yet: the controller takes it out when it hears of that, and elects nobody who is not there.
    """
    image = world.metadata.images[-1]
    ledger = world.ledgers[partition]
    flush = world.swarm.flush
    state = image.partitions[partition]
    for member in (*state.isr, *state.elr) if state.elr else state.isr:
        broker = world.brokers[member]
        registered = image.brokers[member]
        if str(broker.directory) != registered.directories[0]:
            continue
        if not flush and not (broker.up and str(broker.incarnation) == registered.incarnation):
            continue
        replica = broker.replicas[partition]
        if not ledger.is_held_by(replica, replica.synced if flush else len(replica.records)):
            ledger.missing_on(replica)


def on_produce(world: World, message: Message) -> Message | None:
    """Handle a producer's value: appended if it is next in sequence, acknowledged when it is committed."""
    _, client, broker_id, partition, value = message
    replica = world.brokers[broker_id].replicas[partition]
    in_sync = replica.in_sync
    refusal = (PRODUCED, broker_id, client, partition, value, -1)
    if in_sync is None or not in_sync.is_enough(world.swarm.min_insync_replicas):
        return refusal
    offset = -1
    is_idempotent = world.swarm.idempotent and partition != COORDINATOR
    if is_idempotent:
        offset = replica.producers.find(value)
        if offset < -1:
            return refusal
    if offset < 0:
        offset = len(replica.records)
        replica.append((replica.leader_epoch, value))
        if is_idempotent:
            replica.producers.add(value, offset)
        if world.trace is not None:
            world.note("append", broker_id, partition, offset, value, replica.leader_epoch)
    waits_for = (
        world.decisions.coordinator_waits_for if partition == COORDINATOR else world.decisions.producer_waits_for
    )
    required = waits_for(offset + 1)
    replica.waiting.append((required, client, value, offset))
    if required <= replica.high_watermark:
        _answer_waiting(world, replica)
    elif not in_sync.needed:
        advance(world, world.brokers[broker_id], replica)
    return None


def on_look(world: World, message: Message) -> Message | None:
    """Handle a request to a coordinator: answered from memory when all that the answer depends on is committed."""
    _, client, broker_id, partition, number = message
    replica = world.brokers[broker_id].replicas[partition]
    if replica.in_sync is None or replica.high_watermark < replica.loaded_end:
        return (LOOKED, broker_id, client, partition, number, REFUSED)
    value = replica.records[-1][1] if replica.records else -1
    required = world.decisions.coordinator_waits_for(len(replica.records))
    if required <= replica.high_watermark:
        return (LOOKED, broker_id, client, partition, number, value)
    replica.waiting.append((required, client, number, -2 - value))
    return None


def on_fetch(world: World, message: Message) -> Message | None:
    """Handle a follower's fetch: check its epochs, note its position, send the next records."""
    _, follower, broker_id, partition, broker_epoch, leader_epoch, offset, last_epoch, needs_truncation, number = (
        message
    )
    broker = world.brokers[broker_id]
    replica = broker.replicas[partition]
    in_sync = replica.in_sync
    decisions = world.decisions

    def answer(content: object) -> Message:
        return (FETCHED, broker_id, follower, partition, leader_epoch, offset, content, replica.high_watermark, number)

    if in_sync is None:
        return answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = decisions.leader_epoch_error(replica.leader_epoch, leader_epoch)
    if error:
        return answer(error)
    diverging = decisions.divergence(replica, offset, last_epoch, needs_truncation)
    end = len(replica.records)
    if diverging is not None and diverging.epoch >= 0:
        return answer(diverging)
    if diverging is not None or offset > end:
        return answer(ErrorCode.OFFSET_OUT_OF_RANGE)
    now_ms = world.clock_of(broker)
    error = in_sync.fetched(follower, broker_epoch, offset, 0, leader_end_offset=end, now_ms=now_ms)
    if error:
        return answer(error)
    joined = in_sync.with_joining(follower, replica.high_watermark)
    if joined is not None:
        propose(world, broker, replica, joined)
    advance(world, broker, replica)
    return answer(replica.records[offset : offset + FETCH_RECORDS_MAX])


def on_claimed_fetch(world: World, message: Message) -> Message | None:
    """Handle a client's fetch that claims to be a replica's: it does not change that replica's position."""
    _, client, broker_id, partition, claimed, *rest = message
    if world.decisions.is_from_replica(client <= world.swarm.broker_count):
        on_fetch(world, (FETCH, claimed, broker_id, partition, *rest, False, 0))
    return None


def check_lag(world: World, broker: Broker, replica: Replica) -> None:
    """The leader's timer: propose to remove followers that are behind."""
    in_sync = replica.in_sync
    if in_sync is None:
        return
    isr = in_sync.without_lagging(len(replica.records), world.clock_of(broker))
    if isr is not None:
        propose(world, broker, replica, isr)
    else:
        advance(world, broker, replica)


def propose(world: World, broker: Broker, replica: Replica, isr: tuple[int, ...]) -> None:
    """Ask the controller for another ISR."""
    in_sync = replica.in_sync
    assert in_sync is not None
    replica.proposal = tuple(in_sync.propose(isr))
    if world.trace is not None:
        world.note("propose", broker.broker_id, replica.partition, isr)
    replica.unanswered = 0
    _send_proposal(world, broker, replica)


def retry_proposal(world: World, broker: Broker, replica: Replica) -> None:
    """Send the same proposal again, if there was no response, or one without an outcome."""
    in_sync = replica.in_sync
    if in_sync is not None and in_sync.proposed is not None:
        replica.unanswered += 1
        _send_proposal(world, broker, replica)


def _send_proposal(world: World, broker: Broker, replica: Replica) -> None:
    in_sync = replica.in_sync
    assert in_sync is not None
    replica.attempt += 1
    request = (
        ALTER,
        broker.broker_id,
        world.metadata.images[broker.applied].controller,
        replica.partition,
        broker.broker_epoch,
        replica.leader_epoch,
        in_sync.partition_epoch,
        replica.proposal,
        replica.attempt,
    )
    if world.healing:
        world.exchange(request)
    else:
        world.send(request)


def on_altered(world: World, message: Message) -> Message | None:
    """The controller's answer to a proposal."""
    _, _, broker_id, partition, leader_epoch, partition_epoch, outcome, attempt = message
    broker = world.brokers[broker_id]
    replica = broker.replicas[partition]
    in_sync = replica.in_sync
    if in_sync is None or in_sync.proposed is None or attempt != replica.attempt:
        return None
    if leader_epoch != replica.leader_epoch or partition_epoch != in_sync.partition_epoch:
        return None
    if isinstance(outcome, PartitionState):
        if outcome.leader_epoch == replica.leader_epoch:
            in_sync.adopt(outcome.replicas, outcome.isr, outcome.partition_epoch, world.clock_of(broker))
            advance(world, broker, replica)
        return None
    fate = world.decisions.fate_of(outcome, attempts_unanswered=replica.unanswered)
    if fate.is_withdrawn:
        in_sync.withdraw()
        advance(world, broker, replica)
    elif fate.is_repeated and world.decisions.fate_of(outcome, attempts_unanswered=0).is_withdrawn:
        # The same would be refused for ever; the ISR as it is makes what may still be on its way stale.
        replica.proposal = tuple((member, NO_BROKER_EPOCH) for member in in_sync.committed)
    return None
