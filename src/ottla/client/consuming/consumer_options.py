"""The options of a consumer: its group, where it begins, and how much it fetches."""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from ottla.client.arguments import check_kinds, member_of, require_text
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.errors import InvalidOptionError

SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000


class OffsetReset(StrEnum):
    """Where to begin without a committed offset, or when the offset is out of range (`auto.offset.reset`)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Do not begin: raise an error."""


class GroupProtocol(StrEnum):
    """The protocol by which a group assigns partitions to its members (`group.protocol`)."""

    CLASSIC = "classic"
    """One member assigns the partitions, and all members stop reading during a rebalance."""
    CONSUMER = "consumer"
    """The coordinator assigns the partitions, and a member stops reading only those it loses (KIP-848)."""


class ConsumerOptions(Struct, frozen=True):
    """Named as Kafka's consumer settings where those exist (`fetch_max_wait_ms` is `fetch.max.wait.ms`)."""

    group_id: str | None = None
    group_instance_id: str | None = None
    """A name for static membership: the member keeps its partitions during a restart (KIP-345)."""
    group_protocol: GroupProtocol = GroupProtocol.CLASSIC
    group_remote_assignor: str | None = None
    """The assignor of the protocol `consumer`, such as uniform or range; None: the coordinator's default."""
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    partition_fetch_bytes_max: int = 1024 * 1024
    """The limit for one partition in one response. A larger single batch is still returned."""
    fetches_ahead_max: int = 2
    """Responses of one partition that wait for `poll`; with so many, it is not fetched."""
    decompressed_bytes_max: int = 512 * 1024 * 1024
    """The decompressed size of one response of one partition, against batches that expand without limit."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    """Used in the protocol `classic`, as the session timeout; in `consumer` the coordinator sets both."""
    max_poll_interval_ms: int = 300_000
    """A member that does not poll for this long leaves its group, and others get its partitions."""
    rack: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "auto_offset_reset", member_of(OffsetReset, "auto_offset_reset", self.auto_offset_reset))
        force_setattr(self, "group_protocol", member_of(GroupProtocol, "group_protocol", self.group_protocol))
        force_setattr(self, "isolation", member_of(IsolationLevel, "isolation", self.isolation))
        for name in ("group_id", "group_instance_id", "group_remote_assignor"):
            require_text(name, getattr(self, name))
        check_kinds(self, wide=("decompressed_bytes_max",))
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
