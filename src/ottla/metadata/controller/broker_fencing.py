"""Decides who is out of reach, who is back, and who may stop.

    registered: fenced --caught up--> unfenced --wants to stop--> shutting down --leads nothing, all know it--> fenced
                  ^                      |                             |
                  +--- silent, unreachable, session over, or asked for +

Fencing takes a broker out of every ISR and every leadership in the same decision; what it was the last one to have in
sync waits for it (KIP-966).
"""

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias
from uuid import UUID

from ottla.metadata.controller.decision import Decision, LogLine
from ottla.metadata.controller.partition_changes import Partition, PartitionChanges
from ottla.metadata.controller.partition_leadership import elect, fence_all, lose
from ottla.metadata.controller.topic_replication import ReplicationRules
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import NO_LEADER, BrokerImage, MetadataImage
from ottla.metadata.records import BrokerChangedRecord, BrokerDirectoriesRecord, BrokerRemovedRecord
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError


class BrokerState(Enum):
    """What a broker is to be after a heartbeat."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "shutting down"
    STOPPED = "stopped"


HAS_STOPPED: Final = "it has stopped"
"""The reason to fence a broker that asked to stop."""


def next_state(
    broker: BrokerImage, *, is_caught_up: bool, want_fence: bool, want_shutdown: bool, may_stop: bool
) -> BrokerState:
    """What a broker is to be that asks for this.

    `is_caught_up`: it has read the metadata as far as its registration, and its session lives. `may_stop`: it leads
    nothing, and the others know it.
    """
    if want_shutdown and (broker.fenced or want_fence or may_stop):
        return BrokerState.STOPPED
    if broker.shutting_down or want_shutdown:
        return BrokerState.SHUTTING_DOWN
    if want_fence or (broker.fenced and not is_caught_up):
        return BrokerState.FENCED
    return BrokerState.UNFENCED


def decide_fencing(
    image: MetadataImage, reasons: Mapping[int, str], broker_settings: Mapping[str, str]
) -> Decision[frozenset[int]]:
    """Fence brokers, each for its reason; those that are gone or fenced already are left out of the result."""
    known = [image.brokers[broker_id] for broker_id in reasons if broker_id in image.brokers]
    fenced = [broker for broker in known if not broker.fenced]
    ids = frozenset(broker.broker_id for broker in fenced)
    if not fenced:
        return Decision((), ids)
    said = "; ".join(f"broker {broker.broker_id} is fenced: {reasons[broker.broker_id]}" for broker in fenced)
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers() - ids)
    fence_in(changes, ids, said)
    records = [
        BrokerChangedRecord(each.broker_id, each.broker_epoch, fenced=True, shutting_down=False) for each in fenced
    ]
    is_ordinary = all(each.shutting_down or reasons[each.broker_id] == HAS_STOPPED for each in fenced)
    lines = (LogLine(logging.INFO if is_ordinary else logging.WARNING, said), *changes.lines())
    return Decision((*changes.records(), *records), ids, lines)


Where: TypeAlias = Callable[[UUID, int], bool]
"""Which partitions are meant, by the id of the topic and their index."""


def fence_in(changes: PartitionChanges, broker_ids: frozenset[int], reason: str, where: Where | None = None) -> None:
    """Take brokers out of every ISR and leadership."""

    def concerns(partition: Partition) -> bool:
        return partition.leader in broker_ids or not broker_ids.isdisjoint(partition.isr)

    changes.each(
        reason,
        concerns,
        lambda state, rule, live: fence_all(state, broker_ids, live - broker_ids, min_isr=rule.min_isr),
        where,
    )


def lose_in(
    changes: PartitionChanges, broker_id: int, reason: str, *, is_empty: bool, where: Where | None = None
) -> None:
    """Have a broker, whose copies are not what they were, be neither in sync nor eligible."""

    def concerns(partition: Partition) -> bool:
        return broker_id in partition.isr or broker_id in partition.elr or partition.last_known_leader == broker_id

    changes.each(
        reason,
        concerns,
        lambda state, rule, live: lose(state, broker_id, live, min_isr=rule.min_isr, is_empty=is_empty),
        where,
    )


def elect_in(changes: PartitionChanges, broker_id: int, reason: str) -> None:
    """Give partitions without a leader one, where a broker that is back makes it possible."""

    def concerns(partition: Partition) -> bool:
        return partition.leader == NO_LEADER and broker_id in partition.replicas

    changes.each(reason, concerns, lambda state, rule, live: elect(state, live, min_isr=rule.min_isr))


def decide_offline_directories(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    directories: frozenset[UUID],
    broker_settings: Mapping[str, str],
) -> Decision[None]:
    """Take a broker out of the ISRs and leaderships of what lies in log directories of it that failed (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or directories == frozenset(broker.offline):
        return Decision((), None)

    def where(topic_id: UUID, index: int) -> bool:
        return image.replica_directory(topic_id, index, broker_id) in directories

    record = BrokerDirectoriesRecord(broker_id, broker_epoch, tuple(sorted(directories)))
    after, _ = apply_records(image, (record,))
    changes = PartitionChanges(after, ReplicationRules(image, broker_settings), image.active_brokers())
    said = f"broker {broker_id} has {len(directories)} log directories that failed"
    fence_in(changes, frozenset({broker_id}), said, where)
    if not directories.issuperset(broker.offline):
        elect_in(changes, broker_id, f"log directories of broker {broker_id} are back")
    return Decision((record, *changes.records()), None, changes.lines())


def decide_unfencing(
    image: MetadataImage, broker_id: int, broker_epoch: int, broker_settings: Mapping[str, str]
) -> Decision[bool]:
    """Have a broker be there for clients and leaders again; False when it is another one by now."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or not broker.fenced:
        return Decision((), broker is not None and broker.broker_epoch == broker_epoch)
    said = f"broker {broker_id} is back"
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers() | {broker_id})
    elect_in(changes, broker_id, said)
    record = BrokerChangedRecord(broker_id, broker_epoch, fenced=False, shutting_down=False)
    line = LogLine(logging.INFO, f"broker {broker_id} is unfenced: it has read the metadata up to its registration")
    return Decision((record, *changes.records()), True, (line, *changes.lines()))


def decide_shutdown(
    image: MetadataImage, broker_id: int, broker_epoch: int, broker_settings: Mapping[str, str]
) -> Decision[bool]:
    """Give away what a broker leads that wants to stop, and take it out of every ISR."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or broker.fenced:
        return Decision((), False)
    said = f"broker {broker_id} stops"
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers() - {broker_id})
    fence_in(changes, frozenset({broker_id}), said)
    if broker.shutting_down:
        return Decision(changes.records(), True, changes.lines())
    record = BrokerChangedRecord(broker_id, broker_epoch, fenced=False, shutting_down=True)
    return Decision((record, *changes.records()), True, (LogLine(logging.INFO, said), *changes.lines()))


def decide_removal(
    image: MetadataImage, broker_id: int, broker_settings: Mapping[str, str], *, has_session: bool
) -> Decision[None]:
    """Take a broker out of the cluster for good.

    Its replicas stay on the lists of their partitions, out of sync and not eligible, until somebody reassigns them.
    Raises ApiError BROKER_ID_NOT_REGISTERED, and INVALID_REQUEST while it runs.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    if has_session:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {broker_id} runs: stop it before it is unregistered")
    said = f"broker {broker_id} is unregistered"
    changes = PartitionChanges(image, ReplicationRules(image, broker_settings), image.active_brokers() - {broker_id})
    fence_in(changes, frozenset({broker_id}), said)
    lose_in(changes, broker_id, said, is_empty=True)
    lines = (LogLine(logging.INFO, said), *changes.lines())
    return Decision((*changes.records(), BrokerRemovedRecord(broker_id)), None, lines)


def has_leadership(image: MetadataImage, broker_id: int) -> bool:
    """Whether a broker leads any partition."""
    return any(partition.leader == broker_id for topic in image.topics_by_id.values() for partition in topic.partitions)
