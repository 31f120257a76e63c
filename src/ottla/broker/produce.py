"""Writing for producers: one request may write to many partitions and is answered once, when all of them are decided.

With acks=1 a partition is decided when its records are written, with acks=all when they are committed. Whatever is not
decided when the producer's time is up is answered with REQUEST_TIMED_OUT: the records may still become committed.
With acks=0 nobody waits for an answer, so nothing is timed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.replication.batch_opener import WritableBuffer
from ottla.replication.partition import ACKS_NONE, Partition
from ottla.runtime.deadlines import Deadlines

OnProduced = Callable[[list[AppendAck]], None]

_TIMED_OUT = AppendAck(ErrorCode.REQUEST_TIMED_OUT, "the records were not acknowledged within the request's time")


class PartitionWrite(NamedTuple):
    """The records for one partition, or why they cannot be written."""

    partition: Partition | None
    records: WritableBuffer
    refusal: AppendAck | None = None


def _ignore(outcome: object) -> None:
    del outcome


class SingleProduction:
    """A produce request to one partition on its way, which most are."""

    __slots__ = ("_on_decided", "is_over")

    def __init__(self, on_decided: OnAck) -> None:
        self._on_decided = on_decided
        self.is_over = False
        """Whether the producer has its answer."""

    def decide(self, ack: AppendAck) -> None:
        """The partition is decided."""
        if not self.is_over:
            self.is_over = True
            # The deadlines may hold this for a while yet, but not the request.
            on_decided, self._on_decided = self._on_decided, _ignore
            on_decided(ack)

    def expire(self) -> None:
        """The producer's time is up."""
        self.decide(_TIMED_OUT)


class Production:
    """One produce request on its way: counts what is undecided and answers when nothing is."""

    __slots__ = ("_acks", "_on_produced", "_undecided", "is_over")

    def __init__(self, count: int, on_produced: OnProduced) -> None:
        self._acks: list[AppendAck | None] = [None] * count
        self._undecided = count
        self._on_produced = on_produced
        self.is_over = False
        """Whether the producer has its answer."""

    def decide(self, index: int, ack: AppendAck) -> None:
        """One partition is decided; the last one answers the request."""
        if self.is_over:
            return
        self._acks[index] = ack
        self._undecided -= 1
        if self._undecided == 0:
            self._answer()

    def expire(self) -> None:
        """The producer's time is up: answer with what is decided."""
        if not self.is_over:
            self._answer()

    def _answer(self) -> None:
        self.is_over = True
        on_produced, self._on_produced = self._on_produced, _ignore
        on_produced([ack if ack is not None else _TIMED_OUT for ack in self._acks])


def produce_one(
    partition: Partition,
    records: WritableBuffer,
    *,
    acks: int,
    timeout_ms: int,
    deadlines: Deadlines,
    on_buffer_free: Callable[[], None],
    on_decided: OnAck,
) -> None:
    """`produce` to a single partition; `on_decided` is called exactly once."""
    production = SingleProduction(on_decided)
    partition.role.append(records, acks=acks, on_ack=production.decide, on_buffer_free=on_buffer_free)
    if not production.is_over and acks != ACKS_NONE:
        deadlines.add(production, timeout_ms)


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
        write.partition.role.append(write.records, acks=acks, on_ack=on_ack, on_buffer_free=on_buffer_free)
    if not writes:
        on_produced([])
    elif not production.is_over and acks != ACKS_NONE:
        deadlines.add(production, timeout_ms)
