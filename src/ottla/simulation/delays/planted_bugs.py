"""Mistakes that delay topics could make, planted in what the broker runs: runs have to find each of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.queues.aborted_batches import AbortedBatches
from ottla.queues.delay import SCHEDULED, Headers, Progress, next_of_schedule
from ottla.server.delay_buckets import DelayBuckets
from ottla.server.delay_manifest import BucketRun
from ottla.server.delay_mover import DelayMover
from ottla.server.delay_outbox import DelayOutbox
from ottla.simulation.delays.delay_rules import MINUTE_MS
from ottla.simulation.delays.delay_writer import Requests, SimulatedProducer
from ottla.simulation.replacing import replaced

Plant = AbstractContextManager[Any]
MOVER: Final = "ottla.server.delay_mover"
BUCKETS: Final = "ottla.server.delay_buckets"
AHEAD_MS: Final = 400


class _Ahead:
    """A clock that is wrong."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.monotonic_ms = clock.monotonic_ms

    def now_ms(self) -> int:
        return int(self._clock.now_ms()) + AHEAD_MS


_move = DelayMover._move


async def _early(mover: DelayMover) -> bool:
    clock = mover._clock
    mover._clock = _Ahead(clock)
    try:
        return await _move(mover)
    finally:
        mover._clock = clock


_commit = DelayMover._commit


async def _progress_before_records(mover: DelayMover, producer: Any, last: tuple[int, int]) -> None:
    """The progress is committed with the next transaction, and is only then what a new leader finds."""
    offsets, send = [], producer.send_offsets_to_transaction

    async def later(found: Any, group: str) -> None:
        offsets.append((found, group))

    producer.send_offsets_to_transaction = later
    try:
        await _commit(mover, producer, last)
    finally:
        producer.send_offsets_to_transaction = send
    producer.begin_transaction()
    await send(*offsets[0])
    await producer.commit_transaction()


def _always(_mover: DelayMover) -> bool:
    return True


def _never_cut(progress: Progress, _log_end: int) -> Progress:
    return progress


def _point_too_far(*given: Any) -> Progress:
    progress = Progress(*given)
    return progress._replace(due_ms=progress.due_ms + AHEAD_MS) if given else progress


def _end_too_far(*given: Any) -> Progress:
    progress = Progress(*given)
    return progress._replace(end=progress.end + 1) if given else progress


def _nothing_waits(*given: Any) -> Progress:
    progress = Progress(*given)
    return progress._replace(low=progress.end) if given else progress


_has = AbortedBatches.has


def _never_aborted(batches: AbortedBatches, batch: Any) -> bool:
    _has(batches, batch)
    return False


def _run_too_long(number: int, start: int, end: int, *rest: Any) -> BucketRun:
    return BucketRun(number, start, end + 1, *rest)


_remove_spent = DelayBuckets.remove_spent


async def _last_file_of_each(buckets: DelayBuckets, index: Any, progress: Progress) -> None:
    for run in buckets._manifest.runs:
        run.files = run.files[:-1]
    await buckets._write(progress)
    await _remove_spent(buckets, index, progress)


def _same_time_again(key: bytes | None, headers: Headers, after_ms: int, place: int) -> tuple[int, Headers] | None:
    return next_of_schedule(key, headers, after_ms - MINUTE_MS, place)


def _no_place(key: bytes | None, headers: Headers, after_ms: int, place: int) -> tuple[int, Headers] | None:
    found = next_of_schedule(key, headers, after_ms, place)
    if found is None:
        return None
    return found[0], [(name, b"?" if name == SCHEDULED else value) for name, value in found[1]]


_sort = DelayOutbox.sort


def _not_replaced(outbox: DelayOutbox, records: Any) -> None:
    """A schedule is not cancelled when another one takes its place."""
    _sort(outbox, records)
    outbox._new_schedules = outbox._new_schedules[1::2]


def _without_letters(outbox: DelayOutbox, records: Any) -> None:
    _sort(outbox, records)
    outbox.letters = []


@classmethod  # type: ignore[misc]
async def _read_first(
    cls: Any, target: Any, requests: Requests, mover_epoch: int, popped: Any
) -> "tuple[SimulatedProducer, CommittedOffset | None]":
    """The progress is read before the producer before is fenced."""
    committed = await requests.ask(lambda answer: answer(target.committed))
    epoch = await requests.ask(target.become)
    return cls(target, requests, epoch, mover_epoch, popped), committed


_take_over = DelayMover._take_over


async def _from_memory(mover: DelayMover) -> None:
    """Who fails goes on from what it has sent, not from what was committed."""
    before = mover._progress
    await _take_over(mover)
    if before.end:
        mover._progress = before


async def _progress_kept_first(mover: DelayMover, producer: Any, last: tuple[int, int]) -> None:
    before = mover._progress
    mover._progress = Progress(before.low, *last, max(before.end, mover._position), before.delays)
    await _commit(mover, producer, last)


def _sent_is_delivered() -> Plant:
    stack = ExitStack()
    stack.enter_context(replaced(DelayMover, "_take_over", _from_memory))
    stack.enter_context(replaced(DelayMover, "_commit", _progress_kept_first))
    return stack


PLANTED: Final[dict[str, Callable[[], Plant]]] = {
    "delivered early": lambda: replaced(DelayMover, "_move", _early),
    "the progress is committed by itself": lambda: replaced(DelayMover, "_commit", _progress_before_records),
    "the progress is read before fencing": lambda: replaced(SimulatedProducer, "become", _read_first),
    "what was sent is taken for delivered": _sent_is_delivered,
    "the progress skips what is due next": lambda: replaced(MOVER, "Progress", _point_too_far),
    "the progress ends too far": lambda: replaced(MOVER, "Progress", _end_too_far),
    "the log begins behind what waits": lambda: replaced(MOVER, "Progress", _nothing_waits),
    "the progress outlives a cut": lambda: replaced(Progress, "cut_at", _never_cut),
    "delivers before the log is read": lambda: replaced(DelayMover, "_may_move", property(_always)),
    "delivers what was aborted": lambda: replaced(AbortedBatches, "has", _never_aborted),
    "a run has an offset that it has not read": lambda: replaced(BUCKETS, "BucketRun", _run_too_long),
    "files are removed that are needed": lambda: replaced(DelayBuckets, "remove_spent", _last_file_of_each),
    "a schedule has its time twice": lambda: replaced(
        "ottla.server.delay_outbox", "next_of_schedule", _same_time_again
    ),
    "a schedule forgets its place": lambda: replaced("ottla.server.delay_outbox", "next_of_schedule", _no_place),
    "a schedule that was replaced goes on": lambda: replaced(DelayOutbox, "sort", _not_replaced),
    "letters are dropped": lambda: replaced(DelayOutbox, "sort", _without_letters),
    "looks at the clock once an hour": lambda: replaced(MOVER, "LOOK_MS", 3_600_000),
    "tries again after a minute": lambda: replaced(MOVER, "RETRY_MS_MIN", 60_000),
}


def planted(name: str | None) -> Plant:
    """Has a bug as long as it is entered; None for none. Raises KeyError."""
    return nullcontext() if name is None else PLANTED[name]()
