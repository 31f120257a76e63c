"""The delivery states of one partition of `__share_group_state`: a state machine of the coordination runtime.

Who leads a partition reads its state, and writes what changes. Two numbers fence who is late: the leader epoch of the
partition, and the state epoch, which rises when the group begins anew.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.model.error_code import ErrorCode
from ottla.queues import share_state
from ottla.queues.share_state import (
    UNKNOWN_OFFSET,
    ShareKey,
    ShareState,
    ShareStateRecord,
    SnapshotRecord,
    UpdateRecord,
    snapshot_records,
    with_update,
)
from ottla.queues.state_batches import StateBatch

UNCHECKED_EPOCH: Final = -1
"""The state epoch or leader epoch of a request that fences nobody and is refused to nobody, as in Kafka."""

FENCED_LEADER: Final = "The leader epoch in the request is older than the epoch on the broker."
FENCED_STATE: Final = "The share coordinator rejected the request because the share-group state epoch did not match."
READ_NOTHING: Final = "Read operation on uninitialized share partition not allowed."
WRITE_NOTHING: Final = "Write operation on uninitialized share partition not allowed."

UPDATES_PER_SNAPSHOT_MAX: Final = 500
"""After so many updates the next write is a snapshot (`share.coordinator.snapshot.update.records.per.snapshot`)."""


class StateAnswer(Answer, frozen=True):
    """Whether a state was made, written or deleted, and the state that was read."""

    message: str | None = None
    state: ShareState = ShareState()


class WriteState(Struct, frozen=True):
    """What the leader of a partition writes; a start offset of -1 is as before."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


class _Kept(Struct):
    state: ShareState
    updates: int = 0


