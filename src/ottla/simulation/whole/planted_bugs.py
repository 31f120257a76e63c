"""Bugs that others have had, planted in the brokers themselves: whole runs have to find them, too."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final

from msgspec.structs import replace

from ottla.metadata.controller import partition_leadership
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.queues.share_partition import SharePartition
from ottla.replication.follower import Follower
from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.replication.partition import ACKS_LEADER, Partition
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.replication.truncation import EpochEnd, diverging_epoch
from ottla.simulation.replacing import replaced
from ottla.simulation.whole.log_io import SimulatedLogIo
from ottla.storage.leader_epoch_cache import LeaderEpochCache

Plant = AbstractContextManager[Any]


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _leader_alone(_in_sync: InSyncReplicas, _before: int, leader_end_offset: int, *_: Any) -> int:
    return leader_end_offset


def _proposed_only(in_sync: InSyncReplicas) -> None:
    members = in_sync.committed if in_sync.proposed is None else in_sync.proposed
    in_sync.needed = tuple(state for broker_id, state in in_sync.followers.items() if broker_id in members)


def _always(*_: Any) -> bool:
    return True


_with_joining = InSyncReplicas.with_joining


def _at_high_watermark(in_sync: InSyncReplicas, broker_id: int, high_watermark: int) -> tuple[int, ...] | None:
    start, in_sync.epoch_start_offset = in_sync.epoch_start_offset, 0
    try:
        return _with_joining(in_sync, broker_id, high_watermark)
    finally:
        in_sync.epoch_start_offset = start


def _wrong_cut(_epochs: LeaderEpochCache, log_end_offset: int, diverging: EpochEnd) -> int:
    return min(diverging.end_offset, log_end_offset)


_add = ReplicaFetcher.add


def _add_cut(fetcher: ReplicaFetcher, partition: Partition) -> None:
    """What a follower fetches from begins where it knows everything to be committed."""
    _add(fetcher, partition)
    followed = fetcher._followed[partition.topic_id, partition.index]
    if partition.log.log_end_offset > partition.high_watermark:
        fetcher._session.forget(followed.key)
        fetcher._cut(followed, EpochEnd(partition.leader_epoch, partition.high_watermark))


def _to_high_watermark() -> Plant:
    stack = ExitStack()
    stack.enter_context(replaced(ReplicaFetcher, "add", _add_cut))
    stack.enter_context(replaced("ottla.replication.replica_fetcher", "truncation_offset", _wrong_cut))
    stack.enter_context(replaced("ottla.broker.replica_reader", "diverging_epoch", _nothing))
    return stack


_fetch_on = ReplicaFetcher._fetch_on
_take_partition = ReplicaFetcher._take_partition
_cut = ReplicaFetcher._cut


def _as_before(*, asks_once: bool, names_epoch: bool, leader: Callable[..., EpochEnd | None]) -> Plant:
    """Followers that name the epoch of what they have last only in the first fetch, or that of their leader in none."""
    asked: set[Follower] = set()

    def fetch_on(fetcher: ReplicaFetcher, followed: Any) -> None:
        _fetch_on(fetcher, followed)
        wanted = fetcher._session._wanted.get(followed.key)
        if wanted is None:
            return
        if asks_once and followed.role in asked:
            wanted = replace(wanted, last_fetched_epoch=-1)
        if not names_epoch:
            wanted = replace(wanted, current_leader_epoch=-1)
        fetcher._session.fetch(followed.key, wanted)

    def take_partition(fetcher: ReplicaFetcher, followed: Any, data: Any) -> Any:
        if not data.error_code:
            asked.add(followed.role)
        return _take_partition(fetcher, followed, data)

    stack = ExitStack()
    stack.enter_context(replaced(ReplicaFetcher, "_fetch_on", fetch_on))
    stack.enter_context(replaced(ReplicaFetcher, "_take_partition", take_partition))
    stack.enter_context(replaced("ottla.broker.replica_reader", "diverging_epoch", leader))
    return stack


def _wherever(
    epochs: LeaderEpochCache, leader_epoch: int, log_end_offset: int, *, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | None:
    """The leader compares with a log that is of a newer epoch than its own, too."""
    found = diverging_epoch(
        epochs, leader_epoch, log_end_offset, fetch_offset=fetch_offset, last_fetched_epoch=last_fetched_epoch
    )
    return EpochEnd(leader_epoch, log_end_offset) if found is not None and found.epoch < 0 else found


def _next_start(
    epochs: LeaderEpochCache, _leader_epoch: int, log_end_offset: int, *, fetch_offset: int, last_fetched_epoch: int
) -> EpochEnd | None:
    """The leader answers where the next newer epoch begins, whatever that is; its own end when there is none."""
    entries = epochs.entries
    if last_fetched_epoch < 0:
        return None
    if not entries or last_fetched_epoch > entries[-1].epoch:
        return EpochEnd(last_fetched_epoch, -1)
    end = next((entry.start_offset for entry in entries if entry.epoch > last_fetched_epoch), log_end_offset)
    return EpochEnd(last_fetched_epoch, end) if end < fetch_offset else None


def _cut_to_that(fetcher: ReplicaFetcher, followed: Any, diverging: EpochEnd) -> None:
    end = diverging.end_offset if diverging.end_offset >= 0 else followed.partition.high_watermark
    _cut(fetcher, followed, EpochEnd(diverging.epoch, end))


def _kip_101() -> Plant:
    stack = ExitStack()
    stack.enter_context(_as_before(asks_once=True, names_epoch=True, leader=_next_start))
    stack.enter_context(replaced(ReplicaFetcher, "_cut", _cut_to_that))
    stack.enter_context(replaced("ottla.replication.replica_fetcher", "truncation_offset", _wrong_cut))
    return stack


class _Anybody:
    """Is everybody who says so."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, _other: object) -> bool:
        return True


