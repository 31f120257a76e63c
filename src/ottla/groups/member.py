"""A member of a classic group."""

from collections.abc import Container

from ottla.coordination.outcome import Waiter
from ottla.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemberProtocol:
    """One way to assign partitions that a member offers (`range`), with its subscription for it.

    What `metadata` means is between the clients; for consumers it is Kafka's ConsumerProtocolSubscription.
    """

    name: str
    metadata: bytes


@dataclass(slots=True)
class Member:
    """What a group knows of one client.

    `instance_id` (`group.instance.id`, KIP-345) makes it a static member, which keeps its place over a restart.
    `protocols` are in the order the member prefers them. `join_waiter` and `sync_waiter` are its parked requests.
    `is_new` holds until its first generation is agreed: it does not know its id yet and cannot send heartbeats.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    join_waiter: Waiter | None = None
    sync_waiter: Waiter | None = None

    @property
    def is_static(self) -> bool:
        """Whether it has a `group.instance.id`."""
        return self.instance_id is not None

    @property
    def awaits_join(self) -> bool:
        """Whether it has joined the rebalance that is being prepared."""
        return self.join_waiter is not None

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether its session goes on without heartbeats: a parked request shows that it is there."""
        return not self.is_new and (self.join_waiter is not None or self.sync_waiter is not None)

    @property
    def metadata_bytes(self) -> int:
        """How much its subscriptions take, over all protocols."""
        return sum(len(protocol.metadata) for protocol in self.protocols)

    def unpark_sync(self) -> Waiter | None:
        """Take back its parked SyncGroup, to answer it."""
        waiter, self.sync_waiter = self.sync_waiter, None
        return waiter

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its subscription for a protocol; empty for one it does not offer."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: Container[str]) -> str:
        """The candidate it prefers; there must be one that it offers."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)
