"""A producer as its batches name it."""

from typing import NamedTuple


class ProducerIdentity(NamedTuple):
    """A producer id and the epoch of the producer that has it now; who has an older epoch is fenced off (KIP-98)."""

    producer_id: int
    producer_epoch: int
