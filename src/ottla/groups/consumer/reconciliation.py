"""From what a member has to what it is to have, one heartbeat at a time (KIP-848).

What a member has is never given to another before the member has said, by naming what it owns, that it gave it up:

    target {1, 2, 3}   has {0, 1}     -> keeps {1}, is to give up {0}              UNREVOKED, in its old epoch
                       owns {1}       -> {1, 2, 3} if nobody has 2 and 3           STABLE, in the target's epoch
                                      -> {1, 2} while somebody has 3               UNRELEASED, in the target's epoch

A target may be older than what the member asks for: of topics it no longer subscribes to it is to have none, and gives
up what it has of them at once, not with the next target (KAFKA-19431).
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from ottla.groups.consumer.member import AssignedPartitions, CurrentAssignment, MemberState, Partitions
from ottla.groups.member_epoch import JOIN_GROUP
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

Owned = Mapping[UUID, frozenset[int]]
"""What a member says that it owns."""


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    owned: Owned | None,
    *,
    is_subscribed: Callable[[UUID], bool],
    is_taken: Callable[[UUID, int], bool],
    asks_anew: bool,
) -> CurrentAssignment:
    """What the member has from now on; `current` itself when nothing changes.

    `owned` is None when the member did not say what it owns. `is_subscribed` tells of a topic whether the member asks
    for it, `asks_anew` whether that changed; `is_taken` of a partition whether any member has it, or has not yet given
    it up. Raises ApiError FENCED_MEMBER_EPOCH when the member has to begin anew.
    """
    if current.state is MemberState.STABLE:
        if current.epoch == target_epoch:
            return _without_unsubscribed(current, is_subscribed, owned) if asks_anew else current
    elif current.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, current.pending_revocation):
            return _without_unsubscribed(current, is_subscribed, owned) if asks_anew else current
    elif current.state is not MemberState.UNRELEASED_PARTITIONS and (owned is None or owned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The state of the member is not known here. It must give up all its partitions and join again.",
        )
    wanted = {topic_id: partitions for topic_id, partitions in target.items() if is_subscribed(topic_id)}
    return _next(current, target_epoch, wanted, is_taken, owned)


def _without_unsubscribed(
    current: CurrentAssignment, is_subscribed: Callable[[UUID], bool], owned: Owned | None
) -> CurrentAssignment:
    """Where the member is already, or waits for it to give something up: less of what it no longer asks for."""
    left = {topic_id: partitions for topic_id, partitions in current.assigned.items() if not is_subscribed(topic_id)}
    if not left:
        return current
    kept = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id not in left}
    revoked = dict(current.pending_revocation)
    for topic_id, partitions in left.items():
        revoked[topic_id] = {**revoked.get(topic_id, {}), **partitions}
    if _owns_any(owned, revoked):
        return _moved(current, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    return _moved(current, current.epoch, current.state, kept, current.pending_revocation)


def _next(
    current: CurrentAssignment,
    target_epoch: int,
    target: Partitions,
    is_taken: Callable[[UUID, int], bool],
    owned: Owned | None,
) -> CurrentAssignment:
    kept: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    for topic_id, partitions in current.assigned.items():
        wanted = target.get(topic_id, frozenset())
        for partition, since in partitions.items():
            (kept if partition in wanted else revoked).setdefault(topic_id, {})[partition] = since
    if revoked and _owns_any(owned, revoked):
        return _moved(current, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    is_waiting = False
    for topic_id, wanted in target.items():
        has, given_up = kept.get(topic_id, {}), current.pending_revocation.get(topic_id, {})
        for partition in wanted:
            if partition in has:
                continue
            if partition not in given_up and is_taken(topic_id, partition):
                is_waiting = True
            else:
                kept.setdefault(topic_id, {})[partition] = target_epoch
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _moved(current, target_epoch, state, kept, {})


def _moved(
    current: CurrentAssignment,
    epoch: int,
    state: MemberState,
    assigned: AssignedPartitions,
    pending_revocation: AssignedPartitions,
) -> CurrentAssignment:
    moved = CurrentAssignment(epoch, current.epoch, state, assigned, pending_revocation)
    return current if moved == current else moved


def _owns_any(owned: Owned | None, partitions: AssignedPartitions) -> bool:
    """Whether a member may still be using some of these: it does, or it did not say."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(indexes) for topic_id, indexes in partitions.items())


def check_epoch(current: CurrentAssignment, received_epoch: int, owned: Owned | None) -> None:
    """Whether a member may go on from the epoch it says it is in.

    It may be one behind when it lost the last answer, and owns nothing that it was not given; and it may begin anew
    whenever it wants to, with nothing, as one does that was fenced. Raises ApiError FENCED_MEMBER_EPOCH.
    """
    if received_epoch in (JOIN_GROUP, current.epoch):
        return
    is_behind = received_epoch < current.epoch
    if is_behind and received_epoch == current.previous_epoch and _is_within(owned, current.assigned):
        return
    relation = "smaller" if is_behind else "greater"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({received_epoch}) than the one known by the group "
        f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Owned | None, assigned: AssignedPartitions) -> bool:
    if owned is None:
        return False
    return all(topic_id in assigned and indexes <= assigned[topic_id].keys() for topic_id, indexes in owned.items())
