"""The idempotent producers of a log: which batch is new, which was sent before, which is out of order.

last sequence remembered 41, epoch 3        epoch 3, from 42       next: append
                                            epoch 3, 37 to 41      one of the last five batches: a duplicate
                                            epoch 3, to 41 or less, not remembered: OUT_OF_ORDER_SEQUENCE_NUMBER
                                            epoch 3, from 43       OUT_OF_ORDER_SEQUENCE_NUMBER
                                            epoch 4, from 0        the producer began anew: append
                                            epoch 4, from 7        OUT_OF_ORDER_SEQUENCE_NUMBER
                                            epoch 2                INVALID_PRODUCER_EPOCH
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo
from ottla.storage.producer_room import ProducerRoom
from ottla.storage.producer_snapshot import encode_snapshot
from ottla.storage.producer_state import NO_EPOCH, ProducerBatch, ProducerState, next_sequence

_FORGOTTEN_SHARE: Final = 8
_last_heard_ms: Final = attrgetter("last_heard_ms")


class ProducerStateManager:
    """The producers of one log. What was accepted counts at once, written or not.

    When there is no room for another producer, an eighth of this log's are forgotten, those not heard of for the
    longest time, as if they had expired.
    """

    __slots__ = ("_producers", "_room")

    def __init__(self, producers: Iterable[ProducerState] = ()) -> None:
        """In a room of their own until they `move_to` another."""
        self._producers = {state.producer_id: state for state in producers}
        self._room = ProducerRoom()
        self._room.add(len(self._producers))

    def __len__(self) -> int:
        return len(self._producers)

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

        Raises ApiError OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_PRODUCER_EPOCH.
        """
        if len(batches) == 1 and batches[0].producer_id < 0:
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
        Raises ApiError OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_PRODUCER_EPOCH.
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
            ahead[producer_id] = (batch.producer_epoch, batch.last_sequence)

    def remember(self, batches: Sequence[BatchInfo], first_offset: int, stamp: int, now_ms: int) -> None:
        """Remember `batches` that got consecutive offsets; `stamp` is the time of all records, -1 for their own."""
        offset = first_offset
        for batch in batches:
            if batch.producer_id >= 0:
                self.update(batch, offset, stamp if stamp >= 0 else batch.max_timestamp, now_ms)
            offset += batch.last_offset_delta + 1

    def update(self, batch: BatchInfo, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Remember a batch that was appended at `base_offset`; `now_ms` is when the producer was last heard of."""
        producer_id = batch.producer_id
        if producer_id < 0 or batch.is_control:
            return
        state = self._producers.get(producer_id)
        if state is None:
            if self._room.is_full:
                self._forget_oldest()
            state = self._producers[producer_id] = ProducerState(producer_id, batch.producer_epoch)
            self._room.add(1)
        last_offset = base_offset + batch.last_offset_delta
        state.add(
            batch.producer_epoch,
            ProducerBatch(batch.base_sequence, batch.last_sequence, base_offset, last_offset, timestamp),
        )
        state.last_heard_ms = now_ms

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


def _require_next(batch: BatchInfo, epoch: int, last_sequence: int) -> None:
    sequence = batch.base_sequence
    if batch.producer_epoch < epoch:
        raise _invalid_epoch(batch, epoch)
    if batch.producer_epoch > epoch:
        if sequence == 0 or epoch == NO_EPOCH:
            return
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {batch.producer_id} begins epoch {batch.producer_epoch} with sequence number {sequence}, not 0",
        )
    if sequence == next_sequence(last_sequence):
        return
    # Kafka answers so as well to what was sent again and is no longer remembered: DUPLICATE_SEQUENCE_NUMBER, which
    # clients know, comes from no broker.
    raise ApiError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {batch.producer_id} sent sequence number {sequence}; {next_sequence(last_sequence)} comes next",
    )


def _invalid_epoch(batch: BatchInfo, epoch: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {batch.producer_id} is at epoch {epoch}, which fences off epoch {batch.producer_epoch}",
    )
