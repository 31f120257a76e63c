"""The bucket files of a partition of a delay topic: what waits there and does not fit in memory.

Records that wait are gathered in memory. When that is full they are written, in the order in which they are due, as a
run of bucket files; runs that follow one another in the log are merged when there are many. What is due next is the
first of all of these, so each file is read once, in sequence, and memory does not grow with what waits.

    log    0 ................. 5000 ............... 9000 ........ 9800
    runs   | 0..5000 (3 files)  | 5000..9000 (1 file) | gathered  |       manifest: 0..5000, 5000..9000
    start  the runs are opened, and the log is read from 9000 on

The files are a copy. One that is lost or damaged is dropped with the runs behind it, and so are those of a log that was
cut; the log is read again from there on. They lie in the directory of the log and go with it.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn, ParamSpec, TypeVar

from ottla.native import BucketMerge, DelayIndex
from ottla.queues.delay import Progress
from ottla.runtime.disk import Disk
from ottla.runtime.environment import Environment
from ottla.server.delay_manifest import NAME, BucketRun, Manifest, Validity, manifest_bytes, manifest_of
from ottla.storage.log import Log

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

DIRECTORY: Final = "delays"
FAN_IN: Final = 16
"""So many runs of about the same size become one."""

SMALL_BYTES: Final = 32 << 20
"""Runs up to this size are the smallest."""

STEP_BYTES: Final = 2 << 20
"""A merge gives up its thread after so many bytes."""

CANCELS_MAX: Final = 500_000
"""With more cancellations in memory (25 MB) all runs are merged, without what is cancelled."""

APART_MAX: Final = CANCELS_MAX // 2
"""What is written of a schedule lies at most so many offsets behind what its writer had read: further back, it knew all
that is cancelled.
"""


class LostRunError(Exception):
    """A run that was to be merged cannot be read: what it has is to be read from the log again."""


def runs_to_merge(sizes: Sequence[int]) -> int:
    """How many runs, the last ones, are to become one; 0 for none."""
    limit = SMALL_BYTES
    while True:
        count = next((index for index, size in enumerate(reversed(sizes)) if size > limit), len(sizes))
        found = sizes[len(sizes) - count :]
        # A large one is not written again for the sake of small ones.
        if count >= FAN_IN and (limit == SMALL_BYTES or sum(found) >= 2 * max(found)):
            return count
        if count == len(sizes):
            return 0
        limit *= FAN_IN


def kept_end(log: Log, leader_epoch: int, led_before: int | None) -> int:
    """Where the log ends that was read in a leader epoch: it may have been cut and continued since. `led_before` is the
    epoch in which this broker leads, if it did so before it was started: what it has written since is in it as well.
    """
    _, end = log.epoch_end_offset(leader_epoch)
    end = log.log_end_offset if end < 0 else end
    return min(end, log.opened_end_offset) if leader_epoch == led_before else end


def valid_runs(
    manifest: Manifest, progress: Progress, low: int, log: Log, kept_end: Callable[[int], int] | None = None
) -> Validity:
    """The runs that are what the log and the progress have; `low` is where the log is read from without any. `kept_end`
    says where the log ends that was read in a leader epoch.
    """
    point = (progress.due_ms, progress.offset)
    if progress.end < manifest.moved[2] or point < manifest.moved[:2]:
        return Validity([], "less has been delivered than they say")
    kept: list[BucketRun] = []
    for run in manifest.runs:
        if not kept and run.end <= low:  # all of it was deleted, or has been delivered
            continue
        begins = run.start <= low if not kept else run.start == kept[-1].end
        end = log.log_end_offset if kept_end is None else min(log.log_end_offset, kept_end(run.epoch))
        if not begins or run.end > end or log.epoch_of_offset(run.end - 1) != run.epoch:
            return Validity(kept, f"the log is another one from below {run.end} on")
        if run.delays != progress.delays_between(run.start, run.end):
            return Validity(kept, "the default delay was changed")
        kept.append(run)
    return Validity(kept, "")


class DelayBuckets:
    """Belongs to the event loop; one method at a time. The index is used by nobody else meanwhile."""

    def __init__(self, log: Log, environment: Environment, disk: Disk, on_merged: Callable[[], None]) -> None:
        self._log = log
        self._environment = environment
        self._on_merged = on_merged
        self._directory = f"{log.directory}/{DIRECTORY}"
        self._disk = disk
        self._manifest = Manifest((0, 0))
        self._is_dir_made = self._is_closed = False
        self._merging: tuple[list[int], int, int, asyncio.Task[tuple[BucketMerge, OSError | None]]] | None = None

    async def load(
        self, progress: Progress, low: int, kept_end: Callable[[int], int] | None = None
    ) -> tuple[DelayIndex, int]:
        """The index with what the files have, and the offset from which on the log is to be read. Raises OSError."""
        in_thread = self._environment.tasks.in_thread
        rng = self._environment.rng
        found = await in_thread(self._read)
        self._manifest = found or Manifest((rng.randbelow(1 << 63), rng.randbelow(1 << 63)))
        kept, reason = valid_runs(self._manifest, progress, low, self._log, kept_end)
        index = DelayIndex(
            default_delays=list(progress.delays),
            seed=self._manifest.seed,
            moved_due=progress.due_ms,
            moved_offset=progress.offset,
            moved_end=progress.end,
        )
        for at, run in enumerate(kept):
            try:
                await in_thread(index.open_run, run.number, self._paths(run), run.end)
            except (OSError, ValueError) as error:
                kept, reason = kept[:at], str(error)
                break
        if reason and self._manifest.runs:
            logger.warning("%s: bucket files are written again: %s", self._log.topic_partition, reason)
        is_as_before = len(kept) == len(self._manifest.runs)
        self._manifest.runs = kept
        if found is not None and not is_as_before:
            await self._write(progress)
        await self._to_the_end(self._remove_unknown)
        return index, kept[-1].end if kept else low

    async def flush(self, index: DelayIndex, progress: Progress, position: int) -> None:
        """Write what is gathered, of what lies before `position`; nothing of it is on its way. Raises OSError.

        The log has not been cut since it was read.
        """
        epoch = self._log.epoch_of_offset(position - 1)
        if not self._is_dir_made:
            await self._to_the_end(self._make_directory)
            self._is_dir_made = True
        runs = self._manifest.runs
        start = runs[-1].end if runs else min(progress.low, position)
        number = self._number()
        path = f"{self._directory}/{number}.0"
        try:
            written = await self._to_the_end(index.flush, number, path, position)
        except OSError:
            await self._remove([Path(path).name])
            raise
        delays = progress.delays_between(start, position)
        runs.append(BucketRun(number, start, position, epoch, delays, [each.name for each in written]))
        await self._write(progress)

    async def settle(self, index: DelayIndex, progress: Progress, safe_offset: int) -> None:
        """Take a merge that has ended, or begin one that is due. Nothing is on its way. Raises OSError, LostRunError.

        Cancellations that were read from `safe_offset` on may concern records that have not been read.
        """
        if self._merging is None:
            await self._begin_merge(index, progress, safe_offset)
        elif self._merging[3].done():
            await self._take_merged(index, progress)

    async def remove_spent(self, index: DelayIndex, progress: Progress) -> None:
        """Remove files of which everything has been moved, as the committed progress says. Raises OSError."""
        merging = self._merging[0] if self._merging is not None else ()
        spent = []
        for run in self._manifest.runs:
            size = index.left_size(run.number)
            if run.number in merging or size is None or size[0] == len(run.files):
                continue
            names = [each.name for each in index.left(run.number) or ()]
            spent += [each for each in run.files if each not in names]
            run.files = names
        if spent:
            await self._write(progress)
            await self._remove(spent)

    async def drop_from(self, number: int, progress: Progress) -> None:
        """A run cannot be read: it and those behind it are to be written again."""
        runs = self._manifest.runs
        at = next((at for at, run in enumerate(runs) if run.number == number), 0)
        del runs[at:]
        await self._write(progress)

    async def close(self) -> None:
        """End what is under way."""
        self._is_closed = True
        if self._merging is not None:
            await asyncio.wait([self._merging[3]])
            self._merging = None

    async def has_many_unwritten(self, index: DelayIndex) -> bool:
        """Whether so many cancellations lie behind the last run that they are to be written, to be forgotten then."""
        runs = self._manifest.runs
        if not runs or index.cancel_count <= CANCELS_MAX:
            return False
        return await self._environment.tasks.in_thread(index.cancels_since, runs[-1].end) > CANCELS_MAX // 2

    @property
    def is_merging(self) -> bool:
        """Whether a merge is under way."""
        return self._merging is not None

    async def _begin_merge(self, index: DelayIndex, progress: Progress, safe_offset: int) -> None:
        runs = self._manifest.runs
        if not runs:
            return
        sizes = [left[1] for run in runs if (left := index.left_size(run.number)) is not None]
        count = runs_to_merge(sizes)
        if index.cancel_count > CANCELS_MAX:
            # Those behind the last run stay: a merge for their sake would be followed by the next one.
            end = min(safe_offset, index.cancels_from(runs[-1].end))
            staying = await self._environment.tasks.in_thread(index.cancels_since, end)
            if index.cancel_count - staying > CANCELS_MAX // 2:
                count = len(runs)
        if not count:
            return
        merged = runs[-count:]
        cancels_from = min(safe_offset, index.cancels_from(merged[-1].end)) if count == len(runs) else -1
        numbers, number = [run.number for run in merged], self._number()
        name = f"{self._directory}/{number}"
        try:
            merge = await self._environment.tasks.in_thread(index.merge, numbers, name, cancels_from)
        except OSError as error:
            await self._lose(numbers[0], progress, error)
        task = self._environment.tasks.spawn(self._merge(merge), f"merge buckets of {self._log.topic_partition}")
        self._merging = (numbers, number, cancels_from, task)

    async def _merge(self, merge: BucketMerge) -> tuple[BucketMerge, OSError | None]:
        try:
            while not self._is_closed and not await self._environment.tasks.in_thread(merge.step, STEP_BYTES):
                pass
        except OSError as error:
            return merge, error
        finally:
            self._on_merged()
        return merge, None

    async def _lose(self, number: int, progress: Progress, error: OSError) -> NoReturn:
        """Which of the runs that are merged cannot be read is not known: none of them is kept."""
        await self.drop_from(number, progress)
        raise LostRunError(f"bucket files are written again: {error}") from error

    async def _take_merged(self, index: DelayIndex, progress: Progress) -> None:
        assert self._merging is not None, "the caller has looked"
        numbers, number, cancels_from, task = self._merging
        self._merging = None
        merged, error = task.result()
        if error is not None:
            await self._to_the_end(self._remove_unknown)
            if merged.is_unreadable:
                await self._lose(numbers[0], progress, error)
            raise error
        paths = merged.paths
        await self._environment.tasks.in_thread(index.replace, numbers, number, paths, cancels_from)
        runs = self._manifest.runs
        at = next(at for at, run in enumerate(runs) if run.number == numbers[0])
        old = runs[at : at + len(numbers)]
        first, last = old[0], old[-1]
        delays = progress.delays_between(first.start, last.end)
        files = [each.name for each in paths]
        runs[at : at + len(numbers)] = [BucketRun(number, first.start, last.end, last.epoch, delays, files)]
        await self._write(progress)
        await self._remove([name for run in old for name in run.files])

    async def _to_the_end(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it in a thread, and do not go on before it has returned: others come into the directory after us."""
        tasks = self._environment.tasks

        async def call() -> tuple[T] | OSError:
            try:
                return (await tasks.in_thread(function, *args, **kwargs),)
            except OSError as error:  # the caller says so; a task that raises is logged as a crash
                return error

        done = tasks.spawn(call(), "delay bucket file")
        try:
            result = await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise
        if isinstance(result, OSError):
            raise result
        return result[0]

    def _number(self) -> int:
        number = self._manifest.next_number
        self._manifest.next_number += 1
        return number

    def _paths(self, run: BucketRun) -> list[str]:
        return [f"{self._directory}/{name}" for name in run.files]

    async def _write(self, progress: Progress) -> None:
        self._manifest.moved = (progress.due_ms, progress.offset, progress.end)
        path = f"{self._directory}/{NAME}"
        data = manifest_bytes(self._manifest)
        await self._to_the_end(self._disk.write_atomic, path, data)

    async def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            await self._to_the_end(self._disk.remove, f"{self._directory}/{name}")

    def _make_directory(self) -> None:
        """BLOCKING. Not that of a log which is deleted meanwhile."""
        if not self._disk.is_dir(self._log.directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._log.directory)
        self._disk.make_dir(self._directory)

    def _read(self) -> Manifest | None:
        try:
            content = self._disk.read_bytes(f"{self._directory}/{NAME}")
        except FileNotFoundError:
            return None
        self._is_dir_made = True
        found = manifest_of(content)
        if found is None:
            logger.warning("%s: bucket files are written again: their manifest is damaged", self._log.topic_partition)
            self._disk.remove(f"{self._directory}/{NAME}")  # or each start would say so while nothing is written
        return found

    def _remove_unknown(self) -> None:
        """BLOCKING."""
        try:
            names = self._disk.list_dir(self._directory)
        except FileNotFoundError:
            return
        known = {NAME, *(name for run in self._manifest.runs for name in run.files)}
        for name in names:
            if name not in known:
                self._disk.remove(f"{self._directory}/{name}")
