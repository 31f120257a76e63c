"""Decides about the in-sync replicas that leaders propose (AlterPartition, KIP-497), each partition by itself.

Errors: those of `partition_leadership.alter`, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, and NEW_LEADER_ELECTED when
the ISR ends a reassignment and the leader who asked is not among those that stay: then the change is made all the same.
"""

import logging
from collections.abc import Mapping, Sequence

from ottla.metadata.controller.decision import Decision, LogLine, Outcome
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.partition_leadership import PartitionProposal, alter, ineligible_members
from ottla.metadata.controller.topic_replication import ReplicationRule, ReplicationRules
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.unknown_topic import no_such_partition, no_such_topic_id


def decide_isr_alteration(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    proposals: Sequence[PartitionProposal],
    broker_settings: Mapping[str, str],
) -> Decision[list[Outcome[PartitionState]]]:
    """The new states of the partitions, in the order of the proposals.

    Raises ApiError STALE_BROKER_EPOCH when the broker that asks is not registered with that epoch.
    """
    require_broker_epoch(image, broker_id, broker_epoch)
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers())
    outcomes: list[Outcome[PartitionState]] = []
    refusals: list[LogLine] = []
    for proposal in proposals:
        try:
            outcomes.append(_altered(image, changes, broker_id, proposal))
        except ApiError as error:
            outcomes.append(error)
            if error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.INELIGIBLE_REPLICA):
                refusals.append(LogLine(logging.INFO, f"broker {broker_id} may not change an ISR: {error.message}"))
    return Decision(changes.records(), outcomes, (*refusals, *changes.lines()))


def require_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> None:
    """Raises ApiError STALE_BROKER_EPOCH unless the broker is registered with that epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered with the epoch {broker_epoch}"
        )


def _altered(
    image: MetadataImage, changes: PartitionChanges, broker_id: int, proposal: PartitionProposal
) -> PartitionState:
    topic = image.topic_by_id(proposal.topic_id)
    if topic is None:
        raise no_such_topic_id(proposal.topic_id)
    if not 0 <= proposal.index < len(topic.partitions):
        raise no_such_partition(topic.name, proposal.index)

    def step(state: PartitionState, rule: ReplicationRule, live: frozenset[int]) -> PartitionState:
        outcome = alter(state, broker_id, proposal, image.brokers, live, min_isr=rule.min_isr)
        if isinstance(outcome, ErrorCode):
            raise ApiError(outcome, _refusal(outcome, f"{topic.name}-{proposal.index}", state, proposal, image, live))
        return outcome

    members = tuple(member for member, _ in proposal.isr)
    after = changes.one(topic, proposal.index, f"proposed by its leader, broker {broker_id}", step, members)
    if after.leader != broker_id:
        raise ApiError(
            ErrorCode.NEW_LEADER_ELECTED,
            f"{topic.name}-{proposal.index} is where it was to be moved, and broker {after.leader} leads it now",
        )
    return after


def _refusal(
    code: ErrorCode,
    name: str,
    state: PartitionState,
    proposal: PartitionProposal,
    image: MetadataImage,
    live: frozenset[int],
) -> str:
    if code is ErrorCode.INELIGIBLE_REPLICA:
        said = [f"broker {member} {reason}" for member, reason in ineligible_members(proposal, image.brokers, live)]
        return f"the ISR proposed for {name} cannot be: {', '.join(said)}"
    members = [member for member, _ in proposal.isr]
    return (
        f"{code.name} for {name}: proposed is the ISR {members} at leader epoch {proposal.leader_epoch} and partition "
        f"epoch {proposal.partition_epoch}; its leader is {state.leader}, the leader epoch {state.leader_epoch}, the "
        f"partition epoch {state.partition_epoch}, the replicas {list(state.replicas)}"
    )
