"""Which replica a consumer is sent to (KIP-392): one in its rack, so that records do not cross between data centers."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.replication.replicated_leader import ReplicatedLeader

if TYPE_CHECKING:
    from ottla.replication.partition import Partition


class RackAwareSelector:
    """Kafka's `RackAwareReplicaSelector`. Belongs to the event loop."""

    __slots__ = ("_broker_id", "_rack_of")

    def __init__(self, broker_id: int, rack_of: Callable[[int], str | None]) -> None:
        """`rack_of` has the racks of the brokers that clients can reach; None for the others."""
        self._broker_id = broker_id
        self._rack_of = rack_of

    def preferred(self, partition: "Partition", rack: str, offset: int) -> int:
        """The broker that a consumer in `rack` is to read from `offset` on; -1 for the leader, which this broker is.

        It is in sync and has the offset; of several the one that has most, then the one that was caught up last.
        """
        leader = partition.role
        if not isinstance(leader, ReplicatedLeader) or self._rack_of(self._broker_id) == rack:
            return -1
        in_sync = leader.in_sync
        found = [
            (state.end_offset, state.caught_up_ms, broker_id)
            for broker_id, state in in_sync.followers.items()
            if broker_id in in_sync.committed
            and state.log_start_offset <= offset <= state.end_offset
            and self._rack_of(broker_id) == rack
        ]
        return max(found)[2] if found else -1