class ShareStateShard:
    """Pure: see `CoordinatorShard`."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[ShareKey, _Kept] = {}

    @property
    def count(self) -> int:
        """How many states there are."""
        return len(self._kept)

    @property
    def keys(self) -> tuple[ShareKey, ...]:
        """Whose states there are."""
        return tuple(self._kept)

    def encode(self, record: ShareStateRecord) -> tuple[bytes, bytes | None]:
        """The key and value of a record, in Kafka's format."""
        return share_state.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> ShareStateRecord | None:
        """The record of a key and value."""
        return share_state.decode(key, value)

    def replay(self, record: ShareStateRecord) -> None:
        """Apply a record; an update of another snapshot than the one that is known is over."""
        if isinstance(record, SnapshotRecord):
            if record.state is None:
                self._kept.pop(record.key, None)
            else:
                self._kept[record.key] = _Kept(record.state)
            return
        kept = self._kept.get(record.key)
        if kept is not None and kept.state.snapshot_epoch == record.snapshot_epoch:
            kept.state = with_update(kept.state, record)
            kept.updates += 1

    def handle_loaded(self, now_ms: int) -> Outcome:
        """Nothing is to be done."""
        return Outcome()

    def handle_timer(self, now_ms: int, key: Hashable) -> Outcome:
        """There are no timers."""
        raise AssertionError(f"no timer was set for {key!r}")

    def handle_unloaded(self) -> Outcome:
        """Nobody waits here."""
        return Outcome()

    # Requests; each answers with a StateAnswer

    def handle_initialize(self, now_ms: int, request: tuple[ShareKey, int, int], waiter: Waiter) -> Outcome:
        """Make a state, or begin it anew: key, state epoch and start offset (-1: by the group's reset)."""
        key, state_epoch, start_offset = request
        kept = self._kept.get(key)
        if kept is not None and _is_older(state_epoch, kept.state.state_epoch):
            return _answered(waiter, StateAnswer(ErrorCode.FENCED_STATE_EPOCH, message=FENCED_STATE))
        before = ShareState(created_ms=now_ms) if kept is None else kept.state
        state = ShareState(
            snapshot_epoch=0 if kept is None else before.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=before.leader_epoch,
            start_offset=start_offset,
            complete_count=-1 if start_offset == UNKNOWN_OFFSET else 0,
            created_ms=before.created_ms,
            written_ms=now_ms,
        )
        return _answered(waiter, StateAnswer(), snapshot_records(key, state))

    def handle_read(self, now_ms: int, request: tuple[ShareKey, int], waiter: Waiter) -> Outcome:
        """Read a state for the leader of an epoch: leaders before it can write no more. Key and leader epoch (-1: of
        nobody's, which fences nobody).
        """
        key, leader_epoch = request
        kept = self._kept.get(key)
        if kept is None:
            # A leader must not deliver without: what is settled could not be stored.
            return _answered(waiter, StateAnswer(ErrorCode.INVALID_REQUEST, message=READ_NOTHING))
        state = kept.state
        if _is_older(leader_epoch, state.leader_epoch):
            return _answered(waiter, StateAnswer(ErrorCode.FENCED_LEADER_EPOCH, message=FENCED_LEADER))
        records: list[ShareStateRecord] = []
        if leader_epoch > state.leader_epoch:
            state = replace(state, leader_epoch=leader_epoch)
            records = [UpdateRecord(key, state.snapshot_epoch, leader_epoch, UNKNOWN_OFFSET, state.complete_count, ())]
        return _answered(waiter, StateAnswer(state=state), records)

    def handle_summary(self, now_ms: int, key: ShareKey, waiter: Waiter) -> Outcome:
        """Read a state for whoever describes it; an empty one where there is none."""
        kept = self._kept.get(key)
        return _answered(waiter, StateAnswer(state=ShareState() if kept is None else kept.state))

    def handle_write(self, now_ms: int, request: WriteState, waiter: Waiter) -> Outcome:
        """Write what changed. An epoch of -1 is not checked.

        A state epoch above the known one is of a group that was deleted since, and made again: what its leader knows
        does not concern the new one. (Kafka writes it.)
        """
        key = request.key
        kept = self._kept.get(key)
        if kept is None:
            return _answered(waiter, StateAnswer(ErrorCode.INVALID_REQUEST, message=WRITE_NOTHING))
        state = kept.state
        if _is_older(request.leader_epoch, state.leader_epoch):
            return _answered(waiter, StateAnswer(ErrorCode.FENCED_LEADER_EPOCH, message=FENCED_LEADER))
        if request.state_epoch not in (UNCHECKED_EPOCH, state.state_epoch):
            return _answered(waiter, StateAnswer(ErrorCode.FENCED_STATE_EPOCH, message=FENCED_STATE))
        update = UpdateRecord(
            key,
            state.snapshot_epoch,
            request.leader_epoch,
            request.start_offset,
            request.complete_count,
            request.batches,
        )
        if kept.updates < UPDATES_PER_SNAPSHOT_MAX:
            return _answered(waiter, StateAnswer(), [update])
        after = replace(with_update(state, update), snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms)
        return _answered(waiter, StateAnswer(), snapshot_records(key, after))

    def handle_delete(self, now_ms: int, key: ShareKey, waiter: Waiter) -> Outcome:
        """Delete a state; one that does not exist is deleted too."""
        return _answered(waiter, StateAnswer(), [SnapshotRecord(key, None)] if key in self._kept else [])

    def handle_topics_deleted(self, now_ms: int, topic_ids: Collection[UUID]) -> Outcome:
        """Delete the states of these topics; nobody waits for it."""
        outcome = Outcome()
        for key in self._kept:
            if key.topic_id in topic_ids:
                outcome.write(SnapshotRecord(key, None))
        return outcome

    def handle_snapshot(self, now_ms: int, key: ShareKey | None, waiter: Waiter) -> Outcome:
        """Write a state anew, if it is still there: its records before are not needed after that."""
        kept = None if key is None else self._kept.get(key)
        if key is None or kept is None:
            return _answered(waiter, StateAnswer())
        state = replace(kept.state, snapshot_epoch=kept.state.snapshot_epoch + 1, written_ms=now_ms)
        return _answered(waiter, StateAnswer(), snapshot_records(key, state))


def _answered(waiter: Waiter, answer: StateAnswer, records: Sequence[ShareStateRecord] = ()) -> Outcome:
    outcome = Outcome()
    for record in records:
        outcome.write(record)
    outcome.answer(waiter, answer)
    return outcome


def _is_older(epoch: int, known: int) -> bool:
    return epoch != UNCHECKED_EPOCH and epoch < known
