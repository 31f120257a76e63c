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


class RebalanceTimer(Struct, frozen=True):
    """A member did not give up what it was asked to before its rebalance timeout."""

    group_id: str
    member_id: str


class ClassicJoinTimer(Struct, frozen=True):
    """A classic member of a consumer group was asked to join again and did not."""

    group_id: str
    member_id: str


class ClassicSyncTimer(Struct, frozen=True):
    """A classic member of a consumer group joined and did not fetch its assignment."""

    group_id: str
    member_id: str


class AssignmentTimer(Struct, frozen=True):
    """Time to assign, or to go on with an assignment."""

    group_id: str


class RegexTimer(Struct, frozen=True):
    """Time to look for more topics that match the expressions of a group."""

    group_id: str


class JoinTimer(Struct, frozen=True):
    """The time for members to join a rebalance is up."""

    group_id: str


class SyncTimer(Struct, frozen=True):
    """The time for members to fetch their assignment is up."""

    group_id: str


class DowngradeTimer(Struct, frozen=True):
    """A consumer group has just become a classic one: its members are to join anew."""

    group_id: str


class LoadedGroupsTimer(Struct, frozen=True):
    """Time to begin the sessions of more groups that were loaded."""


class OffsetExpiryTimer(Struct, frozen=True):
    """Time to look for offsets that are older than their retention."""


class OffsetSweepTimer(Struct, frozen=True):
    """Time to remove more of the offsets that deleted topics left."""


ClassicTimer = SessionTimer | JoinTimer | SyncTimer | DowngradeTimer
"""The timers of a classic group."""

MemberTimer = (
    SessionTimer | RebalanceTimer | ClassicJoinTimer | ClassicSyncTimer | AssignmentTimer | RegexTimer | ClassicTimer
)
"""The timers that belong to a group. What they mean depends on its kind when they are due."""

GroupTimer = MemberTimer | LoadedGroupsTimer | OffsetExpiryTimer | OffsetSweepTimer
