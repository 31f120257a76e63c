"""A member of a streams group: a thread of an application, how far it has come, and which tasks it has."""

from enum import IntEnum
from typing import Final

from msgspec import Struct

from ottla.groups.streams.tasks import NOTHING_ASSIGNED, AssignedTasks
from ottla.protocol.coordinator_records.streams_group import StreamsGroupMemberMetadataValue


class MemberState(IntEnum):
    """Where a member is on its way to what it is to have; the numbers are those of its record.

                it is to give up tasks                  it gave them up
    Stable <------------------------> UnrevokedTasks -------------------+
       ^                                                                |
       | the tasks are free                                             v
       +------------------------ UnreleasedTasks <--- others have not given up what it is to get
    """

    STABLE = 1
    """It has what it was to have at its epoch."""
    UNREVOKED_TASKS = 2
    """It was asked to give up tasks and has not said that it did. Its epoch stays until then."""
    UNRELEASED_TASKS = 3
    """It is at the epoch of the assignment, but other members still have some of its tasks."""


class StreamsMember(Struct, frozen=True):
    """One member as its two records tell: what it said of itself, and what it has.

    `previous_epoch` is the one before `epoch`: a member that did not get the answer which raised its epoch comes with
    it once more. `revoking` are the tasks it was asked to give up.
    """

    member_id: str
    metadata: StreamsGroupMemberMetadataValue = StreamsGroupMemberMetadataValue(instance_id=None, rack_id=None)
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: AssignedTasks = NOTHING_ASSIGNED
    revoking: AssignedTasks = NOTHING_ASSIGNED

    @property
    def process_id(self) -> str:
        """The process it is a thread of."""
        return self.metadata.process_id

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has all that the assignment of that epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


LEFT_EPOCH: Final = -1
"""The epoch of a member of which only one of its records is known, while a group loads."""
