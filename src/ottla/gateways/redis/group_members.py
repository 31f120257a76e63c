"""Members of a group of a stream: what they have until when, and what becomes of it once they are gone.

session over    what it has nobody has any more
reader gone     it has what it has until its time is up
time up         nobody has it any more
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.gateways.redis.group_settling import GroupSettling
from ottla.gateways.redis.open_group import OpenGroup
from ottla.gateways.redis.worker_holds import Hold, Lease
from ottla.queues.history import LOCK_OVER, MEMBER_GONE

if TYPE_CHECKING:
    from ottla.queues.owners import OnTimedOut


class GroupMembers:
    """Belongs to the event loop."""

    def __init__(self, opened: OpenGroup, settling: GroupSettling) -> None:
        self._open = opened
        self._settling = settling
        self._timed_out: dict[str, OnTimedOut] = {}
        self._gone: set[str] = set()
        """Members that are gone and have something until its time is up."""
        opened.on_taken, opened.on_lease_over = self._taken, self._lease_over

    def has_something(self, member_id: str) -> None:
        """A member was given something: it is not gone."""
        self._gone.discard(member_id)

    def watch_timeouts(self, member_id: str, on_timed_out: OnTimedOut) -> None:
        """Tell a reader which of its entries it has no more because their time was up, or somebody else took them."""
        self._timed_out[member_id] = on_timed_out

    def forget(self, member_id: str) -> None:
        """A reader is gone; what it has it has until its time is up."""
        self._timed_out.pop(member_id, None)
        self._gone.add(member_id)
        self._open.when_free(self._drop_gone)

    def release(self, member_id: str) -> None:
        """Nobody has any more what a member has: its session is over."""
        self._timed_out.pop(member_id, None)

        def give_back() -> None:
            self._gone.add(member_id)
            self._take_back(self._open.holds.held_by(member_id), MEMBER_GONE, tell=False)
            self._drop_gone()

        self._open.when_free(give_back)

    def _drop_gone(self) -> None:
        for member_id in [each for each in self._gone if not self._open.holds.held_by(each)]:
            self._gone.discard(member_id)
            with self._open.changing():
                self._open.holds.drop_worker(member_id, self._open.clock.now_ms())

    def _take_back(self, holds: Sequence[Hold], why: str, *, tell: bool) -> None:
        """Entries are taken from members."""
        self._settling.take_back(holds, why)
        if tell:
            for hold in holds:
                self._tell_reader(hold.lease.member_id, hold.offset)
        self._open.on_settled()

    def _tell_reader(self, member_id: str, offset: int) -> None:
        on_timed_out = self._timed_out.get(member_id)
        if on_timed_out is not None:
            on_timed_out([(offset, offset, 0, 0)])

    def _taken(self, member_id: str, offset: int) -> None:
        """A client of Redis took an entry from a worker."""
        self._tell_reader(member_id, offset)
        if self._gone:
            asyncio.get_running_loop().call_soon(self._open.when_free, self._drop_gone)

    def _lease_over(self, lease: Lease) -> None:
        holds = [each for each in self._open.holds.held_by(lease.member_id) if each.lease is lease]
        self._take_back(holds, LOCK_OVER, tell=True)
        self._drop_gone()
