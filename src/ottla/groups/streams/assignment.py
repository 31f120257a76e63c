"""The assignment of a streams group: when it is made, and what each member is to have.

It is made by the heartbeat that finds it behind the group's epoch, but not before a new group has waited for its
members (`streams.initial.rebalance.delay.ms`), nor sooner after the last one than `streams.assignment.interval.ms`: a
thousand members that come one by one are dealt out once a second, not a thousand times.
"""

from collections.abc import Mapping
from typing import Final

from ottla.groups.step import AssignmentTimer, Step
from ottla.groups.streams import streams_records as records
from ottla.groups.streams.assignor import AssignmentMember, assign
from ottla.groups.streams.configured_topology import ConfiguredTopology, Problem, Status
from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.groups.streams.streams_group import StreamsGroup
from ottla.groups.streams.tasks import NO_TASKS, Tasks

STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The one setting that an assignment rests on, by the name it has in the group's record."""

NEW_GROUP_DELAY: Final = Problem(
    Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
)
INTERVAL_DELAY: Final = Problem(
    Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
)


def await_members(step: Step, group: StreamsGroup, config: StreamsConfig) -> None:
    """The first member of an empty group: others of the application may be about to come."""
    if config.initial_rebalance_delay_ms > 0 and not group.awaits_members:
        group.awaits_members = True
        step.outcome.set_timer(AssignmentTimer(group.group_id), config.initial_rebalance_delay_ms)


def target_of(
    step: Step,
    group: StreamsGroup,
    member: StreamsMember,
    configured: ConfiguredTopology,
    epoch: int,
    config: StreamsConfig,
) -> tuple[int, Tasks, Problem | None]:
    """The epoch of the assignment and what the member has in it, once a due one is made; and why a due one is not."""
    member_id = member.member_id
    if epoch <= group.assignment_epoch:
        return group.assignment_epoch, group.target(member_id), None
    if group.awaits_members:
        return max(1, group.assignment_epoch), NO_TASKS, NEW_GROUP_DELAY
    # An assignment of the future was made before a clock went back, or by a coordinator whose clock is ahead.
    if group.assignment_epoch and 0 <= step.now_ms - group.assignment_timestamp_ms < config.assignment_interval_ms:
        return group.assignment_epoch, group.target(member_id), INTERVAL_DELAY
    members = {**group.members, member_id: member}
    targets = _make(step, group, members, configured, epoch, config.num_standby_replicas)
    return epoch, targets[member_id], None


def make_delayed(step: Step, group: StreamsGroup) -> None:
    """The wait of a new group for members is over: give those who came their tasks."""
    group.awaits_members = False
    if group.members and group.epoch > group.assignment_epoch and group.configured is not None:
        standby_replicas = int(group.assignment_configs.get(STANDBY_REPLICAS, "0"))
        _make(step, group, group.members, group.configured, group.epoch, standby_replicas)


def _make(
    step: Step,
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    epoch: int,
    standby_replicas: int,
) -> dict[str, Tasks]:
    """Write what each member is to have from this epoch on; while topics are missing, nothing."""
    if configured.is_ready:
        before = [
            AssignmentMember(member_id, member.process_id, group.target(member_id))
            for member_id, member in members.items()
        ]
        targets = assign(before, configured.tasks, standby_replicas)
    else:
        targets = dict.fromkeys(members, NO_TASKS)
    for member_id, tasks in targets.items():
        if member_id not in group.targets or tasks != group.targets[member_id]:
            step.outcome.write(records.target_record(group.group_id, member_id, tasks))
    step.outcome.write(records.target_epoch_record(group.group_id, epoch, step.now_ms))
    return targets
