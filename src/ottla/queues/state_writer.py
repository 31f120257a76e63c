"""Writes what changes in a delivery state to the share coordinator, one write at a time.

    settle, settle, time up  -->  waiting: change 1, change 2, -    --one write-->  coordinator
                                  what gathers meanwhile is the next one

A change is decided when its write is answered. Dead letters are written before the state that archives their records.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import DeliveryLedger
from ottla.queues.acknowledgements import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, Run, Settled
from ottla.queues.letters import LETTER_RETRY_MS, Letter, WriteLetters
from ottla.queues.share_limits import ShareLimits
from ottla.queues.share_state import ShareKey
from ottla.queues.share_state_shard import WriteState
from ottla.queues.share_states import ShareStates
from ottla.queues.state_batches import StateBatch, together
from ottla.replication.partition import Partition
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

logger = logging.getLogger(__name__)

LINGERING_MAX: Final = 500
"""When so many settlements wait to be stored together, they are stored at once."""

RUNS_AT_ONCE: Final = 1_000
"""So many runs of the ledger are looked at in one call."""

TOLD: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,  # it has no state any more
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a member is told when its settlement could not be stored."""

PASSING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The state can be written later; what was to be stored was undone."""


class StateWrite(NamedTuple):
    """One change: its number in the ledger, 0 for what cannot be undone, what records become, and who waits for it."""

    change: int
    batches: list[StateBatch]
    decided: "asyncio.Future[ErrorCode] | None" = None
    delay_ms: int = 0
    letters: tuple[Letter, ...] = ()
    settled: Sequence[Settled] = ()
    """How members settled the records, if they did."""

    def decide(self, error: ErrorCode) -> None:
        """Tell who waits for it."""
        if self.decided is not None and not self.decided.done():
            self.decided.set_result(TOLD.get(error, error))


class StateWriter:
    """Of one share partition. Belongs to the event loop."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        ledger: DeliveryLedger,
        states: ShareStates,
        state_epoch: int,
        leader_epoch: int,
        *,
        timer: Timer,
        tasks: Tasks,
        write_letters: WriteLetters | None,
        on_decided: Callable[[Sequence[StateWrite], ErrorCode], None],
        on_idle: Callable[[], None],
    ) -> None:
        """`on_decided` is called with what one answer decided, and is to `decide` each; `on_idle` whenever nothing is
        left to write.
        """
        self._key = key
        self._partition = partition
        self._ledger = ledger
        self._states = states
        self._state_epoch = state_epoch
        self._leader_epoch = leader_epoch
        self._timer = timer
        self._tasks = tasks
        self._write_letters = write_letters
        self._on_decided = on_decided
        self._on_idle = on_idle
        self._waiting: list[StateWrite] = []
        self._lingering: TimerTask | None = None
        self._is_writing = False
        self._is_closed = False
        self._stored_start = ledger.start_offset
        self._forgotten_below = 0
        """The highest start offset of the writes that failed since the last one that did not."""
        self.limits: ShareLimits | None = None
        """The settings of the group, which say where letters go."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to write."""
        return not self._is_writing and not self._waiting

    @property
    def is_start_stored(self) -> bool:
        """Whether it is stored that what lies below the start of the ledger is done."""
        return self._stored_start >= self._ledger.start_offset

    def write(self, write: StateWrite, linger_ms: int = 0) -> None:
        """Write a change, with what waits already; it may wait for so long for more, or for `store_now`."""
        self._waiting.append(write)
        if not linger_ms or len(self._waiting) >= LINGERING_MAX:
            self._write_soon()
        elif self._lingering is None and not self._is_writing:
            self._lingering = self._timer.schedule(linger_ms, self._write_soon)

    def write_later(self, becomes: Sequence[Run], letters: tuple[Letter, ...] = ()) -> None:
        """Write what nobody waits for."""
        self.write(StateWrite(0, [StateBatch(*run) for run in becomes], letters=letters))

    def store_now(self) -> None:
        """Write what waits for more."""
        if self._lingering is not None:
            self._write_soon()

    def close(self) -> None:
        """Write no more; who waits is sent to look for the leader."""
        self._is_closed = True
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        waiting, self._waiting = self._waiting, []
        for write in waiting:
            write.decide(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _write_soon(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if not self._is_writing and not self._is_closed:
            self._is_writing = True
            self._tasks.spawn(self._write_all(), "share-state")

    async def _write_all(self) -> None:
        try:
            while self._waiting and not self._is_closed:
                writes, self._waiting = self._waiting, []
                await self._write(writes)
        finally:
            self._is_writing = False
            self._on_idle()

    async def _write(self, writes: list[StateWrite]) -> None:
        writes = await self._with_letters(writes)
        if not writes:
            return
        if self._is_closed:
            self._on_decided(writes, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        start_after = self._ledger.start_after([write.change for write in writes if write.change])
        request = WriteState(
            self._key,
            self._state_epoch,
            self._leader_epoch,
            start_after,
            self._complete_after(writes, start_after),
            together([*self._forgotten(start_after), *(batch for write in writes for batch in write.batches)]),
        )
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            error = (await self._states.write(request)).error
        finally:
            if error is ErrorCode.NONE:
                self._forgotten_below, self._stored_start = 0, start_after
            else:
                self._forgotten_below = max(self._forgotten_below, start_after)
            self._on_decided(writes, error)

    def _forgotten(self, start_after: int) -> list[StateBatch]:
        """What has to be written again, as a write that was undone here may have been stored all the same.

        With its start offset the coordinator forgot what was done below it, and the start goes back now.
        """
        found: list[StateBatch] = []
        at = start_after
        while at < self._forgotten_below:
            runs = self._ledger.runs(at, RUNS_AT_ONCE)
            if not runs:
                break
            found += [_as_stored(*run) for run in runs if run[0] < self._forgotten_below]
            at = runs[-1][1] + 1
        return found

    def _complete_after(self, writes: Sequence[StateWrite], start_after: int) -> int:
        """How many records from the start on are done when these writes are."""
        ledger = self._ledger
        start, done = ledger.start_offset, 0
        for write in writes:
            if write.change:
                for first, last, state, *_ in write.batches:
                    if state in (ACKNOWLEDGED, ARCHIVED) and last >= start:
                        done += last - max(first, start) + 1
        return ledger.end_offset - start_after - (ledger.unfinished_count - done)

    async def _with_letters(self, writes: list[StateWrite]) -> list[StateWrite]:
        """Write the letters that belong to writes. Returns the writes whose letters are written: the others are undone,
        or, when they cannot be, tried again later.
        """
        limits, write_letters = self.limits, self._write_letters
        if write_letters is None or limits is None or not any(write.letters for write in writes):
            return writes
        letters = [letter for write in writes for letter in write.letters]
        try:
            await write_letters(self._key, self._partition, letters, limits)
        except ApiError as error:
            failed = [write for write in writes if write.letters]
            logger.warning(
                "%d dead letters of share group %s could not be written to %s yet: %s",
                len(letters),
                self._key.group_id,
                limits.letters_topic,
                error,
            )
            self._on_decided([write for write in failed if write.change], ErrorCode.REQUEST_TIMED_OUT)
            later = [write for write in failed if not write.change]
            if later:
                self._timer.schedule(LETTER_RETRY_MS, partial(self._write_again, later))
            return [write for write in writes if not write.letters]
        return writes

    def _write_again(self, writes: list[StateWrite]) -> None:
        self._waiting += writes
        self._write_soon()


def _as_stored(first: int, last: int, state: int, deliveries: int) -> StateBatch:
    """A run of the ledger as it is written: a delivery counts when it ends."""
    if state == ACQUIRED:
        return StateBatch(first, last, AVAILABLE, max(0, deliveries - 1))
    return StateBatch(first, last, state, deliveries)
