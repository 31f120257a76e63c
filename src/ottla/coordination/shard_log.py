"""The write side of a shard: records of one turn of the loop become one append, and answers wait for it.

    step 1 -> records a, b; answer A         |  end of the turn:       committed:
    step 2 -> answer B, no records           |  append(batch a b c)    answers A, B, C leave
    step 3 -> record c; answer C             |

An answer without records waits as well, for what the shard wrote before it: it may tell of state that only exists in
those records.

Records of a transaction need a batch that names its producer, and a marker is a batch of its own. They are appended by
themselves, in the order of the steps:

    a, b, t (of producer 7), end of 7, c  ->  batch a b | transactional batch of 7: t | marker of 7 | batch c
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from ottla.coordination.limits import CoordinatorLimits
from ottla.coordination.outcome import Answer, TransactionEnd, Waiter, deliver
from ottla.model.error_code import ErrorCode
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.transaction_marker import TransactionMarker
from ottla.native import build_batch
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.runtime.environment import Environment
from ottla.storage.append_origin import AppendOrigin

logger = logging.getLogger(__name__)

RECORD_OVERHEAD_BYTES = 70
"""At most what a record takes beside key and value: varints, attributes, header count; the batch header is 61."""


class TransactionalEntry(Struct, frozen=True):
    """The key and the value of a record that is part of a producer's transaction; `guard` as in TransactionalRecord."""

    key: bytes
    value: bytes | None
    producer: ProducerIdentity
    guard: Any = None


LogEntry: TypeAlias = tuple[bytes, bytes | None] | TransactionalEntry | TransactionEnd
"""What is written: the key and the value of a record, one that is part of a transaction, or the end of one."""

_Row: TypeAlias = tuple[int, bytes, bytes | None, tuple[()]]


class _Run(Struct):
    """Records that follow each other and share a batch, as far as it holds them; or a marker."""

    producer: ProducerIdentity | None = None
    guard: Any = None
    rows: list[_Row] = field(default_factory=list)
    marker: TransactionMarker | None = None


class _Append:
    """Records on their way to the log, or collected for it, and the answers that rest on them."""

    __slots__ = ("answers", "runs", "unacknowledged")

    def __init__(self) -> None:
        self.runs: list[_Run] = []
        self.answers: list[tuple[Waiter, Answer]] = []
        self.unacknowledged = 1
        """How many runs are not committed yet."""

    def add(self, entry: LogEntry, now_ms: int) -> None:
        """Put an entry behind the others."""
        if isinstance(entry, TransactionEnd):
            self.runs.append(_Run(marker=entry.marker))
        elif isinstance(entry, TransactionalEntry):
            self._run_of(entry.producer, entry.guard).rows.append((now_ms, entry.key, entry.value, ()))
        else:
            key, value = entry
            self._run_of(None, None).rows.append((now_ms, key, value, ()))

    def _run_of(self, producer: ProducerIdentity | None, guard: Any) -> _Run:
        last = self.runs[-1] if self.runs else None
        if last is None or last.marker is not None or last.producer != producer or last.guard is not guard:
            last = _Run(producer, guard)
            self.runs.append(last)
        return last


class ShardLog:
    """Appends a shard's records and releases its answers in order. Belongs to the event loop; never blocks."""

    __slots__ = ("_closed", "_collected", "_environment", "_in_flight", "_limits", "_on_failure", "_partition")

    def __init__(
        self,
        partition: Partition,
        environment: Environment,
        limits: CoordinatorLimits,
        on_failure: Callable[[AppendAck], None],
    ) -> None:
        """`on_failure` is called when an append was refused or its fate is unknown; the owner closes the log then."""
        self._partition = partition
        self._environment = environment
        self._limits = limits
        self._on_failure = on_failure
        self._collected: _Append | None = None
        self._in_flight: deque[_Append] = deque()
        self._closed = False

    def write(self, entries: Sequence[LogEntry], answers: Sequence[tuple[Waiter, Answer]]) -> None:
        """Append the entries with those of this turn; give the answers once everything up to here is committed."""
        if entries:
            if self._collected is None:
                self._collected = _Append()
                self._environment.defer(self._flush)
            now_ms = self._environment.clock.now_ms()
            for entry in entries:
                self._collected.add(entry, now_ms)
        last = self._collected or (self._in_flight[-1] if self._in_flight else None)
        if last is None:
            deliver(answers)
        else:
            last.answers.extend(answers)

    def close(self, error: ErrorCode) -> None:
        """Tell everybody who still waits that it went wrong; whether their records survive is not known."""
        self._closed = True
        waiting, self._in_flight = self._in_flight, deque()
        if self._collected is not None:
            waiting.append(self._collected)
            self._collected = None
        for append in waiting:
            deliver([(waiter, type(answer)(error=error)) for waiter, answer in append.answers])

    def _flush(self) -> None:
        append, self._collected = self._collected, None
        if append is None:
            return
        self._in_flight.append(append)
        runs, append.runs = append.runs, []
        append.unacknowledged = len(runs)
        try:
            for run in runs:
                if self._closed:
                    return  # one before it was refused: what follows may rest on it
                self._append(run, lambda ack: self._on_ack(append, ack))
        except Exception as error:
            logger.exception("an internal error failed an append to %s", self._partition.topic_partition)
            self._on_ack(append, AppendAck(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    def _append(self, run: _Run, on_ack: Callable[[AppendAck], None]) -> None:
        if run.marker is not None:
            self._partition.append_marker(run.marker, on_ack)
            return
        batches = self._build(run.rows, run.producer)
        if run.producer is None:
            self._partition.append(batches, acks=ACKS_ALL, on_ack=on_ack, origin=AppendOrigin.COORDINATOR)
        else:
            self._partition.append(
                batches, acks=ACKS_ALL, on_ack=on_ack, origin=AppendOrigin.COORDINATOR, guard=run.guard
            )

    def _build(self, rows: Sequence[_Row], producer: ProducerIdentity | None) -> bytearray:
        """One batch, or as many as it takes so that none is larger than the topic allows."""
        batches = bytearray()
        start = size = 0
        for index, (_, key, value, _) in enumerate(rows):
            record_bytes = len(key) + (len(value) if value is not None else 0) + RECORD_OVERHEAD_BYTES
            if size and size + record_bytes > self._limits.batch_bytes_max:
                batches += _batch(rows[start:index], producer)
                start, size = index, 0
            size += record_bytes
        batches += _batch(rows[start:], producer)
        return batches

    def _on_ack(self, append: _Append, ack: AppendAck) -> None:
        if self._closed:
            return
        if ack.error is not ErrorCode.NONE:
            self._on_failure(ack)
            return
        append.unacknowledged -= 1
        while self._in_flight and self._in_flight[0].unacknowledged == 0:
            deliver(self._in_flight.popleft().answers)


def _batch(rows: Sequence[_Row], producer: ProducerIdentity | None) -> bytearray:
    """A batch of a transaction has no sequence numbers: coordinators write each record once (Kafka's too)."""
    if producer is None:
        return build_batch(rows)
    producer_id, producer_epoch = producer
    return build_batch(rows, producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True)
