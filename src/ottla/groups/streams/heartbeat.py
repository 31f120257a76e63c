"""One heartbeat of a member of a streams group (KIP-1071): it joins or tells what it has, and is told what to have.

    what it says of itself -> the topology, held against the topics there are -> the group's epoch
        -> the assignment, once it may be made -> one step of the member towards it -> the answer

Everything is decided with what the group is now and what the heartbeat changes; the group itself changes when the
records are replayed.
"""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.groups.member_epoch import JOIN_GROUP
from ottla.groups.step import RebalanceTimer, SessionTimer, Step
from ottla.groups.streams import streams_records as records
from ottla.groups.streams.assignment import STANDBY_REPLICAS, await_members, target_of
from ottla.groups.streams.configured_topology import ConfiguredTopology, Problem, Status
from ottla.groups.streams.endpoints import partitions_by_endpoint
from ottla.groups.streams.exchange import StreamsHeartbeat, StreamsHeartbeatAnswer
from ottla.groups.streams.member import MemberState, StreamsMember
from ottla.groups.streams.membership import member_of, metadata_of, owned_tasks, refusal
from ottla.groups.streams.reconciliation import reconcile
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.groups.streams.streams_group import StreamsGroup
from ottla.groups.streams.tasks import Task, Tasks, by_subtopology
from ottla.groups.streams.topic_configuration import configure
from ottla.groups.streams.topic_hash import topic_hash
from ottla.groups.streams.topology import Topology, is_same, topology_of
from ottla.metadata.image.image import MetadataImage
from ottla.protocol.messages import streams_group_heartbeat as messages

logger = logging.getLogger(__name__)

FIRST_EPOCH: Final = 2
"""The first epoch of a group. Members that wait for the first assignment are at epoch 1, which none is made at."""


class Plan(Struct, frozen=True):
    """What a heartbeat makes of the group, its members aside."""

    topology: Topology
    configured: ConfiguredTopology
    epoch: int


def heartbeat(
    step: Step, group: StreamsGroup, said: StreamsHeartbeat, image: MetadataImage, config: StreamsConfig
) -> StreamsHeartbeatAnswer:
    """Decide a heartbeat of a member that does not leave. Raises ApiError when it is refused."""
    request = said.request
    owned = owned_tasks(request)
    before = member_of(group, request, owned, config)
    member = replace(before, metadata=metadata_of(before, said))
    is_changed = member.metadata is not before.metadata or member.member_id not in group.members
    if is_changed:
        step.outcome.write(records.member_record(group.group_id, member.member_id, member.metadata))
    plan = _plan(step, group, request, image, config, is_changed=is_changed)
    _require_known_tasks(plan.configured, owned)
    if not group.members:
        await_members(step, group, config)
    target_epoch, target, delay = target_of(step, group, member, plan.configured, plan.epoch, config)
    if not member.is_reconciled_to(target_epoch):
        reconciled = reconcile(member, target_epoch, target, group.owners, owned)
        if reconciled != member:
            member = reconciled
            step.outcome.write(records.current_record(group.group_id, member))
            _watch_revocation(step, group.group_id, member)
    step.outcome.set_timer(SessionTimer(group.group_id, member.member_id), config.session_timeout_ms)
    if request.shutdown_application and group.shutdown_requested_by is None:
        logger.info(
            "streams group %s: member %s requests the shutdown of all members", group.group_id, member.member_id
        )
        group.shutdown_requested_by = member.member_id
    group.configured, group.seen_image = plan.configured, image
    tasks = member.assigned
    has_new_tasks = request.member_epoch == JOIN_GROUP or tasks.tasks != before.assigned.tasks
    # One that has something else did not hear of it, or is on its way there: to be told again does no harm.
    tells_tasks = has_new_tasks or (owned is not None and owned != tasks.tasks)
    # What the first member of a group has is version 0 of this, as with Kafka.
    if has_new_tasks and member.metadata.user_endpoint is not None and group.epoch > 0:
        group.endpoint_epoch += 1
    endpoints = None
    if group.endpoint_epoch != request.endpoint_information_epoch:
        members = {**group.members, member.member_id: member}
        endpoints = partitions_by_endpoint(members.values(), plan.configured)
    response = messages.StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        status=_statuses(group, member, plan, delay),
        active_tasks=_task_ids(tasks.epochs) if tells_tasks else None,
        standby_tasks=_task_ids(tasks.standby) if tells_tasks else None,
        warmup_tasks=_task_ids(tasks.warmup) if tells_tasks else None,
        endpoint_information_epoch=group.endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )
    return StreamsHeartbeatAnswer(response=response, topics_to_create=plan.configured.topics_to_create)


