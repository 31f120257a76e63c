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
        if kept is not None and state_epoch < kept.state.state_epoch:
            return _answered(waiter, StateAnswer(ErrorCode.FENCED_STATE_EPOCH, message="The state epoch is too old."))
        before = ShareState(created_ms=now_ms) if kept is None else kept.state
        state = ShareState(
            snapshot_epoch=0 if kept is None else before.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=before.leader_epoch,
            start_offset=start_offset,
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
            error = ErrorCode.NONE if leader_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
            message = None if leader_epoch < 0 else "The share partition has no state."
            return _answered(waiter, StateAnswer(error, message=message))
        state = kept.state
        if 0 <= leader_epoch < state.leader_epoch:
            return _answered(waiter, _fenced_leader(leader_epoch, state))
        records: list[ShareStateRecord] = []
        if leader_epoch > state.leader_epoch:
            state = replace(state, leader_epoch=leader_epoch)
            records = [UpdateRecord(key, state.snapshot_epoch, leader_epoch, UNKNOWN_OFFSET, state.complete_count, ())]
        return _answered(waiter, StateAnswer(state=state), records)

    def handle_write(self, now_ms: int, request: WriteState, waiter: Waiter) -> Outcome:
        """Write what changed."""
        key = request.key
        kept = self._kept.get(key)
        if kept is None:
            message = "The share partition has no state."
            return _answered(waiter, StateAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message))
        state = kept.state
        if request.leader_epoch < state.leader_epoch:
            return _answered(waiter, _fenced_leader(request.leader_epoch, state))
        if request.state_epoch != state.state_epoch:
            message = f"The state epoch is {state.state_epoch}, not {request.state_epoch}."
            return _answered(waiter, StateAnswer(ErrorCode.FENCED_STATE_EPOCH, message=message))
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


def _fenced_leader(leader_epoch: int, state: ShareState) -> StateAnswer:
    message = f"The leader epoch {leader_epoch} is older than {state.leader_epoch}."
    return StateAnswer(ErrorCode.FENCED_LEADER_EPOCH, message=message)
