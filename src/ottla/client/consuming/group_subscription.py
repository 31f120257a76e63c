"""A consumer's share of topics that a group reads together."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from ottla.client.arguments import text
from ottla.client.consuming.consumer_options import ConsumerOptions
from ottla.client.consuming.decoded_records import DecodedRecords
from ottla.client.consuming.group_membership import GroupMembership, MemberState
from ottla.client.consuming.group_offsets import Membership
from ottla.client.consuming.positions import Positions
from ottla.client.io.cluster import Cluster
from ottla.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class SubscriptionPattern(Struct, frozen=True):
    """All topics whose whole names match a regular expression (RE2 syntax), including later ones (KIP-848)."""

    regex: str

    def __post_init__(self) -> None:
        text("regex", self.regex)


OnPartitions = Callable[[list[TopicPartition]], None]
"""Called in the task that polls, with the partitions that were given or taken away."""


def ignore_partitions(partitions: list[TopicPartition]) -> None:
    """The callback of those who do not care."""
    del partitions


class RebalanceCallbacks(Struct, frozen=True):
    """Who is told of partitions: given, about to be given up while still owned, and lost to others perhaps already."""

    on_assigned: OnPartitions = ignore_partitions
    on_revoked: OnPartitions = ignore_partitions
    on_lost: OnPartitions = ignore_partitions


class GroupSubscription:
    """Rebalances in the task that polls, and keeps the membership alive in another.

    Rebalances are eager, as the range assignor requires: all partitions are revoked before the join, and are assigned
    again.
    """

    def __init__(
        self, cluster: Cluster, options: ConsumerOptions, positions: Positions, decoded: DecodedRecords
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._positions = positions
        self._decoded = decoded
        self._membership = GroupMembership(cluster, options)
        self._topics: tuple[str, ...] = ()
        self._callbacks = RebalanceCallbacks()

    @property
    def identity(self) -> Membership:
        """As whom to commit now."""
        return self._membership.identity

    @property
    def needs_poll(self) -> bool:
        """Whether the one who polls has something to do or to learn."""
        return self._membership.state is not MemberState.STABLE or self._membership.fatal is not None

    def subscribe(self, topics: Iterable[str] | SubscriptionPattern, callbacks: RebalanceCallbacks) -> None:
        """Read these topics, from the next rebalance on, which this brings about. No pattern: members would differ."""
        assert not isinstance(topics, SubscriptionPattern)
        self._topics = tuple(dict.fromkeys(topics))
        self._callbacks = callbacks
        self._membership.needs_rejoin()

    def rejoin(self) -> None:
        """A commit was refused: what was read may be another's."""
        self._membership.needs_rejoin()

    async def keep_up(self, commit: Callable[[], Awaitable[None]]) -> bool:
        """Join when that is due; whether partitions were given out anew.

        `commit` is awaited before partitions that are still owned are given up. Raises what joining again cannot mend.
        """
        membership = self._membership
        if membership.fatal is not None:
            raise membership.fatal
        if membership.is_leader and membership.state is MemberState.STABLE and self._partitions_changed():
            membership.needs_rejoin()
        if membership.state is MemberState.STABLE:
            return False
        await self._give_up(commit)
        given = await membership.join(self._topics, ())
        self._positions.assign(given)
        self._callbacks.on_assigned(list(given))
        return True

    async def keep_alive(self, idle_ms: Callable[[], int], wake: Callable[[], None]) -> None:
        """Send heartbeats until cancelled; leave when the application has not polled for too long.

        `idle_ms` says for how long it has not; `wake` is called when it has to poll.
        """
        while True:
            await self._cluster.io.pause(self._options.heartbeat_interval_ms)
            if self._membership.state is not MemberState.STABLE:
                continue
            idle = idle_ms()
            if idle > self._options.max_poll_interval_ms:
                logger.warning(
                    "no poll for %d ms: leaving group %s, so that other members can read; poll more often, or raise"
                    " max_poll_interval_ms",
                    idle,
                    self._options.group_id,
                )
                await self._membership.leave("no poll within max_poll_interval_ms")
            else:
                await self._membership.heartbeat()
            if self.needs_poll:
                wake()

    async def leave(self) -> None:
        """Leave the group. What is owned stays owned until another gets it."""
        await self._membership.leave("the consumer is closed")

    async def _give_up(self, commit: Callable[[], Awaitable[None]]) -> None:
        owned = self._positions.partitions()
        if owned and self._membership.lost:
            self._callbacks.on_lost(owned)
        elif owned:
            await commit()
            self._callbacks.on_revoked(owned)
        self._positions.assign(())
        self._decoded.forget()

    def _partitions_changed(self) -> bool:
        known = self._cluster.metadata.topics
        return any(
            topic in known and len(known[topic].partitions) != count
            for topic, count in self._membership.partition_counts.items()
        )
