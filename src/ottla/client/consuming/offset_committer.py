"""Commits the positions of a consumer for its group."""

import logging
from collections.abc import Callable, Collection, Mapping

from ottla.client.consuming.group_offsets import CommittedOffset, Membership, commit_offsets, committed_offsets
from ottla.client.consuming.positions import Positions
from ottla.client.errors import BrokerError, ClientError
from ottla.client.io.cluster import Cluster
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

MEMBERSHIP_LOST = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)
"""A commit with such an error came too late: the partitions may be another's by now."""

Identity = Callable[[], Membership]
"""As whom to commit, at the time of asking."""


class OffsetCommitter:
    """Knows what the group has committed through this consumer, so that only what has changed is sent."""

    __slots__ = ("_cluster", "_committed", "_committed_ms", "_group_id", "_positions")

    def __init__(self, cluster: Cluster, group_id: str, positions: Positions) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._positions = positions
        self._committed: dict[TopicPartition, int] = {}
        self._committed_ms = cluster.io.clock.monotonic_ms()

    def forget(self) -> None:
        """Partitions were given out anew: others may have committed since."""
        self._committed = {}

    async def fetch(self, topic_partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets for these partitions; partitions without one are left out."""
        found = await committed_offsets(self._cluster, self._group_id, topic_partitions, self._cluster.deadline())
        return {topic_partition: each.offset for topic_partition, each in found.items()}

    def begin_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Reading begins at what the group has committed: nothing to commit yet."""
        self._committed |= offsets

    async def commit(self, member: Identity, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit these offsets, or the positions that have moved. Raises ClientError.

        A member of the protocol `consumer` may get STALE_MEMBER_EPOCH before it knows its new epoch. It commits again
        with the new one.
        """
        if offsets is None:
            offsets = self._moved()
        commits = {each: CommittedOffset(offset) for each, offset in offsets.items()}
        deadline = self._cluster.deadline()
        while True:
            try:
                await commit_offsets(self._cluster, self._group_id, commits, deadline, member())
                break
            except BrokerError as error:
                if error.code != ErrorCode.STALE_MEMBER_EPOCH or deadline.passed or member().generation <= 0:
                    raise
            await self._cluster.io.pause(self._cluster.options.retry_backoff_ms)
        self._committed |= offsets

    async def commit_when_due(self, member: Identity, interval_ms: int) -> bool:
        """Commit what has moved, if the last time is `interval_ms` ago; False when the membership was lost meanwhile.

        Does not raise: a failed commit is logged, and its records are read again after a restart.
        """
        now_ms = self._cluster.io.clock.monotonic_ms()
        if now_ms - self._committed_ms < interval_ms:
            return True
        self._committed_ms = now_ms
        try:
            await self.commit(member)
        except ClientError as error:
            logger.warning("could not commit offsets: %s", error)
            return not (isinstance(error, BrokerError) and error.code in MEMBERSHIP_LOST)
        return True

    def _moved(self) -> dict[TopicPartition, int]:
        return {
            position.topic_partition: position.next_offset
            for position in self._positions
            if position.next_offset is not None
            and self._committed.get(position.topic_partition) != position.next_offset
        }
