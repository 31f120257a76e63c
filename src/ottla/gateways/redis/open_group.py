"""A group of a stream as its leader has it open for workers: what giving out, settling and members have in common.

Whoever changes the group does so when no transaction of a Redis client is under way, and nobody's reply waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.worker_holds import Hold, Lease, WorkerHolds
from ottla.model.error_code import ErrorCode
from ottla.queues.delivery_throttle import joined
from ottla.queues.record_delivery import FOR_EVER

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.group import Group
    from ottla.gateways.redis.stream import Stream
    from ottla.queues.share_state import ShareKey
    from ottla.queues.surroundings import Surroundings
    from ottla.replication.partition import Partition
    from ottla.runtime.timing_wheel import TimerTask

COUNT_MAX: Final = (1 << 15) - 1
"""How often a record was delivered, as far as Kafka's protocol can say."""


class OpenGroup:
    """Belongs to the event loop."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        stream: Stream,
        group: Group,
        gateway: RedisGateway,
        around: Surroundings,
        look_again: Callable[[], None],
    ) -> None:
        """`look_again` has the readers of the group see whether there is something to give out."""
        broker = gateway.broker
        self.key = key
        self.partition = partition
        self.stream = stream
        self.group = group
        self.gateway = gateway
        self.around = around
        self.clock, self.timer, self.tasks, self.rng = broker.clock, broker.timer, broker.tasks, broker.rng
        self.look_again = look_again
        self.on_taken: Callable[[str, int], None] = lambda member_id, offset: None
        """Told of a member and an offset when a client of Redis took the entry."""
        self.on_lease_over: Callable[[Lease], None] = lambda lease: None
        """Told of leases whose time is up."""
        self.on_settled: Callable[[], None] = lambda: None
        """Told when members may have nothing left."""
        self.holds = WorkerHolds(stream, group, self.freed, self._taken, self._lease_ended)
        self.is_lost = False
        self._leases: dict[Lease, TimerTask] = {}
        self._due: TimerTask | None = None
        self._due_ms = 0
        self._is_telling = False

    def lose(self) -> None:
        """Nothing is given out or changed any more."""
        self.is_lost = True
        self.holds.close()
        for timer in (*self._leases.values(), self._due):
            if timer is not None:
                timer.cancel()
        self._leases.clear()

    @property
    def is_current(self) -> bool:
        """Whether the stream is served here as it was read, and has the group."""
        stream = self.stream
        return (
            not self.is_lost
            and stream.log.is_current
            and stream.groups.get(self.group.name) is self.group
            and self.gateway.keyspace.serves(stream)
        )

    @property
    def is_free(self) -> bool:
        """Whether the group may be changed now: no command of a Redis client on the stream is under way."""
        return self.gateway.keyspace.is_free(self.stream)

    async def until_free(self) -> None:
        """Wait until the group may be changed."""
        await self.gateway.keyspace.until_free_of(self.stream)

    def written(self) -> ErrorCode | asyncio.Future[ErrorCode]:
        """When all that was changed so far is on disk, or is not to be."""
        flush = self.stream.log.latest
        if flush is None:
            return ErrorCode.NONE
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def decided() -> None:
            if not done.done():
                done.set_result(ErrorCode.NONE if flush.error is None else ErrorCode.NOT_LEADER_OR_FOLLOWER)

        flush.waiters.append(decided)
        return done

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Nobody's command is under way: replies of Redis clients do not wait for what is changed meanwhile."""
        keyspace = self.gateway.keyspace
        outside, keyspace.awaited = keyspace.awaited, set()
        try:
            yield
        finally:
            keyspace.awaited = outside

    def when_free(self, change: Callable[[], None]) -> None:
        """Make a change when no transaction of a Redis client is under way."""
        if not self.is_free:
            self.tasks.spawn(self._later(change), "redis-group")
        elif self.is_current:
            change()

    async def _later(self, change: Callable[[], None]) -> None:
        await self.until_free()
        if self.is_current:
            change()

    def start(self, lease: Lease, lock_ms: int) -> None:
        """A lease ends at a time, unless its entries are settled before."""
        self._leases[lease] = self.timer.schedule(lock_ms, partial(self.when_free, partial(self.on_lease_over, lease)))

    def _lease_ended(self, lease: Lease) -> None:
        timer = self._leases.pop(lease, None)
        if timer is not None:
            timer.cancel()

    def _taken(self, member_id: str, offset: int) -> None:
        self.on_taken(member_id, offset)

    def wait_for_due(self) -> None:
        """Have readers look again when the next entry's time has come."""
        now_ms = self.clock.now_ms()
        due_ms = self.holds.come_due(now_ms)
        if due_ms is None or self.is_lost or (self._due is not None and self._due_ms <= due_ms):
            return
        if self._due is not None:
            self._due.cancel()
        self._due_ms = due_ms
        self._due = self.timer.schedule(due_ms - now_ms, self._came_due)

    def _came_due(self) -> None:
        self._due = None
        self.wait_for_due()
        self.freed()

    def freed(self) -> None:
        """There is something to give out: tell those who wait for it, soon."""
        if not self._is_telling and not self.is_lost:
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell_freed)

    def _tell_freed(self) -> None:
        self._is_telling = False
        if self.is_lost:
            return
        self.look_again()
        if self.gateway.keyspace.serves(self.stream):  # XREADGROUP with CLAIM may wait for it
            self.gateway.keyspace.changed(self.stream)
            self.gateway.serve_waiters()

    def note(self, what: str, holds: Sequence[Hold]) -> None:
        """Have the history of the group say what became of entries."""
        history = self.around.history
        if history.keep_ms and holds:
            pending = self.group.pending
            runs = [(each.offset, each.offset, min(pending[each.entry_id].count, COUNT_MAX)) for each in holds]
            history.note(self.clock.now_ms(), what, joined(runs, FOR_EVER))
