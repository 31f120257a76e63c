"""Checks the brokers that a request names for its partitions itself."""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from ottla.metadata.image.image import BrokerImage
from ottla.metadata.records import PartitionState
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError


def validate_replicas(
    brokers: Mapping[int, BrokerImage], partition: int, replicas: Sequence[int], replication_factor: int | None
) -> tuple[int, ...]:
    """The replicas of one partition, checked; None for the replication factor allows any.

    Raises ApiError INVALID_REPLICA_ASSIGNMENT.
    """
    if not replicas:
        raise _refused(f"The manual partition assignment includes an empty replica list: that of partition {partition}")
    if len(set(replicas)) != len(replicas):
        raise _refused(
            f"The manual partition assignment of partition {partition} includes a broker more than once: "
            f"{list(replicas)}"
        )
    unknown = [broker_id for broker_id in replicas if broker_id not in brokers]
    if unknown:
        raise _refused(
            f"The manual partition assignment of partition {partition} includes broker {unknown[0]}, but no such "
            "broker is registered"
        )
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refused(f"partition {partition} is given {len(replicas)} brokers, others have {replication_factor}")
    return tuple(replicas)


def validate_assignments(
    brokers: Mapping[int, BrokerImage], assignments: Sequence[tuple[int, Sequence[int]]]
) -> list[tuple[int, ...]]:
    """The replicas of a new topic's partitions, in order. Raises ApiError INVALID_REPLICA_ASSIGNMENT."""
    by_partition = sorted(assignments, key=itemgetter(0))
    numbers = [partition for partition, _ in by_partition]
    if numbers != list(range(len(numbers))):
        raise _refused(f"partitions should be a consecutive 0-based integer sequence, each once, not {numbers}")
    replication_factor = len(by_partition[0][1])
    return [
        validate_replicas(brokers, partition, replicas, replication_factor or None)
        for partition, replicas in by_partition
    ]


def new_partition(replicas: tuple[int, ...], active: frozenset[int] | None = None) -> PartitionState:
    """A partition that nothing was written to: every replica that is there is in sync and the first of them leads.

    `active` are the brokers that may lead, with None all. Raises ApiError INVALID_REPLICA_ASSIGNMENT when none of the
    replicas is among them.
    """
    if active is None or active.issuperset(replicas):
        return PartitionState(replicas[0], 0, replicas, replicas, 0)
    if active.isdisjoint(replicas):
        raise _refused(f"none of the brokers {list(replicas)} is there to lead a new partition")
    in_sync = tuple(replica for replica in replicas if replica in active)
    return PartitionState(in_sync[0], 0, replicas, in_sync, 0)


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