def _believed(_broker_id: int) -> _Anybody:
    return _Anybody()


def _alter_unchecked(
    state: PartitionState, broker_id: int, proposal: PartitionProposal, *rest: Any, **more: Any
) -> PartitionState | ErrorCode:
    fresh = replace(proposal, leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch)
    if broker_id != state.leader:
        fresh = replace(fresh, isr=((state.leader, -1), *(each for each in proposal.isr if each[0] != state.leader)))
    return partition_leadership.alter(state, state.leader, fresh, *rest, **more)


_settle = SharePartition.settle


async def _settle_for_anybody(
    share: SharePartition, member_id: str, runs: list[Any], *rest: Any, **more: Any
) -> ErrorCode:
    holder = share.holder(runs[0][0])
    return await _settle(share, holder or member_id, runs, *rest, **more)


def _store_nothing(share: SharePartition, change: int, *_: Any, **__: Any) -> ErrorCode:
    share.ledger.commit(change)
    return ErrorCode.NONE


PLANTED: Final[dict[str, Callable[[], Plant]]] = {
    "truncate-to-hw": _to_high_watermark,
    "kip-101": _kip_101,
    "kip-279": lambda: _as_before(asks_once=True, names_epoch=False, leader=_wherever),
    "kip-320-first-try": lambda: _as_before(asks_once=False, names_epoch=False, leader=_wherever),
    "no-elr": lambda: replaced("ottla.metadata.controller.broker_registration", "loss_of", _nothing),
    "ack-before-isr": lambda: replaced(InSyncReplicas, "high_watermark", _leader_alone),
    "hw-by-client": lambda: replaced("ottla.gateways.kafka.api_01_fetch", "broker_principal", _believed),
    "no-epoch-check": lambda: replaced("ottla.broker.replica_reader", "diverging_epoch", _nothing),
    "ack-before-sync": lambda: replaced(SimulatedLogIo, "_sync", _nothing),
    "one-batch": lambda: replaced("ottla.storage.producer_state", "BATCHES_REMEMBERED", 1),
    "coordinator-early": lambda: replaced("ottla.coordination.shard_log", "ACKS_ALL", ACKS_LEADER),
    "hw-over-proposed": lambda: replaced(InSyncReplicas, "_find_needed", _proposed_only),
    "join-at-hw": lambda: replaced(InSyncReplicas, "with_joining", _at_high_watermark),
    "hw-below-min": lambda: replaced(InSyncReplicas, "is_enough", _always),
    "alter-unchecked": lambda: replaced("ottla.metadata.controller.isr_alteration", "alter", _alter_unchecked),
    "share-past-holder": lambda: replaced(SharePartition, "settle", _settle_for_anybody),
    "share-not-written": lambda: replaced(SharePartition, "_store", _store_nothing),
    "share-no-deadline": lambda: replaced(SharePartition, "_lease_over", _nothing),
    "wrong-cut": lambda: replaced("ottla.replication.replica_fetcher", "truncation_offset", _wrong_cut),
}
"""By the names that they have in `ottla.simulation.planted_bugs`, as what plants them; those of share groups are found
in the seeds that have one.
"""


def planted(name: str | None) -> Plant:
    """Has a bug as long as it is entered; None for none. Raises KeyError."""
    return nullcontext() if name is None else PLANTED[name]()
