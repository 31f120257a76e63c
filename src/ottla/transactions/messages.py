"""What a transaction coordinator tells the brokers that lead partitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker


class WriteMarkers(Struct, frozen=True):
    """Have the end of a transaction written to some of its partitions."""

    transactional_id: str
    marker: TransactionMarker
    partitions: tuple[TopicPartition, ...]


OnWritten = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Told of each partition whether the marker is committed in it, or why not."""


class MarkerChannel(Protocol):
    """Brings markers to the brokers that lead the partitions, this one or others."""

    def write(self, marker: TransactionMarker, partitions: Sequence[TopicPartition], on_written: OnWritten) -> None:
        """Write the marker to each partition; `on_written` is called exactly once, at once or later."""
        ...
