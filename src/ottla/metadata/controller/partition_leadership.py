"""Who leads a partition and who is in sync: the decisions, each from a partition's state to its next one.

    who may lead     a live member of the ISR, the leader it has before any other, then in the order of the replicas
                     nobody in the ISR: a live one of the ELR (KIP-966), which has everything committed
                     nobody in both: the last leader, as soon as it is there: it may miss what was not flushed
                     unclean, where it is asked for or a setting allows it: any live replica

    who leaves an ISR that is as small as min.insync.replicas, or smaller, goes to the ELR: nothing is committed without
    it from then on. The ELR ends when the ISR is large enough again.

The leader epoch rises with each leader, and when a replica is taken away; the partition epoch with each change. Every
function is pure, so that the simulation decides by them as the controller does. `live` are the brokers that may lead:
neither fenced nor shutting down. `min_isr` is `min.insync.replicas` of the topic; no more is asked for than there are
replicas. Where nothing is to change, the state that is returned is the very one that was given.

Source: KIP-455 (reassignment), KIP-841 (fenced replicas), KIP-903 (broker epochs), KIP-966 (ELR), and what Kafka's
controller does where they are silent. Unlike Kafka's, the last leader is elected only when it is alive; the ELR ends
too when an election makes the ISR large enough; a replica that is taken away leaves the ELR.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ottla.metadata.image.image import NO_LEADER, BrokerImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode

NO_BROKER_EPOCH: Final = -1
"""Stands in a proposal for a broker epoch that is not to be checked."""


class Election(Enum):
    """Whom an election may take."""

    ONLINE = "online"
    """The leader stays while it may lead; otherwise who has everything committed."""
    PREFERRED = "preferred"
    """As ONLINE, but the first replica before the leader that there is."""
    UNCLEAN = "unclean"
    """As ONLINE, and when there is nobody, any live replica: records may be lost."""


class PartitionProposal(Struct, frozen=True):
    """The ISR that a leader proposes, each member with its broker epoch (AlterPartition)."""

    topic_id: UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


def new_state(replicas: Sequence[int], live: Container[int]) -> PartitionState:
    """A partition that nothing was written to: every live replica is in sync and the first of them leads.

    At least one replica is live.
    """
    isr = tuple(replica for replica in replicas if replica in live)
    return PartitionState(isr[0], 0, tuple(replicas), isr, 0)


def elect(
    state: PartitionState,
    live: Container[int],
    *,
    min_isr: int,
    election: Election = Election.ONLINE,
    unclean_order: Sequence[int] | None = None,
) -> PartitionState:
    """The partition with the leader that it can have now.

    `unclean_order` are its replicas as an unclean election is to prefer them: by the highest last epoch, then by the
    highest offset, as far as they are known. Without it, they are taken in their order.
    """
    return _changed(state, live, min_isr, election, isr=state.isr, elr=state.elr, unclean_order=unclean_order)


def fence(
    state: PartitionState, broker_id: int, live: Container[int], *, min_isr: int, election: Election = Election.ONLINE
) -> PartitionState:
    """The partition without a broker that died, is shutting down or has lost touch: it leaves the ISR, and does not
    lead. `live` is without it."""
    return fence_all(state, (broker_id,), live, min_isr=min_isr, election=election)


def fence_all(
    state: PartitionState,
    broker_ids: Container[int],
    live: Container[int],
    *,
    min_isr: int,
    election: Election = Election.ONLINE,
) -> PartitionState:
    """The same with several brokers at once: what was in sync together stays eligible together."""
    isr = tuple(member for member in state.isr if member not in broker_ids)
    return _changed(state, live, min_isr, election, isr=isr, elr=state.elr)


def lose(
    state: PartitionState,
    broker_id: int,
    live: Container[int],
    *,
    min_isr: int,
    election: Election = Election.ONLINE,
    is_empty: bool = False,
) -> PartitionState:
    """The partition after a broker lost what it had of it, or some of it: it leaves the ISR and the ELR.

    With `is_empty` it has nothing of it left, or an old copy: then it is not remembered as the last leader either,
    unless there is no other replica to wait for.
    """
    isr = tuple(member for member in state.isr if member != broker_id)
    after = _changed(state, live, min_isr, election, isr=isr, elr=state.elr, lost=broker_id)
    if is_empty and after.last_known_leader == broker_id and len(after.replicas) > 1:
        epoch = state.partition_epoch + 1
        return after._replace(last_known_leader=NO_LEADER, partition_epoch=epoch)
    return after


def renew_leader(state: PartitionState) -> PartitionState:
    """The partition led by another incarnation of the broker that leads it, which is another leader for everybody."""
    return state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)


def reassign(
    state: PartitionState,
    replicas: Sequence[int],
    adding: Sequence[int],
    removing: Sequence[int],
    live: Container[int],
    *,
    min_isr: int,
    isr: Sequence[int] | None = None,
    election: Election = Election.ONLINE,
) -> PartitionState:
    """The partition on its way to other replicas, or there, when what it needs for that is in sync already.

    `replicas` has those that are added and removed in it. `isr` is given where replicas are taken away at once.
    """
    target = tuple(state.isr if isr is None else isr)
    return _changed(
        state,
        live,
        min_isr,
        election,
        isr=target,
        elr=state.elr,
        replicas=tuple(replicas),
        adding=tuple(adding),
        removing=tuple(removing),
    )


def begin_reassignment(
    state: PartitionState, target: Sequence[int], live: Container[int], *, min_isr: int
) -> PartitionState:
    """The partition on its way to be on `target`, in place of any other move, counted from the replicas before both.

    Who was to be added and is not any more goes at once; one that may lead already goes with the others, and is listed
    as added and as removed.
    """
    may_lead = {*state.isr, *state.elr, state.last_known_leader}
    given_up = tuple(each for each in state.adding if each not in target and each in may_lead)
    before = [each for each in state.replicas if each not in state.adding]
    adding = *(each for each in target if each not in before), *given_up
    removing = tuple(sorted((*(each for each in before if each not in target), *given_up)))
    return reassign(state, (*target, *removing), adding, removing, live, min_isr=min_isr)


def cancel_reassignment(
    state: PartitionState, live: Container[int], *, min_isr: int, may_lose_records: bool
) -> PartitionState | None:
    """The partition back on the replicas before it was reassigned.

    None when only brokers that were added are in sync, and no leader may be elected that may miss records.
    """
    replicas = tuple(broker for broker in state.replicas if broker not in state.adding)
    isr = tuple(member for member in state.isr if member not in state.adding)
    election = Election.ONLINE
    if state.isr and not isr:
        if not may_lose_records:
            return None
        election = Election.UNCLEAN
    return reassign(state, replicas, (), (), live, min_isr=min_isr, isr=isr, election=election)


def recount(state: PartitionState, live: Container[int], *, min_isr: int) -> PartitionState:
    """The partition after `min.insync.replicas` changed: an ISR that is large enough now has no ELR beside it."""
    return _changed(state, live, min_isr, Election.ONLINE, isr=state.isr, elr=state.elr)


def alter(
    state: PartitionState,
    broker_id: int,
    proposal: PartitionProposal,
    brokers: Mapping[int, BrokerImage],
    live: Container[int],
    *,
    min_isr: int,
    election: Election = Election.ONLINE,
) -> PartitionState | ErrorCode:
    """The partition with the ISR that broker `broker_id`, its leader, proposes, or why it cannot have it.

    NOT_CONTROLLER (the leader knows of a newer epoch: whoever decides here is the controller no more),
    FENCED_LEADER_EPOCH, INVALID_REQUEST (not from the leader, or an ISR without it or with others than replicas),
    INVALID_UPDATE_VERSION (the partition changed since), INELIGIBLE_REPLICA (a member is not there, fenced, shutting
    down, was started anew since it fetched, or has the replica in a log directory that failed). An ISR that ends a
    reassignment may have another leader than who asked. The ISR that the partition has already gets a new partition
    epoch too: so a leader makes a proposal stale whose answer it has lost.
    """
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != state.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = tuple(member for member, _ in proposal.isr)
    if broker_id not in isr or len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        return ErrorCode.INVALID_REQUEST
    if ineligible_members(proposal, brokers, live):
        return ErrorCode.INELIGIBLE_REPLICA
    after = _changed(state, live, min_isr, election, isr=isr, elr=state.elr)
    return state._replace(partition_epoch=state.partition_epoch + 1) if after is state else after


def ineligible_members(
    proposal: PartitionProposal, brokers: Mapping[int, BrokerImage], live: Container[int]
) -> list[tuple[int, str]]:
    """The members of a proposed ISR that may not be in one, each with the reason."""
    reasons: list[tuple[int, str]] = []
    for member, broker_epoch in proposal.isr:
        broker = brokers.get(member)
        if broker is None:
            reasons.append((member, "is not in the cluster"))
        elif broker.shutting_down:
            reasons.append((member, "is shutting down"))
        elif broker.fenced:
            reasons.append((member, "is fenced"))
        elif broker_epoch not in (NO_BROKER_EPOCH, broker.broker_epoch):
            reasons.append((member, f"has the broker epoch {broker.broker_epoch}, not {broker_epoch}"))
        elif member not in live:
            reasons.append((member, "has that replica in a log directory that failed"))
    return reasons


def unclean_order(replicas: Sequence[int], ends: Mapping[int, tuple[int, int]]) -> tuple[int, ...]:
    """Replicas as an unclean election prefers them: by the last epoch of their log, then by its end, the highest first.

    `ends` has both for the replicas that could be asked; the others come last.
    """

    def key(replica: int) -> tuple[int, int]:
        return ends.get(replica, (-1, -1))

    return tuple(sorted(replicas, key=key, reverse=True))


def _changed(
    state: PartitionState,
    live: Container[int],
    min_isr: int,
    election: Election,
    *,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    replicas: tuple[int, ...] | None = None,
    adding: tuple[int, ...] | None = None,
    removing: tuple[int, ...] | None = None,
    lost: int = NO_LEADER,
    unclean_order: Sequence[int] | None = None,
) -> PartitionState:
    """The one way from a state to the next: end the reassignment that can end, keep the ELR, elect."""
    replicas = state.replicas if replicas is None else replicas
    adding = state.adding if adding is None else adding
    removing = state.removing if removing is None else removing
    if adding or removing:
        staying = tuple(replica for replica in replicas if replica not in removing)
        in_sync = tuple(member for member in isr if member not in removing)
        if staying and set(staying) <= set(in_sync):
            replicas, isr, adding, removing = staying, in_sync, (), ()
    needed = min(min_isr, len(replicas))
    if len(isr) >= needed:
        elr = ()
    else:
        left = dict.fromkeys((*elr, *state.isr))
        elr = tuple(member for member in left if member not in isr and member != lost and member in replicas)
    last_known = state.last_known_leader if state.last_known_leader in replicas else NO_LEADER

    leader = _leader(state.leader, replicas, isr, elr, live, election)
    if leader == NO_LEADER:
        if not (isr or elr) and last_known in live:
            leader = last_known
        elif election is Election.UNCLEAN:
            leader = _first(unclean_order or replicas, lambda replica: replica in replicas and replica in live)
        if leader != NO_LEADER:  # whoever else is in sync or eligible is not alive, and not in step with this one
            isr, elr = (leader,), ()
    elif leader not in isr:
        isr, elr = (leader,), tuple(member for member in elr if member != leader)
    if len(isr) >= needed:
        elr = ()

    if leader != NO_LEADER:
        last_known = NO_LEADER
    elif not isr and state.isr:
        last = state.leader if state.leader != NO_LEADER else state.isr[0]
        last_known = last if last in replicas else NO_LEADER
    has_new_epoch = leader != state.leader or not set(state.replicas) <= set(replicas)
    after = PartitionState(
        leader,
        state.leader_epoch + has_new_epoch,
        replicas,
        isr,
        state.partition_epoch,
        adding,
        removing,
        elr,
        last_known,
    )
    return state if after == state else after._replace(partition_epoch=state.partition_epoch + 1)


def _leader(
    present: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    live: Container[int],
    election: Election,
) -> int:
    """Who leads without anything being lost; NO_LEADER when nobody can."""
    candidates = isr or elr

    def may_lead(replica: int) -> bool:
        return replica in candidates and replica in live and replica in replicas

    if election is Election.PREFERRED and may_lead(replicas[0]):
        return replicas[0]
    if may_lead(present):
        return present
    return _first(replicas, may_lead)


def _first(replicas: Sequence[int], is_wanted: Callable[[int], bool]) -> int:
    return next(filter(is_wanted, replicas), NO_LEADER)
