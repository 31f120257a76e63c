"""The producers of a log: which batch is new, which was sent before, which is out of order, who has a transaction open.

last sequence remembered 41, epoch 3        epoch 3, from 42       next: append
                                            epoch 3, 37 to 41      one of the last five batches: a duplicate
                                            epoch 3, to 41 or less, not remembered: OUT_OF_ORDER_SEQUENCE_NUMBER
                                            epoch 3, from 43       OUT_OF_ORDER_SEQUENCE_NUMBER
                                            epoch 4, from 0        the producer began anew: append
                                            epoch 4, from 7        OUT_OF_ORDER_SEQUENCE_NUMBER
                                            epoch 2                INVALID_PRODUCER_EPOCH

A transaction begins with the first transactional batch of its producer and ends with a marker. From version 2 of
transactions on (KIP-890) markers carry an epoch above that of the records, so the next transaction begins with sequence
number 0, and what is sent late for the one before is fenced off.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo
from ottla.records.batch import next_sequence
from ottla.records.control import ControlRecordType
from ottla.storage.producer_room import ProducerRoom
from ottla.storage.producer_snapshot import encode_snapshot
from ottla.storage.producer_state import NO_EPOCH, NO_SEQUENCE, ProducerBatch, ProducerState
from ottla.storage.transaction_index import AbortedTransaction
from ottla.storage.unstable_transactions import UnstableTransactions

_FORGOTTEN_SHARE: Final = 8
_STRICT_VERSION: Final = 2
_last_heard_ms: Final = attrgetter("last_heard_ms")


class ProducerStateManager:
    """The producers of one log. What was accepted counts at once, written or not.

    When there is no room for another producer, an eighth of this log's are forgotten, those not heard of for the
    longest time, as if they had expired; never one that has a transaction open.
    """

    __slots__ = ("_producers", "_room", "unstable")

    def __init__(self, producers: Iterable[ProducerState] = ()) -> None:
        """In a room of their own until they `move_to` another."""
        self._producers = {state.producer_id: state for state in producers}
        self._room = ProducerRoom()
        self._room.add(len(self._producers))
        self.unstable = UnstableTransactions(
            state.current_txn_first_offset for state in self if state.current_txn_first_offset >= 0
        )
        """What readers of committed records may not read past."""

    def __len__(self) -> int:
        return len(self._producers)

    def find(self, producer_id: int) -> ProducerState | None:
        """What is remembered of a producer."""
        return self._producers.get(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the transaction that a batch of this epoch belongs to has begun here."""
        state = self._producers.get(producer_id)
        return state is not None and state.current_txn_first_offset >= 0 and state.producer_epoch == producer_epoch

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def move_to(self, room: ProducerRoom) -> None:
        """Share `room` with other logs from now on."""
        self._room.add(-len(self._producers))
        self._room = room
        room.add(len(self._producers))
        while room.taken > room.limit and self._forget_oldest():
            pass

    def leave(self) -> None:
        """The log is gone: take no room any more."""
        self.move_to(ProducerRoom())

    def admit(self, batches: Sequence[BatchInfo]) -> ProducerBatch | None:
        """Check that `batches` come next, or find the first of them that is remembered, as it was appended before.

        Raises ApiError OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, or INVALID_TXN_STATE when a producer
        writes past its open transaction.
        """
        first = batches[0]
        producer_id = first.producer_id
        if producer_id < 0:
            if len(batches) == 1:
                return None
        else:
            state = self._producers.get(producer_id)
            if state is not None and state.current_txn_first_offset < 0 and _come_next(batches, producer_id, state):
                return None
        found = self.find_duplicate(batches)
        if found is None:
            self.validate(batches)
        return found

    def find_duplicate(self, batches: Sequence[BatchInfo]) -> ProducerBatch | None:
        """The first of `batches` that is remembered, as it was appended the first time."""
        for batch in batches:
            state = self._producers.get(batch.producer_id)
            if state is not None:
                found = state.find(batch.producer_epoch, batch.base_sequence, batch.last_sequence)
                if found is not None:
                    return found
        return None

    def validate(self, batches: Sequence[BatchInfo]) -> None:
        """Check that `batches` come next.

        A producer nobody remembers may begin with any sequence number: its records may have expired (KIP-360).
        Raises ApiError as `admit` does.
        """
        ahead: dict[int, tuple[int, int]] = {}
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            state = self._producers.get(producer_id)
            last = ahead.get(producer_id)
            if last is None and state is not None:
                last = (state.producer_epoch, state.last_sequence)
            if last is not None and batch.base_sequence >= 0:
                _require_next(batch, *last)
            elif last is not None and batch.producer_epoch < last[0]:
                raise _invalid_epoch(batch, last[0])
            if state is not None and state.current_txn_first_offset >= 0 and not batch.is_transactional:
                raise _not_transactional(batch)
            ahead[producer_id] = (batch.producer_epoch, batch.last_sequence)

    def admit_from_coordinator(self, batches: Sequence[BatchInfo], transaction_version: int) -> None:
        """Check what a coordinator writes for producers: data without sequence numbers, and markers.

        Of a marker `transaction_version` decides: from 2 on its epoch is above that of the records (KIP-1228).
        Raises ApiError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, INVALID_TXN_STATE.
        """
        epochs: dict[int, int] = {}
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            marker = batch.marker
            state = self._producers.get(producer_id)
            if marker is not None and producer_id not in epochs:
                self.require_marker(producer_id, batch.producer_epoch, marker[1], transaction_version)
            elif state is not None:
                epoch = epochs.get(producer_id, state.producer_epoch)
                if batch.producer_epoch < epoch:
                    raise _invalid_epoch(batch, epoch)
                if state.current_txn_first_offset >= 0 and not (batch.is_transactional or batch.is_control):
                    raise _not_transactional(batch)
            epochs[producer_id] = batch.producer_epoch

    def require_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check that a marker may be written. One of version 2 that was written before is taken again: its coordinator
        may have lost the answer. Raises ApiError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        state = self._producers.get(producer_id)
        if state is None:
            return
        epoch = state.producer_epoch
        is_repeated = (
            transaction_version >= _STRICT_VERSION and producer_epoch == epoch and state.current_txn_first_offset < 0
        )
        is_old = producer_epoch <= epoch if transaction_version >= _STRICT_VERSION else producer_epoch < epoch
        if is_old and not is_repeated:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} is at epoch {epoch}, a marker of epoch {producer_epoch} comes too late",
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator of epoch {state.coordinator_epoch} has ended a transaction of producer {producer_id}, "
                f"one of epoch {coordinator_epoch} is out of office",
            )

    def remember(
        self, batches: Sequence[BatchInfo], first_offset: int, stamp: int, now_ms: int
    ) -> Sequence[AbortedTransaction]:
        """Remember `batches` that got consecutive offsets; `stamp` is the time of all records, -1 for their own.

        Returns the transactions that they abort.
        """
        offset = first_offset
        aborted: list[AbortedTransaction] | None = None
        for batch in batches:
            if batch.producer_id >= 0:
                ended = self.update(batch, offset, stamp if stamp >= 0 else batch.max_timestamp, now_ms)
                if ended is not None:
                    aborted = aborted or []
                    aborted.append(ended)
            offset += batch.last_offset_delta + 1
        return aborted or ()

    def update(self, batch: BatchInfo, base_offset: int, timestamp: int, now_ms: int) -> AbortedTransaction | None:
        """Remember a batch that was appended at `base_offset`; `now_ms` is when the producer was last heard of.

        Returns the transaction that it aborts, if it does.
        """
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        if batch.is_control:
            return self._end_transaction(batch, base_offset, timestamp, now_ms)
        state = self._producers.get(producer_id)
        if state is None:
            state = self._new_state(producer_id, batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        first_sequence = batch.base_sequence
        last_sequence = batch.last_sequence if first_sequence >= 0 else NO_SEQUENCE
        state.add(
            batch.producer_epoch,
            ProducerBatch(first_sequence, last_sequence, base_offset, last_offset, timestamp),
        )
        state.last_heard_ms = now_ms
        if state.current_txn_first_offset < 0 and batch.is_transactional:
            state.current_txn_first_offset = base_offset
            self.unstable.begin(base_offset)
        return None

    def _end_transaction(self, batch: BatchInfo, offset: int, timestamp: int, now_ms: int) -> AbortedTransaction | None:
        marker = batch.marker
        if marker is None:
            return None  # compaction emptied it: nothing is left of its transaction
        kind, coordinator_epoch = marker
        state = self._producers.get(batch.producer_id)
        if state is None:
            state = self._new_state(batch.producer_id, batch.producer_epoch)
        first_offset = state.current_txn_first_offset
        state.end_transaction(batch.producer_epoch, coordinator_epoch, timestamp)
        state.last_heard_ms = now_ms
        if first_offset < 0:
            return None
        stable_offset = self.unstable.end(first_offset, offset)
        if kind != ControlRecordType.ABORT:
            return None
        return AbortedTransaction(batch.producer_id, first_offset, offset, stable_offset)

    def _new_state(self, producer_id: int, producer_epoch: int) -> ProducerState:
        """Remember a producer from now on."""
        if self._room.is_full:
            self._forget_oldest()
        state = self._producers[producer_id] = ProducerState(producer_id, producer_epoch)
        self._room.add(1)
        return state

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that were not heard of for `expiration_ms`; returns how many.

        By the broker's clock: the records' own timestamps, which Kafka looks at, may tell of a time long ago.
        """
        expired = [
            producer_id
            for producer_id, state in self._producers.items()
            if state.current_txn_first_offset < 0 and now_ms - state.last_heard_ms >= expiration_ms
        ]
        self._forget(expired)
        return len(expired)

    def _forget_oldest(self) -> bool:
        """Whether there was anybody to forget: whoever has a transaction open is not."""
        if self.unstable.open_count >= len(self._producers):
            return False
        idle = [state for state in self._producers.values() if state.current_txn_first_offset < 0]
        oldest = nsmallest(-(-len(idle) // _FORGOTTEN_SHARE), idle, key=_last_heard_ms)
        self._forget([state.producer_id for state in oldest])
        return bool(oldest)

    def _forget(self, producer_ids: Sequence[int]) -> None:
        for producer_id in producer_ids:
            del self._producers[producer_id]
        self._room.add(-len(producer_ids))

    def snapshot(self) -> bytes:
        """The content of a snapshot file."""
        return encode_snapshot(self._producers.values())


def _come_next(batches: Sequence[BatchInfo], producer_id: int, state: ProducerState) -> bool:
    """Whether all batches are plainly what comes next of a producer, which nearly all are: none was there before."""
    last_sequence, epoch = state.last_sequence, state.producer_epoch
    for batch in batches:
        if (
            last_sequence < 0
            or batch.base_sequence != last_sequence + 1
            or batch.producer_id != producer_id
            or batch.producer_epoch != epoch
        ):
            return False
        last_sequence = batch.last_sequence
    return True


def _require_next(batch: BatchInfo, epoch: int, last_sequence: int) -> None:
    sequence = batch.base_sequence
    if batch.producer_epoch < epoch:
        raise _invalid_epoch(batch, epoch)
    if batch.producer_epoch > epoch:
        if sequence == 0 or epoch == NO_EPOCH:
            return
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: it begins epoch "
            f"{batch.producer_epoch} with "
            f"{sequence}, not 0",
        )
    if sequence == next_sequence(last_sequence, 1):
        return
    # Kafka answers so as well to what was sent again and is no longer remembered: DUPLICATE_SEQUENCE_NUMBER, which
    # clients know, comes from no broker.
    raise ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Out of order sequence number for producer {batch.producer_id}: {sequence}, where "
        f"{next_sequence(last_sequence, 1)} comes next",
    )


def _not_transactional(batch: BatchInfo) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {batch.producer_id} has a transaction open and writes records that are no part of it",
    )


def _invalid_epoch(batch: BatchInfo, epoch: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch {batch.producer_epoch} of producer {batch.producer_id} is smaller than the last seen epoch "
        f"{epoch}, which "
        "fences it off",
    )
