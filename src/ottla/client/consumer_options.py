"""Where a consumer begins, how much it fetches ahead, and how it belongs to its group."""

from enum import StrEnum

from msgspec import Struct

from ottla.client.errors import InvalidOptionError
from ottla.client.offsets import IsolationLevel


class OffsetReset(StrEnum):
    """Where to begin in a partition when there is no offset, or it is no longer there (`auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Do not begin: raise an error."""


class ConsumerOptions(Struct, frozen=True):
    """Named as Kafka's consumer settings where those exist (`fetch_max_wait_ms` is `fetch.max.wait.ms`)."""

    group_id: str | None = None
    group_instance_id: str | None = None
    """A name that survives restarts: the member keeps its partitions while it is away (KIP-345)."""
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    partition_fetch_bytes_max: int = 1024 * 1024
    """Of one partition in one answer. A single batch that is larger comes all the same."""
    fetches_ahead_max: int = 2
    """Answers of a partition that wait to be polled; it is not fetched further meanwhile."""
    decompressed_bytes_max: int = 512 * 1024 * 1024
    """Of one answer of one partition: bounds what a small batch of a hostile producer can expand to."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for so long leaves its group, so that others get its partitions."""
    rack: str = ""

    def __post_init__(self) -> None:
        if self.group_id == "":
            raise InvalidOptionError("the group id is empty")
        if self.group_instance_id is not None and self.group_id is None:
            raise InvalidOptionError("a group instance id needs a group id")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidOptionError("heartbeat_interval_ms must be less than session_timeout_ms")
        for name in ("fetch_max_bytes", "partition_fetch_bytes_max", "fetches_ahead_max", "decompressed_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")
