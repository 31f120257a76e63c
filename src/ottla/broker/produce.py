"""Writing for producers: one request may write to many partitions and is answered once, when all of them are decided.

With acks=1 a partition is decided when its records are written, with acks=all when they are committed. Whatever is not
decided when the producer's time is up is answered with REQUEST_TIMED_OUT: the records may still become committed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import Partition, WritableBuffer
from ottla.runtime.deadlines import Deadlines

OnProduced = Callable[[list[AppendAck]], None]

_TIMED_OUT = AppendAck(ErrorCode.REQUEST_TIMED_OUT, "the records were not acknowledged within the request's time")


class PartitionWrite(NamedTuple):
    """The records for one partition, or why they cannot be written."""

    partition: Partition | None
    records: WritableBuffer
    refusal: AppendAck | None = None


class Production:
    """One produce request on its way: counts what is undecided and answers when nothing is."""

    __slots__ = ("_acks", "_on_produced", "_undecided")

    def __init__(self, count: int, on_produced: OnProduced) -> None:
        self._acks: list[AppendAck | None] = [None] * count
        self._undecided = count
        self._on_produced: OnProduced | None = on_produced

    @property
    def is_over(self) -> bool:
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

    def expire(self) -> None:
        """The producer's time is up: answer with what is decided."""
        if self._on_produced is not None:
            self._answer()

    def _answer(self) -> None:
        on_produced, self._on_produced = self._on_produced, None
        assert on_produced is not None
        on_produced([ack if ack is not None else _TIMED_OUT for ack in self._acks])


def produce(
    writes: Sequence[PartitionWrite],
    *,
    acks: int,
    timeout_ms: int,
    deadlines: Deadlines,
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
        on_ack = partial(production.decide, index)
        write.partition.append(write.records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free)
    if not writes:
        on_produced([])
    elif not production.is_over:
        deadlines.add(production, timeout_ms)
