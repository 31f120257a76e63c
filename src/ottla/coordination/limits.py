"""Sizes that bound what a coordinator holds in memory at once."""

from msgspec import Struct


class CoordinatorLimits(Struct, frozen=True):
    """Bytes of a load and of an append."""

    load_chunk_bytes: int = 5 * 1024 * 1024
    """How much of a log is read at a time while a shard loads (`offsets.load.buffer.size`)."""
    batch_bytes_max: int = 1_048_588
    """No batch of records may be larger: the internal topic's `max.message.bytes`."""


DEFAULT_LIMITS = CoordinatorLimits()
