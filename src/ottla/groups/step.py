"""One step of a group: when it happens, the settings it obeys, the effects it collects, and the timers it may set."""

from msgspec import Struct, field

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.groups.group_config import GroupConfig


class Step(Struct):
    """What the decisions of one step share. `outcome` is the value the step ends in."""

    now_ms: int
    config: GroupConfig
    outcome: Outcome = field(default_factory=Outcome)

    def answer(self, waiter: Waiter | None, answer: Answer) -> None:
        """Answer somebody, if there is anybody."""
        if waiter is not None:
            self.outcome.answer(waiter, answer)


# Timers: each key is also what `handle_timer` gets when it is due.


class SessionTimer(Struct, frozen=True):
    """A member was not heard of for its session timeout."""

    group_id: str
    member_id: str


class JoinTimer(Struct, frozen=True):
    """The time for members to join a rebalance is up."""

    group_id: str


class SyncTimer(Struct, frozen=True):
    """The time for members to fetch their assignment is up."""

    group_id: str


class LoadedGroupsTimer(Struct, frozen=True):
    """Time to begin the sessions of more groups that were loaded."""


class OffsetExpiryTimer(Struct, frozen=True):
    """Time to look for offsets that are older than their retention."""


class OffsetSweepTimer(Struct, frozen=True):
    """Time to remove more of the offsets that deleted topics left."""


GroupTimer = SessionTimer | JoinTimer | SyncTimer | LoadedGroupsTimer | OffsetExpiryTimer | OffsetSweepTimer
