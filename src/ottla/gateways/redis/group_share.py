"""The group of a stream as members of the share group of its name and clients of the NSQ channel see it: one group.

    acquire    what nobody has and whose time has come, then what lies behind last-delivered-id; the worker is a
               consumer of the group; the marks are on disk before the records are given out, as with XREADGROUP
    settle     accept is XACK, release is XNACK, for later if need be; a reject is done, and a dead letter
    time up    what the worker still has nobody has any more

It takes the place of `ottla.queues.share_partition.SharePartition` for topics that are streams. The state is the
stream's, in its log; only times and offsets are in memory here. So another leader gives out anew what workers had.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis.group_counts import deliveries_of
from ottla.gateways.redis.group_giving import GroupGiving
from ottla.gateways.redis.group_members import GroupMembers
from ottla.gateways.redis.group_settling import GroupSettling
from ottla.gateways.redis.open_group import OpenGroup
from ottla.model.error_code import ErrorCode
from ottla.queues.delivery_throttle import AcquiredBatches
from ottla.queues.record_delivery import FOR_EVER, NOTHING, Acquired
from ottla.queues.redelivery import NO_DELAY, Delay
from ottla.runtime.turns import next_turn

if TYPE_CHECKING:
    from ottla.gateways.redis.gateway import RedisGateway
    from ottla.gateways.redis.group import Group
    from ottla.gateways.redis.stream import Stream
    from ottla.queues.deliveries import Deliveries
    from ottla.queues.owners import OnTimedOut
    from ottla.queues.share_limits import ShareLimits
    from ottla.queues.share_state import ShareKey
    from ottla.queues.surroundings import Surroundings
    from ottla.replication.partition import Partition

LEARNED_MAX: Final = 10_000
"""Pending entries that are looked at in one turn of the event loop when the group is opened."""


class GroupShare:
    """Belongs to the event loop. What it does for one caller may interleave with others between awaits."""

    state_epoch = 0

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        stream: Stream,
        group: Group,
        gateway: RedisGateway,
        around: Surroundings,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.acquired_batches = AcquiredBatches(())
        self.looked_ms = 0
        self.is_lost = False
        self.is_retired = False
        self._open = OpenGroup(key, partition, stream, group, gateway, around, lambda: around.on_released(self))
        self._settling = GroupSettling(self._open)
        self._members = GroupMembers(self._open, self._settling)
        self._giving = GroupGiving(self._open, self._members.has_something)
        self._open.on_settled = self._retire_if_idle
        self._retires = False

    @property
    def is_current(self) -> bool:
        """Whether the stream is served here as it was read, and has the group."""
        return self._open.is_current

    async def learn(self) -> None:
        """Look at all that is pending. What workers had whom another leader knew, nobody has any more."""
        opened = self._open
        ids = list(opened.group.pending)
        for at in range(0, len(ids), LEARNED_MAX):
            await opened.until_free()
            if not self.is_current:
                return
            now_ms = opened.clock.now_ms()
            orphans = opened.holds.learn(ids[at : at + LEARNED_MAX], now_ms)
            with opened.changing():
                opened.holds.free(orphans, now_ms)
            await next_turn()
        await opened.until_free()
        if self.is_current:
            with opened.changing():
                for name in [each.name for each in opened.group.consumers.values() if each.is_worker]:
                    opened.holds.drop_worker(name.decode(), opened.clock.now_ms())
        opened.wait_for_due()

    # --- giving out -------------------------------------------------------------------------------------------------

    def has_news(self, limits: ShareLimits) -> bool:
        """Whether there may be something to give out."""
        return self._giving.has_news(limits)

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
    ) -> Acquired:
        """Give entries to a member, up to `max_records`, once that is on disk. Raises ApiError."""
        del exact, throttles
        return await self._giving.acquire(
            member_id, limits, max_bytes=max_bytes, max_records=max_records, batch_size=batch_size
        )

    def acquire_at_hand(self, member_id: str, limits: ShareLimits, *, max_bytes: int, max_records: int) -> Acquired:
        """Nothing: what is given to a member has to be on disk first."""
        return NOTHING

    # --- settling ---------------------------------------------------------------------------------------------------

    async def settle(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None = NO_DELAY
    ) -> ErrorCode:
        """Settle entries that a member has, all of them or none; decided when it is on disk.

        Those that are released are given out again after the delay; None: after that of the group's retry policy.
        """
        begun = self.begin_settle(member_id, runs, limits, delay)
        return begun if isinstance(begun, ErrorCode) else await begun

    def begin_settle(
        self,
        member_id: str,
        runs: list[tuple[int, int, int]],
        limits: ShareLimits,
        delay: Delay | None = NO_DELAY,
        *,
        linger_ms: int = 0,
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """As `settle`: what is decided at once, or a future. The member has the entries no longer when it returns."""
        del linger_ms
        return self._settling.begin(member_id, runs, limits, delay)

    def store_now(self) -> None:
        """What is changed is written in the next turn of the event loop."""

    def skip_to(self, offset: int) -> None:
        """Entries below an offset are done, whoever has them: none of them is given out any more. Stored soon."""
        self._open.tasks.spawn(self._open.gateway.groups.begin_at(self.key, offset), "redis-group-skip")

    # --- members ----------------------------------------------------------------------------------------------------

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None:
        """Tell a reader which of its entries it has no more because their time was up, or somebody else took them."""
        self._members.watch_timeouts(member_id, on_timed_out)

    def forget_member(self, member_id: str) -> None:
        """A reader is gone; what it has it has until its time is up."""
        self._members.forget(member_id)

    def release_member(self, member_id: str) -> None:
        """Nobody has any more what a member has: its session is over."""
        self._members.release(member_id)

    # --- its end ----------------------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Nobody reads here any more: be gone once nobody has anything, and nothing waits."""
        self._retires = True
        self._retire_if_idle()

    def _retire_if_idle(self) -> None:
        is_idle = not self._open.holds.count and not self._settling.aside
        if self._retires and (is_idle or not self.is_current):
            self.is_retired = not self.is_lost
            self.lose()

    def keep(self) -> None:
        """A member reads here again."""
        self._retires = False

    def lose(self) -> None:
        """Another leader has taken over, or the group is gone: nothing is given out or changed any more."""
        if not self.is_lost:
            self.is_lost = True
            self._open.lose()
            self._giving.lose()
            self._open.around.on_lost(self)

    # --- how it stands ----------------------------------------------------------------------------------------------

    def deliveries(self) -> Deliveries:
        """How the group stands here."""
        opened = self._open
        return deliveries_of(
            opened.stream,
            opened.group,
            self.partition,
            opened.clock.now_ms(),
            place=self._giving.places.near,
            accepted=self._settling.accepted,
            archived=self._settling.archived,
        )

    def holder(self, offset: int) -> str | None:
        """The worker that has an entry; None where none has it."""
        hold = self._open.holds.hold(offset)
        return None if hold is None else hold.lease.member_id
