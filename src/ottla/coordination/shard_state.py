"""The life of a shard on this broker."""

from enum import Enum

from ottla.model.error_code import ErrorCode


class ShardState(Enum):
    """Whether a shard serves; the transitions are in `TRANSITIONS`."""

    LOADING = "Loading"
    """Its log is being read; clients are told to come again."""
    ACTIVE = "Active"
    """It serves."""
    FAILED = "Failed"
    """Its log does not hold what it should; it waits for the next election."""
    CLOSED = "Closed"
    """This broker stopped leading the partition. There is no way back; the next election makes a new shard."""


TRANSITIONS: dict[ShardState, frozenset[ShardState]] = {
    ShardState.LOADING: frozenset({ShardState.ACTIVE, ShardState.FAILED, ShardState.CLOSED}),
    ShardState.ACTIVE: frozenset({ShardState.LOADING, ShardState.FAILED, ShardState.CLOSED}),
    ShardState.FAILED: frozenset({ShardState.CLOSED}),
    ShardState.CLOSED: frozenset(),
}
"""From each state, where a shard may go. An active shard loads again after an append was refused."""

REFUSALS: dict[ShardState, ErrorCode] = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""What a request hears from a shard that does not serve."""
