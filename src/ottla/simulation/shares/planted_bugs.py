"""Mistakes that share groups could make, planted in what the broker runs: short runs have to find each of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, cast

from msgspec.structs import replace

from ottla.coordination.outcome import Waiter
from ottla.model.error_code import ErrorCode
from ottla.native import BatchInfo
from ottla.queues.aborted_batches import AbortedBatches
from ottla.queues.acknowledgements import REJECT, RELEASE, RENEW
from ottla.queues.delivery_throttle import joined
from ottla.queues.lease_timers import LeaseTimers
from ottla.queues.owners import Owners
from ottla.queues.record_delivery import RecordDelivery
from ottla.queues.share_partition import SharePartition
from ottla.queues.share_state import SnapshotRecord, snapshot_records
from ottla.queues.share_state_shard import ShareStateShard, StateAnswer
from ottla.queues.state_writer import StateWrite, StateWriter
from ottla.simulation.replacing import replaced

Plant = AbstractContextManager[Any]


def _nothing(*_: Any, **__: Any) -> None:
    return None


_begin_settle = SharePartition.begin_settle


def _for_anybody(share: SharePartition, member_id: str, runs: list[Any], *rest: Any, **more: Any) -> Any:
    return _begin_settle(share, share.holder(runs[0][0]) or member_id, runs, *rest, **more)


def _without_renewals(share: SharePartition, member_id: str, runs: list[Any], *rest: Any, **more: Any) -> Any:
    return _begin_settle(share, member_id, [run for run in runs if run[2] != RENEW], *rest, **more)


def _rejects_released(share: SharePartition, member_id: str, runs: list[Any], *rest: Any, **more: Any) -> Any:
    changed = [(first, last, RELEASE if kind == REJECT else kind) for first, last, kind in runs]
    return _begin_settle(share, member_id, changed, *rest, **more)


def _first_run_alone(share: SharePartition, member_id: str, runs: list[Any], *rest: Any, **more: Any) -> Any:
    begun = _begin_settle(share, member_id, runs, *rest, **more)
    if begun is ErrorCode.INVALID_RECORD_STATE:
        return _begin_settle(share, member_id, runs[:1], *rest, **more)
    return begun


def _store_nothing(share: SharePartition, change: int, *_: Any, **__: Any) -> ErrorCode:
    share.ledger.commit(change)
    return ErrorCode.NONE


_decide = SharePartition._decide


def _failures_taken_for_done(share: SharePartition, writes: Sequence[StateWrite], _error: ErrorCode) -> None:
    _decide(share, writes, ErrorCode.NONE)


def _never_undone(share: SharePartition, writes: Sequence[StateWrite], error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        _decide(share, writes, error)
    else:
        for write in writes:
            write.decide(error)


def _one_more(share: SharePartition) -> int:
    limits = share._writer.limits
    return 0 if limits is None else limits.deliveries_max + 1


_forget = Owners.forget


def _forget_another(owners: Owners, member_id: str) -> int | None:
    number = _forget(owners, member_id)
    return None if number is None else number - 1


_pass_over = RecordDelivery._pass_over


def _one_too_far(delivery: RecordDelivery, first: int, last: int, reason: str = "") -> None:
    _pass_over(delivery, first, last + 1, reason)


_has = AbortedBatches.has


def _never_aborted(batches: AbortedBatches, batch: BatchInfo) -> bool:
    _has(batches, batch)
    return False


def _counted_once(runs: list[tuple[int, int, int]], size: int) -> list[tuple[int, int, int]]:
    return joined([(first, last, 1) for first, last, _ in runs], size)


_handle_read = ShareStateShard.handle_read


def _last_batch_lost(shard: ShareStateShard, *asked: Any) -> Any:
    outcome = _handle_read(shard, *asked)
    outcome.answers = [
        (waiter, replace(answer, state=replace(answer.state, batches=answer.state.batches[:-1])))
        for waiter, answer in cast("list[tuple[Waiter, StateAnswer]]", outcome.answers)
    ]
    return outcome


def _never_older(_epoch: int, _known: int) -> bool:
    return False


def _first_part(*given: Any) -> Any:
    return snapshot_records(*given)[:1]


_replay = ShareStateShard.replay


def _snapshots_alone(shard: ShareStateShard, record: Any) -> None:
    if isinstance(record, SnapshotRecord) or record.batches == ():
        _replay(shard, record)


def _nothing_forgotten(_writer: StateWriter, _start_after: int) -> list[Any]:
    return []


def _always(_writer: StateWriter) -> bool:
    return True


_start = LeaseTimers.start


def _over_at_once(timers: LeaseTimers, lease: int, delay_ms: int, owner: int) -> None:
    _start(timers, lease, delay_ms // 2, owner)


PLANTED: Final[dict[str, Callable[[], Plant]]] = {
    "accepts of a past holder": lambda: replaced(SharePartition, "begin_settle", _for_anybody),
    "a renewal renews nothing": lambda: replaced(SharePartition, "begin_settle", _without_renewals),
    "what is rejected is released": lambda: replaced(SharePartition, "begin_settle", _rejects_released),
    "half of a refused request is done": lambda: replaced(SharePartition, "begin_settle", _first_run_alone),
    "answered before it is stored": lambda: replaced(SharePartition, "_store", _store_nothing),
    "a failed write is taken for done": lambda: replaced(SharePartition, "_decide", _failures_taken_for_done),
    "a failed write is not undone": lambda: replaced(SharePartition, "_decide", _never_undone),
    "locks have no end": lambda: replaced(SharePartition, "_lease_over", _nothing),
    "one delivery too many": lambda: replaced(SharePartition, "_deliveries_max", property(_one_more)),
    "who goes frees another's records": lambda: replaced(Owners, "forget", _forget_another),
    "a gap takes the next record along": lambda: replaced(RecordDelivery, "_pass_over", _one_too_far),
    "aborted records are delivered": lambda: replaced(AbortedBatches, "has", _never_aborted),
    "the count does not rise": lambda: replaced("ottla.queues.record_delivery", "joined", _counted_once),
    "locks end at once": lambda: replaced(LeaseTimers, "start", _over_at_once),
    "a leader of before is not fenced": lambda: replaced("ottla.queues.share_state_shard", "_is_older", _never_older),
    "the last of the state is lost at load": lambda: replaced(ShareStateShard, "handle_read", _last_batch_lost),
    "a snapshot ends with its first record": lambda: replaced(
        "ottla.queues.share_state_shard", "snapshot_records", _first_part
    ),
    "updates are not replayed": lambda: replaced(ShareStateShard, "replay", _snapshots_alone),
    "the start goes back without what is done": lambda: replaced(StateWriter, "_forgotten", _nothing_forgotten),
    "done below a start that is not stored": lambda: replaced(StateWriter, "is_start_stored", property(_always)),
}


def planted(name: str | None) -> Plant:
    """Has a bug as long as it is entered; None for none. Raises KeyError."""
    return nullcontext() if name is None else PLANTED[name]()
