"""Bugs that Kafka and others have had, each planted by replacing one decision; the simulator has to find every one.

A simulator that finds nothing may check nothing. These bugs show what it detects:
`python -m ottla.simulation --planted` measures how many schedules each takes, and a test checks it.

Sources: KIP-101, KIP-279, KIP-320 and the models written for them, KIP-497, KIP-966, CVE-2018-1288.
"""

from bisect import bisect_right
from collections.abc import Container
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.metadata.controller import partition_leadership
from ottla.metadata.controller.broker_registration import Loss
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.truncation import EpochEnd
from ottla.simulation.decisions import PRODUCTION, Decisions
from ottla.simulation.decisions import divergence as real_divergence
from ottla.simulation.producer_batches import ProducerBatches
from ottla.simulation.replica import Replica


class PlantedBug(Struct, frozen=True):
    """A bug, and the decisions of brokers that have it."""

    name: str
    story: str
    decisions: Decisions


def _no_epochs(_leader: Replica, _offset: int, _last_fetched_epoch: int, _needs_truncation: bool) -> EpochEnd | None:
    return None


def _to_high_watermark(follower: Replica) -> int:
    return follower.high_watermark


def _wherever(leader: Replica, offset: int, last_fetched_epoch: int, needs_truncation: bool) -> EpochEnd | None:
    """The leader compares with a log that is of a newer epoch than its own, too: it does not ask who is the older."""
    diverging = real_divergence(leader, offset, last_fetched_epoch, needs_truncation)
    if diverging is not None and diverging.epoch < 0:
        return EpochEnd(leader.leader_epoch, len(leader.records))
    return diverging


def _once(leader: Replica, offset: int, last_fetched_epoch: int, needs_truncation: bool) -> EpochEnd | None:
    return _wherever(leader, offset, last_fetched_epoch, needs_truncation) if needs_truncation else None


_UNKNOWN: Final = -1


def _kip_101_divergence(
    leader: Replica, _offset: int, last_fetched_epoch: int, needs_truncation: bool
) -> EpochEnd | None:
    """The leader answers an offset alone: where the next newer epoch begins."""
    if not needs_truncation or last_fetched_epoch < 0:
        return None
    entries = leader.epochs.entries
    if not entries or last_fetched_epoch > entries[-1].epoch:
        return EpochEnd(last_fetched_epoch, _UNKNOWN)
    if last_fetched_epoch == entries[-1].epoch:
        return EpochEnd(last_fetched_epoch, len(leader.records))
    following = bisect_right(entries, last_fetched_epoch, key=lambda entry: entry.epoch)
    return EpochEnd(last_fetched_epoch, entries[following].start_offset)


def _kip_101_offset(follower: Replica, diverging: EpochEnd) -> int:
    """The follower cuts there, and asks no more in this epoch."""
    follower.needs_truncation = False
    end = diverging.end_offset if diverging.end_offset != _UNKNOWN else follower.high_watermark
    return min(end, len(follower.records))


def _any_epoch(_leader_epoch: int, _named_epoch: int) -> ErrorCode:
    return ErrorCode.NONE


def _forget_losses(
    state: PartitionState, broker_id: int, live: Container[int], *, min_isr: int, loss: Loss | None
) -> PartitionState:
    """Who comes back is taken to have what it had, whatever its power cut left of it."""
    kept = None if loss is not None and not loss.is_empty else loss
    return PRODUCTION.register(state, broker_id, live, min_isr=min_isr, loss=kept)


def _at_once(_end_offset: int) -> int:
    return 0


def _written(replica: Replica, _flush: bool) -> int:
    return len(replica.records)


def _anybody(_source_is_broker: bool) -> bool:
    return True


class _ProposedOnly(InSyncReplicas):
    """Counts on what it asked for before it has it."""

    __slots__ = ()

    def _find_needed(self) -> None:
        members = self.committed if self.proposed is None else self.proposed
        self.needed = tuple(state for broker_id, state in self.followers.items() if broker_id in members)


class _JoinsAtHighWatermark(InSyncReplicas):
    """Lets followers join that have what this leader knows to be committed, not what the one before it knew."""

    __slots__ = ()

    def with_joining(self, broker_id: int, high_watermark: int) -> tuple[int, ...] | None:
        start, self.epoch_start_offset = self.epoch_start_offset, 0
        try:
            return super().with_joining(broker_id, high_watermark)
        finally:
            self.epoch_start_offset = start


