"""What members of a share group and clients of a channel see of a group in a partition, however its state is kept.

SharePartition    a topic: a ledger in memory, its state at the share coordinator
GroupShare        a stream of Redis: the group of the stream, its state in the stream's own log
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ottla.model.error_code import ErrorCode
from ottla.queues.deliveries import Deliveries
from ottla.queues.delivery_throttle import AcquiredBatches
from ottla.queues.owners import OnTimedOut
from ottla.queues.record_delivery import FOR_EVER, Acquired
from ottla.queues.redelivery import NO_DELAY, Delay
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey
from ottla.replication.partition import Partition


class Changing(Protocol):
    """Says when a reader may see something new."""

    def subscribe(self, on_change: Callable[[object], None]) -> None: ...

    def unsubscribe(self, on_change: Callable[[object], None]) -> None: ...


class ReadablePartition(Protocol):
    """What one reader needs of a group in a partition, whichever broker leads it. `partition` says when there is
    something new.
    """

    key: ShareKey

    @property
    def partition(self) -> Changing: ...

    @property
    def is_current(self) -> bool: ...

    def has_news(self, limits: ShareLimits) -> bool: ...

    async def acquire(
        self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int, exact: bool
    ) -> Acquired: ...

    def begin_settle(
        self,
        member_id: str,
        runs: list[tuple[int, int, int]],
        limits: ShareLimits,
        delay: Delay | None = NO_DELAY,
        *,
        linger_ms: int = 0,
    ) -> "ErrorCode | asyncio.Future[ErrorCode]": ...

    def store_now(self) -> None: ...

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None: ...

    def forget_member(self, member_id: str) -> None: ...


class SharedPartition(ReadablePartition, Protocol):
    """Belongs to the event loop. See `ottla.queues.share_partition.SharePartition` for what each method does."""

    partition: Partition
    leader_epoch: int
    state_epoch: int
    acquired_batches: AcquiredBatches
    looked_ms: int
    is_lost: bool
    is_retired: bool

    async def acquire(
        self,
        member_id: str,
        limits: ShareLimits,
        *,
        max_bytes: int,
        max_records: int,
        exact: bool,
        batch_size: int = FOR_EVER,
        throttles: bool = False,
    ) -> Acquired: ...

    def acquire_at_hand(self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int) -> Acquired: ...

    async def settle(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None = NO_DELAY
    ) -> ErrorCode: ...

    def skip_to(self, offset: int) -> None: ...

    def release_member(self, member_id: str) -> None: ...

    def retire(self) -> None: ...

    def keep(self) -> None: ...

    def lose(self) -> None: ...

    def deliveries(self) -> Deliveries: ...

    def holder(self, offset: int) -> str | None: ...
