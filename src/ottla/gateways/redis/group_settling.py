"""What becomes of entries that members of a group of a stream have.

accept    XACK
release   XNACK, for later if need be; done where it was the last delivery
reject    done, and a dead letter where the group has them
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.gateways.redis.open_group import COUNT_MAX, OpenGroup
from ottla.gateways.redis.worker_holds import Hold, Lease
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.queues.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW
from ottla.queues.dead_letter import REJECTED, TOO_OFTEN
from ottla.queues.history import ACCEPTED, RELEASED
from ottla.queues.history import REJECTED as WAS_REJECTED
from ottla.queues.letters import LETTER_RETRY_MS, Letter

if TYPE_CHECKING:
    from ottla.queues.redelivery import Delay
    from ottla.queues.share_limits import ShareLimits


class _Given(NamedTuple):
    """Entries that go to members again, with the time before which they do not."""

    holds: list[Hold]
    until_ms: int


class GroupSettling:
    """Belongs to the event loop."""

    def __init__(self, opened: OpenGroup) -> None:
        self._open = opened
        self.accepted = 0
        self.archived = 0
        self.aside = 0
        """Entries whose letters are being written."""

    def begin(
        self,
        member_id: str,
        runs: list[tuple[int, int, int]],
        limits: ShareLimits,
        delay: Delay | None,
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """What is decided at once, or a future. The member has the entries no longer when it returns."""
        if not self._open.is_free:
            return self._open.tasks.spawn(self._settle_when_free(member_id, runs, limits, delay), "redis-group-settle")
        return self._settle(member_id, runs, limits, delay)

    async def _settle_when_free(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None
    ) -> ErrorCode:
        await self._open.until_free()
        begun = self._settle(member_id, runs, limits, delay)
        return begun if isinstance(begun, ErrorCode) else await begun

    def _settle(
        self, member_id: str, runs: list[tuple[int, int, int]], limits: ShareLimits, delay: Delay | None
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        if not self._open.is_current:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        found = self._held(member_id, runs)
        if found is None:
            return ErrorCode.INVALID_RECORD_STATE
        now_ms = self._open.clock.now_ms()
        done = found.get(ACCEPT, []) + found.get(GAP, [])
        archived = dict.fromkeys(found.get(REJECT, []), REJECTED)
        given: list[Hold] = []
        for hold in found.get(RELEASE, []):
            if 0 < limits.deliveries_max <= self._open.group.pending[hold.entry_id].count:
                archived[hold] = TOO_OFTEN
            else:
                given.append(hold)
        with self._open.changing():
            if RENEW in found:
                lease = Lease(member_id, now_ms + limits.lock_ms, limits.deliveries_max)
                self._open.holds.renew(lease, found[RENEW], now_ms)
                self._open.start(lease, limits.lock_ms)
            self.accepted += len(found.get(ACCEPT, []))
            self._open.note(ACCEPTED, found.get(ACCEPT, []))
            self._open.holds.finish(done, now_ms)
            self._open.note(RELEASED, given)
            for each in self._delayed(given, limits, delay, now_ms):
                self._open.holds.give_back(each.holds, now_ms, each.until_ms)
            if not self._has_letters(limits):
                self._archive(archived, now_ms)
                archived = {}
        self._open.wait_for_due()
        self._open.on_settled()
        if archived:
            return self._archive_later(archived, limits)
        return self._open.written()

    def take_back(self, holds: Sequence[Hold], why: str) -> None:
        """Entries are taken from members: they are given out again, or were given out too often."""
        now_ms = self._open.clock.now_ms()
        archived: dict[Hold, str] = {}
        given: list[Hold] = []
        for hold in holds:
            if 0 < hold.lease.deliveries_max <= self._open.group.pending[hold.entry_id].count:
                archived[hold] = TOO_OFTEN
            else:
                given.append(hold)
        self._open.note(why, holds)
        limits = self._open.gateway.broker.share_fetches.partitions.limits(self._open.key.group_id)
        with self._open.changing():
            if given:
                self._open.holds.give_back(given, now_ms)
            if archived and self._has_letters(limits):
                self._archive_later(archived, limits)
            elif archived:
                self._archive(archived, now_ms)

    def _held(self, member_id: str, runs: list[tuple[int, int, int]]) -> dict[int, list[Hold]] | None:
        """What a member has of some runs, by how it is settled; None where it does not have all of it, or an offset is
        named twice.
        """
        found: dict[int, list[Hold]] = {}
        named: set[int] = set()
        if sum(last - first + 1 for first, last, _ in runs) > self._open.holds.count:
            return None
        for first, last, kind in runs:
            for offset in range(first, last + 1):
                hold = self._open.holds.hold(offset)
                if hold is None or hold.lease.member_id != member_id or offset in named:
                    return None
                named.add(offset)
                found.setdefault(kind, []).append(hold)
        return found

    def _delayed(self, holds: list[Hold], limits: ShareLimits, delay: Delay | None, now_ms: int) -> Iterator[_Given]:
        """What is released, by when it is given out again."""
        if not holds:
            return
        if delay is not None:
            yield _Given(holds, delay.until_ms)
            return
        by_count: dict[int, list[Hold]] = {}
        for hold in holds:
            by_count.setdefault(self._open.group.pending[hold.entry_id].count, []).append(hold)
        for count, some in by_count.items():
            delay_ms = limits.backoff.delay_ms(count, self._open.rng.random())
            yield _Given(some, now_ms + delay_ms if delay_ms else 0)

    def _archive(self, archived: dict[Hold, str], now_ms: int) -> None:
        self.archived += len(archived)
        self._open.note(WAS_REJECTED, [hold for hold, why in archived.items() if why == REJECTED])
        self._open.holds.finish(list(archived), now_ms)

    def _has_letters(self, limits: ShareLimits) -> bool:
        return bool(limits.letters_topic) and self._open.around.write_letters is not None

    def _archive_later(self, archived: dict[Hold, str], limits: ShareLimits) -> asyncio.Task[ErrorCode]:
        """Entries are done once their letters are written."""
        self.aside += len(archived)
        self._open.holds.set_aside(list(archived))
        return self._open.tasks.spawn(self._write_and_archive(archived, limits), "redis-group-letters")

    async def _write_and_archive(self, archived: dict[Hold, str], limits: ShareLimits) -> ErrorCode:
        """Write letters, then say that their entries are done; where that fails, these are given back."""
        write = self._open.around.write_letters
        assert write is not None
        pending = self._open.group.pending
        letters = [
            Letter(hold.offset, hold.offset, min(pending[hold.entry_id].count, COUNT_MAX), why)
            for hold, why in archived.items()
            if hold.entry_id in pending
        ]
        error = ErrorCode.NONE
        try:
            await write(self._open.key, self._open.partition, letters, limits)
        except ApiError as refusal:
            error = refusal.code
        finally:
            self.aside -= len(archived)
        await self._open.until_free()
        if not self._open.is_current:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        now_ms = self._open.clock.now_ms()
        ids = [hold.entry_id for hold in archived if self._open.holds.is_aside(hold)]
        with self._open.changing():
            if error is not ErrorCode.NONE:
                self._open.holds.free(ids, now_ms, now_ms + LETTER_RETRY_MS)
            else:
                self.archived += len(ids)
                self._open.holds.forget(ids, now_ms)
        self._open.wait_for_due()
        self._open.on_settled()
        written = self._open.written()
        stored = written if isinstance(written, ErrorCode) else await written
        return error if error is not ErrorCode.NONE else stored
