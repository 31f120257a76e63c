"""The members of a classic group: what each said of itself, who waits for what, which protocols they have in common."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator

from msgspec import Struct

from ottla.coordination.outcome import Waiter


class MemberProtocol(Struct, frozen=True):
    """One way to assign partitions that a member offers (`range`), with its subscription for it.

    What `metadata` means is between the clients; for consumers it is Kafka's ConsumerProtocolSubscription.
    """

    name: str
    metadata: bytes


class Member(Struct):
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


class GroupMembers:
    """The members of a group in the order they came, with counts kept as they change.

    Pending members are ids that were given out with MEMBER_ID_REQUIRED (KIP-394) and have not joined with it yet.
    """

    __slots__ = ("_joined_count", "_members", "_pending", "_protocol_counts", "_static", "metadata_bytes")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._pending: dict[str, None] = {}
        self._protocol_counts: Counter[str] = Counter()
        self._joined_count = 0
        self.metadata_bytes = 0
        """How much the subscriptions of all members take."""

    def __len__(self) -> int:
        """How many members there are; pending ones are not members yet."""
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def get(self, member_id: str) -> Member | None:
        """The member, or None."""
        return self._members.get(member_id)

    @property
    def joined_count(self) -> int:
        """How many members wait for the answer to their JoinGroup."""
        return self._joined_count

    @property
    def everybody_joined(self) -> bool:
        """Whether every member waits for the answer to its JoinGroup and no id is pending."""
        return self._joined_count == len(self._members) and not self._pending

    @property
    def pending(self) -> tuple[str, ...]:
        """The ids that were given out and not used yet."""
        return tuple(self._pending)

    def add_pending(self, member_id: str) -> None:
        """Note that an id was given out."""
        self._pending[member_id] = None

    def discard_pending(self, member_id: str) -> None:
        """Forget an id that was given out."""
        self._pending.pop(member_id, None)

    def is_pending(self, member_id: str) -> bool:
        """Whether the id was given out and not used yet."""
        return member_id in self._pending

    def add(self, member: Member) -> None:
        """Take a member in; its id and instance id are not taken."""
        assert member.member_id not in self._members
        self._pending.pop(member.member_id, None)
        if member.instance_id is not None:
            assert member.instance_id not in self._static
            self._static[member.instance_id] = member.member_id
        self._members[member.member_id] = member
        self._count_protocols(member)
        self._joined_count += member.awaits_join

    def remove(self, member_id: str) -> Member | None:
        """Take a member, or a pending id, out."""
        self._pending.pop(member_id, None)
        member = self._members.pop(member_id, None)
        if member is None:
            return None
        self._discount_protocols(member)
        self._joined_count -= member.awaits_join
        if member.instance_id is not None:
            del self._static[member.instance_id]
        return member

    def static_member_id(self, instance_id: str) -> str | None:
        """The id under which a static member is known now."""
        return self._static.get(instance_id)

    def set_protocols(self, member: Member, protocols: tuple[MemberProtocol, ...]) -> None:
        """Note what a member offers from now on."""
        self._discount_protocols(member)
        member.protocols = protocols
        self._count_protocols(member)

    def park_join(self, member: Member, waiter: Waiter) -> Waiter | None:
        """A member waits for the rebalance. Returns the waiter of an earlier JoinGroup that this one replaces."""
        earlier, member.join_waiter = member.join_waiter, waiter
        self._joined_count += earlier is None
        return earlier

    def unpark_join(self, member: Member) -> Waiter | None:
        """Take back the parked JoinGroup of a member, to answer it."""
        waiter, member.join_waiter = member.join_waiter, None
        self._joined_count -= waiter is not None
        return waiter

    def supports_any(self, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether one of the protocols is offered by every member."""
        count = len(self._members)
        return any(self._protocol_counts[name] == count for name in _names(protocols))

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those all offer; of two with as many votes, the one that got its
        first vote earlier. There must be members.
        """
        count = len(self._members)
        candidates = {name for name, members in self._protocol_counts.items() if members == count}
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return votes.most_common(1)[0][0]

    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for its members: the longest any of them asks for."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def _count_protocols(self, member: Member) -> None:
        self._protocol_counts.update(_names(member.protocols))
        self.metadata_bytes += member.metadata_bytes

    def _discount_protocols(self, member: Member) -> None:
        self._protocol_counts.subtract(_names(member.protocols))
        self._protocol_counts += Counter()  # drops those that are at 0
        self.metadata_bytes -= member.metadata_bytes


def _names(protocols: Iterable[MemberProtocol]) -> set[str]:
    return {protocol.name for protocol in protocols}