def _plan(
    step: Step,
    group: StreamsGroup,
    request: messages.StreamsGroupHeartbeatRequest,
    image: MetadataImage,
    config: StreamsConfig,
    *,
    is_changed: bool,
) -> Plan:
    """The topology and what became of it, and the epoch: it rises when anything changes that the assignment rests on.

    Raises ApiError for a topology that is not the group's, or cannot be anybody's.
    """
    topology = _topology(step, group, request)
    configured, metadata_hash = group.configured, group.metadata_hash
    if configured is None or group.seen_image is not image:
        metadata_hash = topic_hash(topology, image)
        if configured is None or metadata_hash != group.metadata_hash:
            configured = configure(topology, lambda name: _partition_count(image, name))
    validated_epoch = configured.epoch if configured.is_ready else -1
    assignment_configs = {STANDBY_REPLICAS: str(config.num_standby_replicas)}
    epoch = group.epoch
    if (
        is_changed
        or metadata_hash != group.metadata_hash
        or validated_epoch != group.validated_topology_epoch
        or assignment_configs != group.assignment_configs
    ):
        epoch = max(epoch + 1, FIRST_EPOCH)
        step.outcome.write(
            records.group_record(group.group_id, epoch, metadata_hash, validated_epoch, assignment_configs)
        )
    return Plan(topology, configured, epoch)


def _topology(step: Step, group: StreamsGroup, request: messages.StreamsGroupHeartbeatRequest) -> Topology:
    if request.topology is None:
        if group.topology is None:
            raise refusal("The group has no topology yet; a member brings it when it joins.")
        return group.topology
    topology = topology_of(request.topology, step.config.record_bytes_max)
    if group.topology is None:
        step.outcome.write(records.topology_record(group.group_id, topology))
        return topology
    if topology.epoch >= group.topology.epoch and not is_same(topology, group.topology):
        raise refusal("Topology updates are not supported yet.")
    return group.topology


def _partition_count(image: MetadataImage, name: str) -> int | None:
    topic = image.topic(name)
    return None if topic is None else len(topic.partitions)


def _require_known_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> None:
    """Raises ApiError when a member says that it has tasks which there are not."""
    if owned is None or not configured.is_ready:
        return
    for task in (*owned.active, *owned.standby, *owned.warmup):
        subtopology = configured.subtopologies.get(task.subtopology_id)
        if subtopology is None:
            raise refusal(f"Subtopology {task.subtopology_id} does not exist in the topology.")
        if not 0 <= task.partition < subtopology.task_count:
            raise refusal(
                f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. "
                f"Number of tasks for this subtopology: {subtopology.task_count}"
            )


def _watch_revocation(step: Step, group_id: str, member: StreamsMember) -> None:
    timer = RebalanceTimer(group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_TASKS:
        step.outcome.set_timer(timer, max(member.metadata.rebalance_timeout_ms, 0))
    else:
        step.outcome.cancel_timer(timer)


def _statuses(
    group: StreamsGroup, member: StreamsMember, plan: Plan, delay: Problem | None
) -> tuple[messages.Status, ...]:
    statuses = []
    topology_epoch = member.metadata.topology_epoch
    if topology_epoch < plan.topology.epoch:
        stale = f"The member's topology epoch {topology_epoch} is behind the group's topology epoch"
        statuses.append(Problem(Status.STALE_TOPOLOGY, f"{stale} {plan.topology.epoch}."))
    if delay is not None:
        statuses.append(delay)
    if plan.configured.problem is not None:
        statuses.append(plan.configured.problem)
    if group.shutdown_requested_by is not None:
        detail = (
            f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a shutdown "
            "for the entire application."
        )
        statuses.append(Problem(Status.SHUTDOWN_APPLICATION, detail))
    return tuple(messages.Status(each.status, each.detail) for each in statuses)


def _task_ids(tasks: Iterable[Task]) -> tuple[messages.TaskIds, ...]:
    return tuple(messages.TaskIds(*each) for each in by_subtopology(tasks).items())
