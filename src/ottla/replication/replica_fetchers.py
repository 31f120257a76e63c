"""The fetchers of a broker: `num.replica.fetchers` for each leader, each partition with the same one always."""

import asyncio
from collections.abc import Awaitable, Callable

from ottla.protocol.messages.fetch import ReplicaState
from ottla.replication.partition import Partition
from ottla.replication.replica_fetcher import FetchFrom, ReplicaFetcher, ReplicaFetchLimits, Truncation
from ottla.replication.replication_quota import ReplicationQuota
from ottla.runtime.log_throttle import LogThrottle
from ottla.runtime.outage_log import OutageLog
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer


class ReplicaFetchers:
    """Belongs to the event loop. A fetcher lives as long as it has partitions."""

    def __init__(
        self,
        fetch_from: FetchFrom,
        replica: Callable[[], ReplicaState],
        truncation: Truncation,
        quota: ReplicationQuota,
        *,
        count: int = 1,
        limits: ReplicaFetchLimits = ReplicaFetchLimits(),  # noqa: B008 (frozen)
        timer: Timer,
        tasks: Tasks,
        throttled: LogThrottle,
        outage_log: Callable[[], OutageLog],
    ) -> None:
        """`count` is `num.replica.fetchers`; `replica` says who this broker is, in its present incarnation; `quota` is
        what it may fetch of throttled partitions.
        """
        self._fetch_from = fetch_from
        self._replica = replica
        self._truncation = truncation
        self._quota = quota
        self._count = count
        self._limits = limits
        self._timer = timer
        self._tasks = tasks
        self._throttled = throttled
        self._outage_log = outage_log
        self._fetchers: dict[tuple[int, int], tuple[ReplicaFetcher, asyncio.Task[None]]] = {}
        self._by_partition: dict[Partition, tuple[int, int]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """How many partitions follow their leaders."""
        return len(self._by_partition)

    def follow(self, partition: Partition, leader_id: int) -> None:
        """Fetch from a leader from now on, in the leader epoch that the partition is at."""
        if self._is_closed:
            return
        key = (leader_id, (partition.topic_id.int + partition.index) % self._count)
        if key not in self._fetchers:
            fetcher = ReplicaFetcher(
                *key,
                self._fetch_from,
                self._replica,
                self._limits,
                self._truncation,
                self._quota,
                timer=self._timer,
                tasks=self._tasks,
                throttled=self._throttled,
                outage=self._outage_log(),
            )
            task = self._tasks.spawn(fetcher.run(), f"fetching from broker {leader_id}")
            self._fetchers[key] = fetcher, task
        self._by_partition[partition] = key
        self._fetchers[key][0].add(partition)

    def leave(self, partition: Partition) -> Awaitable[None] | None:
        """Fetch no more; what is returned is done when the log is not being cut any more, None if it is not."""
        key = self._by_partition.pop(partition, None)
        if key is None:
            return None
        fetcher, task = self._fetchers[key]
        being_cut = fetcher.remove(partition)
        if not len(fetcher):
            del self._fetchers[key]
            task.cancel()
        return being_cut

    async def close(self) -> None:
        """Fetch nothing any more; returns when no log is being cut."""
        self._is_closed = True
        for partition in tuple(self._by_partition):
            being_cut = self.leave(partition)
            if being_cut is not None:
                await being_cut
