"""Where a group goes on in one partition."""

from uuid import UUID

from ottla.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """An offset a group committed: the next record it wants.

    `leader_epoch` is that of the record before it, -1 when the client did not say. `metadata` is the client's own.
    `expire_timestamp_ms` is set only by clients of old versions that ask for a retention of their own. `topic_id` tells
    which topic it was committed to; None in what was read from a record that does not say.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: UUID | None = None
