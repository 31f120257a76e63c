"""Writing for producers: one request may write to many partitions and is answered once, when all of them are decided.

With acks=1 a partition is decided when its records are written, with acks=all when they are committed. Whatever is not
decided when the producer's time is up is answered with REQUEST_TIMED_OUT: the records may still become committed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.model.error_code import ErrorCode
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import Partition, WritableBuffer
from ottla.runtime.timer import Timer
from ottla.runtime.timing_wheel import TimerTask

OnProduced = Callable[[list[AppendAck]], None]

_TIMED_OUT = AppendAck(ErrorCode.REQUEST_TIMED_OUT, "the records were not acknowledged within the request's time")


@dataclass(frozen=True, slots=True)
class PartitionWrite:
    """The records for one partition, or why they cannot be written."""

    partition: Partition | None
    records: WritableBuffer
    refusal: AppendAck | None = None


class Production:
    """One produce request on its way: counts what is undecided and answers when nothing is."""

    __slots__ = ("_acks", "_on_produced", "_timeout", "_undecided")

    def __init__(self, count: int, on_produced: OnProduced) -> None:
        self._acks: list[AppendAck | None] = [None] * count
        self._undecided = count
        self._on_produced: OnProduced | None = on_produced
        self._timeout: TimerTask | None = None

    @property
    def is_answered(self) -> bool:
        """Whether the producer has its answer."""
        return self._on_produced is None

    def decide(self, index: int, ack: AppendAck) -> None:
        """One partition is decided; the last one answers the request."""
        if self._on_produced is None:
            return
        self._acks[index] = ack
        self._undecided -= 1
        if self._undecided == 0:
            self._answer()

    def start_timer(self, timer: Timer, timeout_ms: int) -> None:
        """Answer at the latest in `timeout_ms`."""
        self._timeout = timer.schedule(timeout_ms, self._answer)

    def _answer(self) -> None:
        on_produced, self._on_produced = self._on_produced, None
        if on_produced is None:
            return
        timeout, self._timeout = self._timeout, None
        if timeout is not None:
            timeout.cancel()
        on_produced([ack if ack is not None else _TIMED_OUT for ack in self._acks])


def produce(
    writes: Sequence[PartitionWrite],
    *,
    acks: int,
    timeout_ms: int,
    timer: Timer,
    on_buffer_free: Callable[[], None],
    on_produced: OnProduced,
) -> None:
    """Append to every partition; `on_produced` is called exactly once with one acknowledgement a write, in order.

    `on_buffer_free` is called once for each write, when its records are no longer needed.
    """
    production = Production(len(writes), on_produced)
    for index, write in enumerate(writes):
        if write.partition is None or write.refusal is not None:
            on_buffer_free()
            production.decide(index, write.refusal or AppendAck(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue

        def on_ack(ack: AppendAck, index: int = index) -> None:
            production.decide(index, ack)

        write.partition.append(write.records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free)
    if not writes:
        on_produced([])
    elif not production.is_answered:
        production.start_timer(timer, timeout_ms)
