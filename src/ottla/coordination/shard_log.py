"""The write side of a shard: records of one turn of the loop become one append, and answers wait for it.

    step 1 -> records a, b; answer A         |  end of the turn:       committed:
    step 2 -> answer B, no records           |  append(batch a b c)    answers A, B, C leave
    step 3 -> record c; answer C             |

An answer without records waits as well, for what the shard wrote before it: it may tell of state that only exists in
those records.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from ottla.coordination.environment import Environment
from ottla.coordination.outcome import Answer, Waiter, deliver
from ottla.model.error_code import ErrorCode
from ottla.native import build_batch
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.storage.append_origin import AppendOrigin

logger = logging.getLogger(__name__)

RECORD_OVERHEAD_BYTES = 70
"""At most what a record takes beside key and value: varints, attributes, header count; the batch header is 61."""


class _Append:
    """Records on their way to the log, or collected for it, and the answers that rest on them."""

    __slots__ = ("answers", "done", "records")

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes, bytes | None, tuple[()]]] = []
        self.answers: list[tuple[Waiter, Answer]] = []
        self.done = False


class ShardLog:
    """Appends a shard's records and releases its answers in order. Belongs to the event loop; never blocks."""

    __slots__ = ("_closed", "_collected", "_environment", "_in_flight", "_on_failure", "_partition")

    def __init__(self, partition: Partition, environment: Environment, on_failure: Callable[[AppendAck], None]) -> None:
        """`on_failure` is called when an append was refused or its fate is unknown; the owner closes the log then."""
        self._partition = partition
        self._environment = environment
        self._on_failure = on_failure
        self._collected: _Append | None = None
        self._in_flight: deque[_Append] = deque()
        self._closed = False

    def write(self, records: Sequence[tuple[bytes, bytes | None]], answers: Sequence[tuple[Waiter, Answer]]) -> None:
        """Append the records with those of this turn; give the answers once everything up to here is committed."""
        if records:
            if self._collected is None:
                self._collected = _Append()
                self._environment.defer(self._flush)
            now_ms = self._environment.clock.now_ms()
            self._collected.records.extend((now_ms, key, value, ()) for key, value in records)
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
        try:
            batches = self._build(append.records)
            append.records = []
            self._partition.append(
                batches, acks=ACKS_ALL, on_ack=lambda ack: self._on_ack(append, ack), origin=AppendOrigin.COORDINATOR
            )
        except Exception as error:
            logger.exception("an append to %s failed inside the broker", self._partition.topic_partition)
            self._on_ack(append, AppendAck(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))

    def _build(self, records: list[tuple[int, bytes, bytes | None, tuple[()]]]) -> bytearray:
        """One batch, or as many as it takes so that none is larger than the topic allows."""
        batches = bytearray()
        start = size = 0
        for index, (_, key, value, _) in enumerate(records):
            record_bytes = len(key) + (len(value) if value is not None else 0) + RECORD_OVERHEAD_BYTES
            if size and size + record_bytes > self._environment.limits.batch_bytes_max:
                batches += build_batch(records[start:index])
                start, size = index, 0
            size += record_bytes
        batches += build_batch(records[start:])
        return batches

    def _on_ack(self, append: _Append, ack: AppendAck) -> None:
        if self._closed:
            return
        if ack.error is not ErrorCode.NONE:
            self._on_failure(ack)
            return
        append.done = True
        while self._in_flight and self._in_flight[0].done:
            deliver(self._in_flight.popleft().answers)
