"""The acknowledgements of ShareFetch and ShareAcknowledge, as runs of one kind each.

A batch names its records by first and last offset, and has one type for all of them or one for each:

    5..8  [1]             ->  5..8 accepted
    5..8  [1, 1, 2, 3]    ->  5..6 accepted, 7 released, 8 rejected
"""

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from ottla.broker.share_fetches import PartitionAcknowledgements
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.acknowledgements import RENEW

TYPES_MAX: Final = 3
RECORDS_MAX: Final = 1_000_000
"""Records that one partition of a request may acknowledge."""


class Batch(Protocol):
    """A batch of either message."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> tuple[int, ...]: ...


def acknowledgements_of(
    topic_id: UUID, partition: int, batches: Sequence[Batch], *, may_renew: bool
) -> PartitionAcknowledgements:
    """The runs of a partition. Raises ApiError INVALID_REQUEST in Kafka's words."""
    runs: list[tuple[int, int, int]] = []
    previous: int = batches[0].first_offset if batches else 0
    count = 0
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise _invalid(f"First offset {first} is greater than last offset {last}")
        if first < previous:
            raise _invalid(f"Batches must be in order and not overlap: {first} follows {previous}")
        size = last - first + 1
        if not types:
            raise _invalid("Acknowledge types are missing")
        if len(types) not in (1, size):
            raise _invalid(f"There are {len(types)} acknowledge types for {size} records")
        highest = RENEW if may_renew else TYPES_MAX
        if any(not 0 <= each <= highest for each in types):
            raise _invalid(f"Acknowledge types are 0 to {highest}")
        count += size
        if count > RECORDS_MAX:
            raise _invalid(f"A partition acknowledges at most {RECORDS_MAX} records at a time")
        if len(types) == 1:
            runs.append((first, last, types[0]))
        else:
            for offset, kind in enumerate(types, first):
                if runs and runs[-1][1] == offset - 1 and runs[-1][2] == kind:
                    runs[-1] = runs[-1][0], offset, kind
                else:
                    runs.append((offset, offset, kind))
        previous = last
    return PartitionAcknowledgements((topic_id, partition), runs)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{message}.")
