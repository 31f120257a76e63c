"""What a transaction coordinator has written to each partition of a transaction to end it."""

from typing import Final

from msgspec import Struct

EPOCH_FOR_EACH: Final = 2
"""From this version of transactions on each has an epoch of its producer of its own (KIP-890)."""


class TransactionMarker(Struct, frozen=True):
    """The end of a producer's transaction: its records hold (`committed`) or are void.

    `coordinator_epoch` is the leader epoch of the coordinator's partition: a marker of an earlier coordinator is
    refused. `transaction_version` is that of the client (KIP-890): from 2 on `producer_epoch` is one above the epoch
    that the records of the transaction have, below it the same.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
