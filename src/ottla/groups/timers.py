"""The timers of a group; each key is also what `handle_timer` gets when it is due."""

from ottla.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member was not heard of for its session timeout."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """The time for members to join a rebalance is up."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """The time for members to fetch their assignment is up."""

    group_id: str


@dataclass(frozen=True, slots=True)
class OffsetExpiryTimer:
    """Time to look for offsets that are older than their retention."""


@dataclass(frozen=True, slots=True)
class OffsetSweepTimer:
    """Time to remove more of the offsets that deleted topics left."""


GroupTimer = SessionTimer | JoinTimer | SyncTimer | OffsetExpiryTimer | OffsetSweepTimer