class _BelowMinimum(InSyncReplicas):
    """Commits what the ISR has, however small it is."""

    __slots__ = ()

    def is_enough(self, min_insync_replicas: int) -> bool:
        del min_insync_replicas
        return True


class _OneBatch(ProducerBatches):
    """Remembers the last batch of a producer, and none before it."""

    __slots__ = ()

    def add(self, value: int, offset: int) -> None:
        super().add(value, offset)
        self.forget_all_but(1)


def _alter_unchecked(
    state: PartitionState, broker_id: int, proposal: PartitionProposal, **rest: object
) -> PartitionState | ErrorCode:
    """The controller takes what a leader proposes whatever epochs it names."""
    fresh = replace(proposal, leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch)
    if broker_id != state.leader:
        fresh = replace(fresh, isr=((state.leader, -1), *(each for each in proposal.isr if each[0] != state.leader)))
    return partition_leadership.alter(state, state.leader, fresh, **rest)  # type: ignore[arg-type]


TWELVE: Final = (
    PlantedBug(
        "truncate-to-hw",
        "a new follower cuts to its high watermark (before KIP-101)",
        replace(PRODUCTION, become_follower=_to_high_watermark, divergence=_no_epochs),
    ),
    PlantedBug(
        "kip-101",
        "a follower is told an offset, not an epoch, and asks once (before KIP-279)",
        replace(PRODUCTION, divergence=_kip_101_divergence, truncation_offset=_kip_101_offset),
    ),
    PlantedBug(
        "kip-279",
        "a follower asks once where to cut; neither that nor its fetches name an epoch (before KIP-320)",
        replace(PRODUCTION, divergence=_once, leader_epoch_error=_any_epoch),
    ),
    PlantedBug(
        "kip-320-first-try",
        "each fetch is checked for where the logs part, and none for the epoch the follower is in",
        replace(PRODUCTION, divergence=_wherever, leader_epoch_error=_any_epoch),
    ),
    PlantedBug(
        "no-elr",
        "the last in sync is elected again whatever a power cut left of it (before KIP-966)",
        replace(PRODUCTION, register=_forget_losses),
    ),
    PlantedBug(
        "ack-before-isr",
        "acks=all is answered when the leader has it",
        replace(PRODUCTION, producer_waits_for=_at_once),
    ),
    PlantedBug(
        "hw-by-client",
        "a client's fetch that names a replica counts as that replica's (CVE-2018-1288)",
        replace(PRODUCTION, is_from_replica=_anybody),
    ),
    PlantedBug(
        "no-epoch-check",
        "a fetch's last epoch is not compared with the leader's",
        replace(PRODUCTION, divergence=_no_epochs),
    ),
    PlantedBug(
        "ack-before-sync",
        "a leader that flushes counts itself when it has written",
        replace(PRODUCTION, safe_end=_written),
    ),
    PlantedBug(
        "one-batch",
        "one batch of a producer is remembered instead of five",
        replace(PRODUCTION, producer_batches=_OneBatch),
    ),
    PlantedBug(
        "coordinator-early",
        "a coordinator answers before what it says is committed",
        replace(PRODUCTION, coordinator_waits_for=_at_once),
    ),
    PlantedBug(
        "hw-over-proposed",
        "the high watermark needs the proposed ISR alone while AlterPartition is pending (KIP-497)",
        replace(PRODUCTION, in_sync_replicas=_ProposedOnly),
    ),
)
"""Bugs of replicated logs."""

MORE: Final = (
    PlantedBug(
        "join-at-hw",
        "a follower joins at the high watermark, before the start of the leader's epoch",
        replace(PRODUCTION, in_sync_replicas=_JoinsAtHighWatermark),
    ),
    PlantedBug(
        "hw-below-min",
        "the high watermark rises while the ISR is below min.insync.replicas",
        replace(PRODUCTION, in_sync_replicas=_BelowMinimum),
    ),
    PlantedBug(
        "alter-unchecked",
        "the controller does not compare the epochs of AlterPartition",
        replace(PRODUCTION, alter=_alter_unchecked),
    ),
    PlantedBug(
        "wrong-cut",
        "a follower cuts to the leader's end of the epoch, whatever its own end of it",
        replace(
            PRODUCTION, truncation_offset=lambda follower, diverging: min(diverging.end_offset, len(follower.records))
        ),
    ),
)
"""More bugs, one for each other guarantee of the decisions."""

ALL: Final = (*TWELVE, *MORE)
