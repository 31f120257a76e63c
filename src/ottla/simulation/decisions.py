"""The decisions under test: the functions by which brokers and controllers decide, each called through this table.

A simulated broker uses these functions for every decision about leaders, in-sync replicas, high watermarks, epochs and
truncation. A planted bug (`ottla.simulation.planted_bugs`) is a table with one of them replaced.
"""

from collections.abc import Callable, Container

from msgspec import Struct

from ottla.metadata.controller import partition_leadership
from ottla.metadata.controller.broker_registration import Loss
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.replication import truncation
from ottla.replication.in_sync_replicas import InSyncReplicas, ProposalFate, fate_of, follower_high_watermark
from ottla.replication.truncation import EpochEnd
from ottla.simulation.producer_batches import ProducerBatches
from ottla.simulation.replica import Replica


def register(
    state: PartitionState, broker_id: int, live: Container[int], *, min_isr: int, loss: Loss | None
) -> PartitionState:
    """The state of a partition after a replica's broker has registered a new process."""
    state = partition_leadership.fence(state, broker_id, live, min_isr=min_isr)
    if loss is None:
        return state
    return partition_leadership.lose(state, broker_id, live, min_isr=min_isr, is_empty=loss.is_empty)


def divergence(leader: Replica, offset: int, last_fetched_epoch: int, _needs_truncation: bool) -> EpochEnd | None:
    """Where the log of a follower that fetches from `offset` diverges from its leader's; None if it does not."""
    return truncation.diverging_epoch(
        leader.epochs,
        leader.leader_epoch,
        len(leader.records),
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
    )


def truncation_offset(follower: Replica, diverging: EpochEnd) -> int:
    """The offset to which a follower truncates its log, given `diverging`."""
    return truncation.truncation_offset(follower.epochs, len(follower.records), diverging)


def safe_end(replica: Replica, flush: bool) -> int:
    """The end of the replica's log, or of its synced part if records are flushed first."""
    return replica.synced if flush else len(replica.records)


def become_follower(_follower: Replica) -> int | None:
    """The offset to which a new follower truncates at once: None, because its fetches find the offset."""
    return None


def waits_for(end_offset: int) -> int:
    """The high watermark that an answer waits for, if it depends on the log up to `end_offset`."""
    return end_offset


def is_from_replica(source_is_broker: bool) -> bool:
    """Whether a fetch that names a replica counts: only over an authenticated connection of that broker."""
    return source_is_broker


def is_current(asked_in: int, epoch: int) -> bool:
    """Whether a response to a request of one leader epoch is accepted in another."""
    return asked_in == epoch


class Decisions(Struct, frozen=True):
    """The functions of all decisions; the defaults are the broker's own."""

    elect: Callable[..., PartitionState] = partition_leadership.elect
    fence: Callable[..., PartitionState] = partition_leadership.fence
    register: Callable[..., PartitionState] = register
    begin_reassignment: Callable[..., PartitionState] = partition_leadership.begin_reassignment
    cancel_reassignment: Callable[..., PartitionState | None] = partition_leadership.cancel_reassignment
    alter: Callable[..., PartitionState | ErrorCode] = partition_leadership.alter
    in_sync_replicas: type[InSyncReplicas] = InSyncReplicas
    fate_of: Callable[..., ProposalFate] = fate_of
    follower_high_watermark: Callable[[int, int, int], int] = follower_high_watermark
    leader_epoch_error: Callable[[int, int], ErrorCode] = truncation.leader_epoch_error
    divergence: Callable[[Replica, int, int, bool], EpochEnd | None] = divergence
    truncation_offset: Callable[[Replica, EpochEnd], int] = truncation_offset
    safe_end: Callable[[Replica, bool], int] = safe_end
    become_follower: Callable[[Replica], int | None] = become_follower
    is_current: Callable[[int, int], bool] = is_current
    is_from_replica: Callable[[bool], bool] = is_from_replica
    producer_waits_for: Callable[[int], int] = waits_for
    coordinator_waits_for: Callable[[int], int] = waits_for
    producer_batches: type[ProducerBatches] = ProducerBatches


PRODUCTION = Decisions()
"""The decisions of real brokers."""
