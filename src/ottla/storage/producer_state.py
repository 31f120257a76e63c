"""What a log remembers of one idempotent or transactional producer (KIP-98, KIP-360, KIP-890)."""

from typing import Final, NamedTuple

BATCHES_REMEMBERED: Final = 5
SEQUENCE_MAX: Final = (1 << 31) - 1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1


class ProducerBatch(NamedTuple):
    """One batch of a producer: sequence numbers and offsets of its first and last record, its greatest timestamp.

    What a coordinator writes for a producer has no sequence numbers, -1.
    """

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """A producer's epoch, its last batches, at most five, oldest first, and the transaction it has open.

    Five, because a producer may have that many requests in flight and send all of them again. `coordinator_epoch` is
    that of the last marker, `current_txn_first_offset` the first offset of the open transaction; -1 for none.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_heard_ms",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: list[ProducerBatch] = []
        self.last_timestamp = -1
        self.last_heard_ms = 0
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 when none is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last record, -1 when none is remembered."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def add(self, producer_epoch: int, batch: ProducerBatch) -> None:
        """Remember a batch; a new epoch forgets those of the old one."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
        self.batches.append(batch)
        if len(self.batches) > BATCHES_REMEMBERED:
            del self.batches[0]
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Remember a marker: no transaction is open any more, and a new epoch begins with sequence number 0."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = NO_OFFSET
        self.last_timestamp = timestamp

    def find(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        """The remembered batch with exactly these numbers, if it was sent before."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None
