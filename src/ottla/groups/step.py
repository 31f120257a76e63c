"""One step of a group: when it happens, the settings it obeys, the effects it collects, and the timers it may set."""

from dataclasses import field

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups.group_config import GroupConfig
from ottla.model.lazy_dataclass import dataclass


@dataclass(slots=True)
class Step:
    """What the decisions of one step share. `outcome` is the value the step ends in."""

    now_ms: int
    config: GroupConfig
    outcome: Outcome = field(default_factory=Outcome)

    def answer(self, waiter: Waiter | None, answer: Answer) -> None:
        """Answer somebody, if there is anybody."""
        if waiter is not None:
            self.outcome.answer(waiter, answer)


# Timers: each key is also what `handle_timer` gets when it is due.


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
class LoadedGroupsTimer:
    """Time to begin the sessions of more groups that were loaded."""


@dataclass(frozen=True, slots=True)
class OffsetExpiryTimer:
    """Time to look for offsets that are older than their retention."""


@dataclass(frozen=True, slots=True)
class OffsetSweepTimer:
    """Time to remove more of the offsets that deleted topics left."""


GroupTimer = SessionTimer | JoinTimer | SyncTimer | LoadedGroupsTimer | OffsetExpiryTimer | OffsetSweepTimer
