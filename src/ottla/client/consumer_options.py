"""Where a consumer begins, how much it fetches ahead, and how it belongs to its group."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from ottla.client.errors import InvalidOptionError
from ottla.client.offsets import IsolationLevel

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000


class OffsetReset(StrEnum):
    """Where to begin in a partition when there is no offset, or it is no longer there (`auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Do not begin: raise an error."""


class GroupProtocol(StrEnum):
    """How the members of a group come to their partitions (`group.protocol`)."""

    CLASSIC = "classic"
    """One of them decides for all, and all stop reading meanwhile."""
    CONSUMER = "consumer"
    """The coordinator decides, and a member stops reading only what it gives up (KIP-848)."""


class ConsumerOptions(Struct, frozen=True):
    """Named as Kafka's consumer settings where those exist (`fetch_max_wait_ms` is `fetch.max.wait.ms`)."""

    group_id: str | None = None
    group_instance_id: str | None = None
    """A name that survives restarts: the member keeps its partitions while it is away (KIP-345)."""
    group_protocol: GroupProtocol = GroupProtocol.CLASSIC
    group_remote_assignor: str | None = None
    """The coordinator's assignor in the protocol `consumer`, such as uniform or range; its first one if not said."""
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
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    """Of the protocol `classic`; in `consumer` the coordinator says both."""
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for so long leaves its group, so that others get its partitions."""
    rack: str = ""

    def __post_init__(self) -> None:
        if self.group_id == "":
            raise InvalidOptionError("the group id is empty")
        if self.group_instance_id is not None and self.group_id is None:
            raise InvalidOptionError("a group instance id needs a group id")
        if self.group_protocol is GroupProtocol.CONSUMER:
            for name, value in (
                ("session_timeout_ms", SESSION_TIMEOUT_MS),
                ("heartbeat_interval_ms", HEARTBEAT_INTERVAL_MS),
            ):
                if getattr(self, name) != value:
                    raise InvalidOptionError(f"{name} is the broker's in the group protocol 'consumer': leave it out")
        elif self.group_remote_assignor is not None:
            raise InvalidOptionError("group_remote_assignor needs group_protocol='consumer'")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidOptionError("heartbeat_interval_ms must be less than session_timeout_ms")
        for name in ("fetch_max_bytes", "partition_fetch_bytes_max", "fetches_ahead_max", "decompressed_bytes_max"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be at least 1, not {getattr(self, name)}")
