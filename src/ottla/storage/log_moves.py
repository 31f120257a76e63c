r"""Moving logs from one data directory to another while they are written and read (KIP-113).

asked for --> copied into a future log --> caught up --> swapped (`log_swap`)
          \-- cancelled, failed, the log deleted --> the future log is removed
          \-- the log was cut or loaded again --> copied anew

After a restart a move that was under way is begun anew: the future log that is found says that it was wanted. So there
is one, though an empty one, for those that wait as well.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native.errors import KernelError
from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.compaction.pace import Pace
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.log import Log
from ottla.storage.log_locks import LogLocks

if TYPE_CHECKING:
    from ottla.storage.log_copy import LogCopy

logger: Final = logging.getLogger(__name__)

HoldAppends = Callable[[Log], Callable[[], None]]
"""Has the appends of a log wait, until what it returns is called."""

UNLIMITED: Final = float("inf")


class LogMove:
    """One log on its way, or waiting for its turn."""

    __slots__ = ("begun", "future", "is_wanted", "log", "source", "target", "task")

    def __init__(self, log: Log, source: DirectoryLogs, target: DirectoryLogs) -> None:
        self.log = log
        self.source = source
        self.target = target
        self.future: Log | None = None
        """The copy, once there is one."""
        self.is_wanted = True
        self.task: asyncio.Task[None] | None = None
        self.begun: asyncio.Future[OSError | ApiError | KernelError | None] = asyncio.get_running_loop().create_future()
        """Done when a restart would go on with the move, or when it has ended: with what stood in its way, if that."""

    @property
    def copied_bytes(self) -> int:
        """How large the copy is."""
        return 0 if self.future is None else self.future.size

    @property
    def lag(self) -> int:
        """How many offsets are not copied."""
        copied = self.log.log_start_offset if self.future is None else self.future.log_end_offset
        return max(0, self.log.log_end_offset - copied)


class LogMoves:
    """The moves of one broker: as many at a time as it has directories, the others wait. Belongs to the event loop."""

    def __init__(
        self, directories: Sequence[DirectoryLogs], locks: LogLocks, clock: Clock, timer: Timer, tasks: Tasks
    ) -> None:
        self.hold_appends: HoldAppends = _hold_nothing
        self.on_moved: Callable[[Log], object] = _nobody_is_told
        """Called when a log lies in another directory."""
        self._bytes_per_second = UNLIMITED
        self._locks = locks
        self._clock = clock
        self._tasks = tasks
        self._pace = Pace(clock, timer)
        self._free_turns = len(directories)
        self._waiting: dict[LogMove, asyncio.Future[bool]] = {}
        """Who waits for its turn to copy, in the order of coming; False for one that is not wanted any more."""
        self._moves: dict[TopicPartition, LogMove] = {}
        self._is_stopping = False

    def find(self, topic_partition: TopicPartition) -> LogMove | None:
        """The move of a log, or None."""
        return self._moves.get(topic_partition)

    def all(self) -> tuple[LogMove, ...]:
        """All moves that are under way or wait."""
        return tuple(self._moves.values())

    def configure(self, bytes_per_second: float) -> None:
        """How much all moves together copy in a second."""
        if bytes_per_second != self._bytes_per_second:
            self._bytes_per_second = bytes_per_second
            self._pace.forgive()

    def start(self, log: Log, source: DirectoryLogs, target: DirectoryLogs) -> LogMove:
        """Begin to move a log that is not being moved."""
        assert log.topic_partition not in self._moves, "one move at a time"
        move = self._moves[log.topic_partition] = LogMove(log, source, target)
        move.task = self._tasks.spawn(self._run(move), f"move {log.topic_partition} to {target.path}")
        return move

    async def cancel(self, topic_partitions: Collection[TopicPartition]) -> None:
        """End the moves of these logs and remove their copies; one that is being swapped ends in its new place."""
        ending = [move for name in topic_partitions if (move := self._moves.get(name)) is not None]
        if ending:
            for move in ending:
                move.is_wanted = False
                self._pace.wake(move)
                turn = self._waiting.pop(move, None)
                if turn is not None and not turn.done():
                    turn.set_result(False)
            await asyncio.gather(*(move.task for move in ending if move.task is not None), return_exceptions=True)

    async def stop(self) -> None:
        """End all moves where they are; the next start begins them anew."""
        self._is_stopping = True
        await self.cancel(tuple(self._moves))

    async def _run(self, move: LogMove) -> None:
        name = move.log.topic_partition
        try:
            while move.is_wanted and not await self._try(move):
                async with self._locks.hold([name]):
                    pass  # whoever changes the log is done with it
        except (OSError, ApiError, KernelError) as error:
            where = move.log.directory
            logger.error("could not move %s to %s, it stays in %s: %s", name, move.target.path, where, error)
            _settle(move, error)
        finally:
            self._moves.pop(name, None)
            _settle(move, None)

    async def _try(self, move: LogMove) -> bool:
        """Copy and swap; False when that has to begin anew."""
        from ottla.storage.log_copy import LogCopy, StaleCopyError, first_offset_of  # late: few brokers move anything

        begun_ms = self._clock.monotonic_ms()
        try:
            await move.target.cleaned.checkpoint.forget([move.log.topic_partition])
            first_offset = await first_offset_of(move.log, move.source.resources.in_thread)
            move.future = await move.target.futures.begin(move.log, first_offset)
            _settle(move, None)
            copy = LogCopy(move.log, move.future, move.target.resources.in_thread)
            if await self._turn(move):
                try:
                    await self._copy_and_swap(move, copy, move.future)
                finally:
                    self._pass_turn_on()
        except StaleCopyError:
            return not move.source.holds(move.log)
        finally:
            if move.future is not None:
                future, move.future = move.future, None
                await move.target.futures.remove(future, keep_files=self._is_stopping)
        if move.target.holds(move.log):
            took_ms = self._clock.monotonic_ms() - begun_ms
            logger.info("moved %s to %s in %d ms", move.log.topic_partition, move.target.path, took_ms)
            await move.source.cleaned.checkpoint.forget([move.log.topic_partition])
            self.on_moved(move.log)
        return True

    async def _turn(self, move: LogMove) -> bool:
        """Wait until the log may be copied; False when it is not to be moved any more."""
        if not move.is_wanted:
            return False  # who cancels it wakes only who waits already
        if self._free_turns:
            self._free_turns -= 1
            return True
        turn = self._waiting[move] = asyncio.get_running_loop().create_future()
        has_turn: bool = await turn
        return has_turn

    def _pass_turn_on(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(next(iter(self._waiting)))
            if not turn.done():
                turn.set_result(True)
                return
        self._free_turns += 1

    async def _copy_and_swap(self, move: LogMove, copy: "LogCopy", future: Log) -> None:
        from ottla.storage.log_copy import StaleCopyError
        from ottla.storage.log_swap import LogSwap

        is_flushed = False
        while move.is_wanted:
            if not move.source.holds(move.log):
                raise StaleCopyError
            try:
                copied = await copy.step(self._clock.now_ms())
            except ApiError as error:
                if move.log.topic_partition in self._locks.held:
                    raise StaleCopyError from error
                raise
            if copied and move.is_wanted:  # as in `_turn`
                await self._pace.spend(copied, self._bytes_per_second, move)
            if copy.has_more(copied):
                is_flushed = False
            elif not is_flushed:
                await future.flush()
                is_flushed = True
            else:
                swap = LogSwap(copy, move.source, move.target, self._locks, self.hold_appends, self._clock)
                await swap.run()
                return


def _settle(move: LogMove, error: OSError | ApiError | KernelError | None) -> None:
    if not move.begun.done():
        move.begun.set_result(error)


def _hold_nothing(log: Log) -> Callable[[], None]:
    del log
    return lambda: None


def _nobody_is_told(log: Log) -> None:
    del log
