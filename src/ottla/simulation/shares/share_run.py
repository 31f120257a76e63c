"""One run of a share partition, from a seed to what is wrong in it.

step     a batch is committed | a member fetches | settles | renews | goes | time passes
         the coordinator answers | moves | prunes | another broker leads, and the one before may not know
end      nothing fails any more, members take what is left, and the next leader finds nothing to deliver
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast
from uuid import UUID

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import decode_records
from ottla.queues.acknowledgements import ACCEPT, REJECT, RELEASE, RENEW
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_partition import SharePartition
from ottla.queues.share_state import ShareKey
from ottla.runtime.rng import Rng, SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.runtime.turns import next_turn
from ottla.simulation.history import Outcome, Partition
from ottla.simulation.replacing import replaced
from ottla.simulation.share_history import Delivery, Settlement, ShareHistory
from ottla.simulation.shares.share_log import ShareLog
from ottla.simulation.shares.share_states import SimulatedStates

STEPS: Final = 300
MEMBERS: Final = 3
TURNS: Final = 4
"""So many turns of the event loop have what was begun go on as far as it can."""
ROUNDS_MAX: Final = 60
"""So many times members fetch in the end, each after the lock time."""
LIMITS: Final = ShareLimits(lock_ms=1_000, deliveries_max=5, locks_max=40, read_committed=True)
UPDATES_PER_SNAPSHOT: Final = 5
BATCHES_PER_RECORD: Final = 3
PLACE: Final[Partition] = ("jobs", 0)
DECOMPRESSED_BYTES_MAX: Final = 1 << 20


def run(seed: int) -> list[str]:
    """Everything that is wrong, each with the rule in front."""
    with (
        replaced("ottla.queues.share_state_shard", "UPDATES_PER_SNAPSHOT_MAX", UPDATES_PER_SNAPSHOT),
        replaced("ottla.queues.share_state", "BATCHES_PER_RECORD_MAX", BATCHES_PER_RECORD),
    ):
        return asyncio.run(_Run(SeededRng(seed)).result())


class _Tasks(Tasks):
    """What a thread would do is done a turn later."""

    crashes: list[str]

    def __init__(self) -> None:
        self.crashes = []
        super().__init__("simulation", on_failure=lambda name, error: self.crashes.append(f"{name}: {error!r}"))

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """At once."""
        await next_turn()
        return function(*args, **kwargs)


class _Member:
    """`held` has what was delivered, with the leader that delivered it and until when it is locked."""

    def __init__(self, name: str, share: SharePartition) -> None:
        self.name = name
        self.share = share
        self.held: dict[tuple[int, int], tuple[SharePartition, int]] = {}


class _Run:
    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._timer = ManualTimer()
        self._tasks = _Tasks()
        self._log = ShareLog(rng)
        self._key = ShareKey("workers", UUID(int=1), 0)
        self._states = SimulatedStates(self._key, rng)
        self._history = ShareHistory(LIMITS.deliveries_max)
        self._wrong: dict[str, None] = {}
        self._ticks = 0
        self._leaders: list[SharePartition] = []
        self._counts: dict[tuple[int, int], int] = {}
        """How often each leader delivered each offset by then."""
        self._locks: dict[tuple[int, int], tuple[str, int]] = {}
        """By leader and offset, who has a record and until when."""
        self._said_s: dict[tuple[str, int, int], float] = {}
        """When a member last settled a record at a leader."""

    async def result(self) -> list[str]:
        """Run to the end."""
        self._lead()
        self._members = [self._new_member() for _ in range(MEMBERS)]
        for _ in range(STEPS):
            self._step()
            for _ in range(self._rng.randbelow(TURNS)):
                await next_turn()
        await self._end()
        await self._tasks.close()
        self._wrong.update(dict.fromkeys(self._history.check({PLACE: self._log.values})))
        self._wrong.update(dict.fromkeys(f"a part crashed: {each}" for each in self._tasks.crashes))
        return list(self._wrong)

    # --- steps ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        draw, member = self._rng.randbelow(100), self._members[self._rng.randbelow(MEMBERS)]
        if draw < 10:
            self._log.grow()
        elif draw < 35:
            self._fetch(member)
        elif draw < 60:
            self._settle(member, self._some(member))
        elif draw < 65:
            self._renew(member)
        elif draw < 85:
            self._states.answer_one()
        elif draw < 92:
            self._timer.advance(1 + self._rng.randbelow(LIMITS.lock_ms))
        elif draw < 94:
            self._go(member)
        elif draw < 96:
            self._lead()
        elif draw < 98:
            self._states.move()
        else:
            self._states.prune()

    def _lead(self) -> None:
        """Another broker leads; the one before is told, or goes on until it is fenced."""
        epoch = len(self._leaders)
        state = self._states.read(epoch).state
        if self._leaders and self._rng.random() < 0.5:
            before = self._leaders[-1]
            cast("Any", before.partition).is_leader = False
            before.lose()
        self._leaders.append(
            SharePartition(
                self._key,
                self._log.led(epoch),
                cast("Any", self._states),
                epoch,
                state.start_offset,
                state.state_epoch,
                state.batches,
                timer=self._timer,
                tasks=self._tasks,
                on_released=lambda share: None,
                on_lost=lambda share: None,
                clock=self._timer.clock,
                rng=self._rng,
            )
        )

    def _new_member(self) -> _Member:
        self._ticks += 1
        return _Member(f"member-{self._ticks}", self._leaders[-1])

    def _go(self, member: _Member) -> None:
        """A member goes: what it has is released by the leader, or it is not heard of any more."""
        if self._rng.random() < 0.5:
            member.share.release_member(member.name)
            self._locks = {each: lock for each, lock in self._locks.items() if lock[0] != member.name}
        self._members[self._members.index(member)] = self._new_member()

    def _fetch(self, member: _Member) -> None:
        if not member.share.is_current:
            member.share = self._leaders[-1]
        self._tasks.spawn(self._fetching(member, member.share), "fetch")

    async def _fetching(self, member: _Member, share: SharePartition) -> None:
        asked_s = self._now_s()
        count = 1 + self._rng.randbelow(12)
        try:
            acquired = await share.acquire(
                member.name,
                LIMITS,
                max_bytes=1 << 20,
                max_records=count,
                exact=self._rng.random() < 0.3,
                throttles=True,
            )
        except ApiError:
            return
        values = {
            offset: (value or b"").decode()
            for offset, _, _, value, _ in decode_records(
                acquired.records, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX
            )
        }
        now_ms, leader = self._timer.clock.monotonic_ms(), self._leaders.index(share)
        for first, last, deliveries in acquired.runs:
            for offset in range(first, last + 1):
                place = leader, offset
                came = Delivery(
                    member.name, (PLACE, offset), values.get(offset, ""), deliveries, asked_s, self._now_s(), leader
                )
                self._history.deliveries.append(came)
                if deliveries <= self._counts.get(place, 0):
                    self._wrong[f"the count did not rise: {offset}: {deliveries}"] = None
                self._counts[place] = deliveries
                holder, until_ms = self._locks.get(place, ("", 0))
                if holder and holder != member.name and now_ms < until_ms:
                    self._wrong[f"delivered while another holds it: {offset}: {holder}, {member.name}"] = None
                if self._said_s.get((member.name, *place), 0) < asked_s:  # else it is settled already
                    self._locks[place] = member.name, now_ms + LIMITS.lock_ms
                member.held[place] = share, now_ms + LIMITS.lock_ms

    def _some(self, member: _Member) -> list[tuple[int, int]]:
        """Records that a member got of one leader, some of them for too long a time."""
        if not member.held:
            return []
        leader = list(member.held)[self._rng.randbelow(len(member.held))][0]
        return [each for each in member.held if each[0] == leader and self._rng.random() < 0.6]

    def _settle(self, member: _Member, places: list[tuple[int, int]], kind: int | None = None) -> None:
        if not places:
            return
        share = member.held[places[0]][0]
        runs = [(offset, offset, self._kind() if kind is None else kind) for _, offset in sorted(places)]
        for place in places:
            del member.held[place]
        self._tasks.spawn(self._settling(member.name, share, runs), "settle")

    async def _settling(self, name: str, share: SharePartition, runs: list[tuple[int, int, int]]) -> None:
        sent_s, leader = self._now_s(), self._leaders.index(share)
        for offset, _, _ in runs:
            # What came between the step and this was for the same member, and is settled with it.
            self._said_s[name, leader, offset] = sent_s
            if self._locks.get((leader, offset), ("", 0))[0] == name:
                del self._locks[leader, offset]
        error = await share.settle(name, runs, LIMITS)
        outcome = {ErrorCode.NONE: Outcome.OK, ErrorCode.INVALID_RECORD_STATE: Outcome.FAIL}.get(error, Outcome.UNKNOWN)
        for offset, _, kind in runs:
            is_done = kind in (ACCEPT, REJECT)
            self._history.settlements.append(Settlement(name, (PLACE, offset), is_done, outcome, sent_s, self._now_s()))

    def _renew(self, member: _Member) -> None:
        places = self._some(member)
        if not places:
            return
        share = member.held[places[0]][0]
        begun = share.begin_settle(member.name, [(offset, offset, RENEW) for _, offset in sorted(places)], LIMITS)
        if begun is ErrorCode.NONE and share.is_current:
            until_ms = self._timer.clock.monotonic_ms() + LIMITS.lock_ms
            for place in places:
                if self._locks.get(place, ("", 0))[0] == member.name:
                    self._locks[place] = member.name, until_ms
                member.held[place] = share, until_ms

    def _kind(self) -> int:
        draw = self._rng.random()
        return ACCEPT if draw < 0.6 else RELEASE if draw < 0.9 else REJECT

    # --- the end ----------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        self._states.is_faulty = False
        while not self._log.is_whole:
            self._log.grow()
        if self._leaders[-1].is_lost or self._rng.random() < 0.3:
            self._lead()
        for each in self._leaders[:-1]:
            each.lose()
        await self._idle()
        member = self._members[0]
        for _ in range(ROUNDS_MAX):
            self._timer.advance(LIMITS.lock_ms)
            await self._idle()
            left = self._history.unfinished({PLACE: self._log.values})
            if not left:
                break
            await self._take(member)
        else:
            self._wrong[f"never done: {', '.join(left[:3])}"] = None
        self._lead()
        await self._idle()
        await self._take(member)

    async def _take(self, member: _Member) -> None:
        """Fetch, and accept all of it."""
        member.share = self._leaders[-1]
        self._fetch(member)
        await self._idle()
        self._settle(member, [each for each in member.held if member.held[each][0] is member.share], ACCEPT)
        await self._idle()

    async def _idle(self) -> None:
        for _ in range(TURNS):
            await next_turn()
        while self._states.answer_one():
            for _ in range(TURNS):
                await next_turn()

    def _now_s(self) -> float:
        """Virtual time, in which no two moments are one."""
        self._ticks += 1
        return self._timer.clock.monotonic_ms() / 1000 + self._ticks / 1e9
