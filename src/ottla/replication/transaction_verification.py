"""What a partition knows of transactions that are about to begin in it (KIP-890).

The first batch of a transaction in a partition is appended only once its coordinator has said that the partition is
part of the transaction: without that, nobody would ever write a marker for it.

    first batch ---> asked (a `Verification` is made) ---> answered: verified ---> appended: the transaction is open
                                   |
                                   marker: the Verification is gone, the batch that waits for its answer is refused
                                   marker of an earlier epoch's transaction: nothing changes

Each is an object of its own, so an answer to one that is gone cannot open a later transaction of the same producer.
"""

from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo
from ottla.storage.producer_state import ProducerState
from ottla.storage.producer_state_manager import ProducerStateManager


class Verification:
    """That the transaction a producer wants to begin has the partition: asked for, and perhaps said.

    `lowest_sequence` is the first sequence number that is to come: when a batch is to be sent again, those behind it
    must not overtake it.
    """

    __slots__ = ("adds_partition", "is_verified", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, lowest_sequence: int, *, adds_partition: bool) -> None:
        """`adds_partition`: the partition is added to the transaction on behalf of the producer (version 2)."""
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.adds_partition = adds_partition
        self.is_verified = False

    def note(self, producer_epoch: int, sequence: int, *, adds_partition: bool) -> None:
        """Another batch wants to begin the transaction; a newer epoch has to be asked for anew."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
            self.adds_partition, self.is_verified = adds_partition, False
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def require_first(self, batch: BatchInfo, state: ProducerState | None) -> None:
        """Check that a batch may begin the transaction. Raises ApiError OUT_OF_ORDER_SEQUENCE_NUMBER."""
        sequence = batch.base_sequence
        if self.adds_partition and sequence != 0 and (state is None or not state.batches):
            expected = 0
        elif sequence > self.lowest_sequence:
            expected = self.lowest_sequence
        else:
            return
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {batch.producer_id} begins a transaction with sequence number {sequence}, not {expected}",
        )


OPEN: Final = Verification(-1, -1, adds_partition=False)
"""Stands for none: the transaction was open. If it is not any more, a batch is refused."""

UNVERIFIED: Final = Verification(-1, -1, adds_partition=False)
"""Stands for none: nobody asks (`transaction.partition.verification.enable=false`)."""


class TransactionVerifications:
    """Those of one partition, by producer id. Belongs to the event loop."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def want(self, producer_id: int, producer_epoch: int, sequence: int, *, adds_partition: bool) -> Verification:
        """What a batch with `sequence`, -1 without, has to have before it begins a transaction."""
        found = self._by_producer.get(producer_id)
        if found is not None:
            found.note(producer_epoch, sequence, adds_partition=adds_partition)
            return found
        new = self._by_producer[producer_id] = Verification(producer_epoch, sequence, adds_partition=adds_partition)
        return new

    def is_current(self, producer_id: int, verification: Verification) -> bool:
        """Whether no transaction of the producer has begun or ended since."""
        return self._by_producer.get(producer_id) is verification

    def forget(self, producer_id: int) -> None:
        """A transaction of the producer has begun here, or ended."""
        self._by_producer.pop(producer_id, None)

    def end_before(self, producer_id: int, producer_epoch: int) -> None:
        """A transaction that began before this epoch has ended here. The next one may be on its way: its producer was
        told of the end when the coordinator had decided it, and the markers go to other brokers after that.
        """
        found = self._by_producer.get(producer_id)
        if found is not None and found.producer_epoch < producer_epoch:
            self.forget(producer_id)

    def require(self, batch: BatchInfo, verification: Verification | None, producers: ProducerStateManager) -> None:
        """Check that a transactional batch may be appended.

        Raises ApiError INVALID_TXN_STATE; OUT_OF_ORDER_SEQUENCE_NUMBER; TRANSACTIONAL_ID_AUTHORIZATION_FAILED for one
        that came without a transactional id or a producer, and so without a `verification`.
        """
        if verification is None:
            raise ApiError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "records of a transaction come with a transactional id and a producer id",
            )
        producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
        if verification is UNVERIFIED or producers.has_open_transaction(producer_id, producer_epoch):
            return
        is_good = verification.is_verified and verification.producer_epoch == producer_epoch
        if not (is_good and self.is_current(producer_id, verification)):
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has no open transaction here: it has ended, or does not include the partition",
            )
        if batch.base_sequence >= 0:
            verification.require_first(batch, producers.find(producer_id))


NO_VERIFICATIONS: Final = TransactionVerifications()
"""Those of a partition without any, as most are."""
