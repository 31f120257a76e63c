"""What the mover's producer writes to: the coordinator of its transactions, the target and the letters.

A request reaches the coordinator some time after it was sent, or never, or after its sender has given up; its answer
may be lost. The one of an epoch before is refused. A request that is sent again has its effect once.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from ottla.client.consuming.group_offsets import CommittedOffset
from ottla.client.errors import BrokerError, ClientError, ProducerFencedError, TopicNotFoundError
from ottla.model.error_code import ErrorCode
from ottla.native import decode_records
from ottla.queues.dead_letter import letters_topic_of
from ottla.runtime.rng import Rng
from ottla.simulation.delays.delay_log import PLACE, LogBatch
from ottla.simulation.delays.delay_replicas import Replicas
from ottla.simulation.whole.event_loop import SimulatedLoop

TARGET: Final = "jobs"
LETTERS: Final = letters_topic_of(PLACE.topic)
MARKER_S_MAX: Final = 0.02
SLOW_S_MAX: Final = 2.0
POLL_S: Final = 0.003
AGAIN_S: Final = 0.05
DECOMPRESSED_BYTES_MAX: Final = 1 << 24
FIRST_PRODUCER_ID: Final = 1_000_000

Answer = Callable[[object], None]
"""Called with what was asked for, or with an exception."""


class RetryError(Exception):
    """Not yet: the request is to be sent again."""


class Row(Struct):
    """A record in the target, or a letter."""

    topic: str
    partition: int
    value: bytes
    timestamp_ms: int

    @property
    def is_letter(self) -> bool:
        """Whether it says why a record was not delivered."""
        return self.topic == LETTERS


class MoverTransaction(Struct):
    """What one transaction writes."""

    epoch: int
    mover_epoch: int
    """The leader epoch of the broker that moves."""
    popped_ms: int
    clock_ms: int
    """The wall clock of that broker when it took what is due."""
    rows: list[Row] = field(default_factory=list)
    offset: CommittedOffset | None = None
    has_batches: bool = False
    """Whether it has written to the delay topic itself."""
    is_committed: bool | None = None
    """None while it is open."""
    is_done: bool = False
    """Whether all markers are written."""


class DelayTarget:
    """Belongs to the world."""

    def __init__(self, loop: SimulatedLoop, rng: Rng, replicas: Replicas, partition_count: int) -> None:
        self._loop = loop
        self._rng = rng
        self._replicas = replicas
        self.partition_count = partition_count
        self.is_there = True
        """Whether the target exists."""
        self.slow_chance = 0.0
        """How often markers come late."""
        self.epoch = 0
        self.committed: CommittedOffset | None = None
        self.transactions: list[MoverTransaction] = []
        self.on_decided: Callable[[MoverTransaction], None] = lambda _: None
        self.on_progress: Callable[[CommittedOffset], None] = lambda _: None
        self._answered: dict[int, object] = {}
        self._requests = 0

    def request_id(self) -> int:
        """A number for a request, which all its attempts have."""
        self._requests += 1
        return self._requests

    @property
    def open(self) -> MoverTransaction | None:
        """The transaction that has no end yet, or not all of its markers."""
        last = self.transactions[-1] if self.transactions else None
        return last if last is not None and not last.is_done else None

    # --- requests ---------------------------------------------------------------------------------------------------

    def become(self, answer: Answer) -> None:
        """Raise the epoch, once what the producer before had begun has ended."""
        before = self.open
        if before is not None:
            if before.is_committed is None:
                self._decide(before, is_committed=False)
            answer(RetryError())
            return
        self.epoch += 1
        answer(self.epoch)

    def committed_offset(self, answer: Answer) -> None:
        """The progress, once nothing is open."""
        answer(self.committed if self.open is None else RetryError())

    def produce(
        self, request: int, of: MoverTransaction, topic: str, partition: int, batch: bytes, answer: Answer
    ) -> None:
        """Write a batch as part of a transaction."""
        if not self._may(request, of, answer):
            return
        records = decode_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
        if topic == PLACE.topic:
            of.has_batches = True
            given = [record[1:] for record in records]
            self._answered[request] = RetryError()  # until it is committed

            def written(found: LogBatch) -> None:
                self._wait(request, of, found, answer, lambda: self._replicas.append(given, self._pid(of), written))

            self._replicas.append(given, self._pid(of), written)
            return
        if topic == TARGET and not self.is_there:
            answer(TopicNotFoundError(topic))
            return
        of.rows += [Row(topic, partition, value or b"", timestamp) for _, timestamp, _, value, _ in records]
        self._answered[request] = 0
        answer(0)

    def _wait(
        self, request: int, of: MoverTransaction, batch: LogBatch, answer: Answer, again: Callable[[], None]
    ) -> None:
        """Answer when the batch is committed; it is written again if a new leader has not got it."""
        is_committed = self._replicas.is_committed(batch)
        if is_committed:
            self._answered[request] = batch.base_offset
            answer(batch.base_offset)
        elif is_committed is None and of.is_committed is None:
            again()
        elif is_committed is not None:
            self._loop.in_world(POLL_S, self._wait, request, of, batch, answer, again)

    def commit_offset(self, request: int, of: MoverTransaction, offset: CommittedOffset, answer: Answer) -> None:
        """Commit the progress as part of a transaction."""
        if self._may(request, of, answer):
            of.offset = offset
            self._answered[request] = None
            answer(None)

    def end(self, commits: bool, request: int, of: MoverTransaction, answer: Answer) -> None:
        """Commit or abort a transaction; the answer is the next epoch."""
        if of.is_committed is commits and self.epoch == of.epoch + 1:
            answer(self.epoch)
        elif self._may(request, of, answer):
            self._decide(of, is_committed=commits)
            self.epoch += 1
            answer(self.epoch)

    def _may(self, request: int, of: MoverTransaction, answer: Answer) -> bool:
        """Whether a request is to have its effect now; else it is answered."""
        if of.epoch != self.epoch or of.is_committed is not None:
            answer(ProducerFencedError("deliver", "another epoch"))
        elif request in self._answered:
            answer(self._answered[request])
        elif self.open not in (None, of):
            answer(RetryError())  # the markers of the one before
        else:
            if self.open is None:
                self.transactions.append(of)
            return True
        return False

    def _pid(self, of: MoverTransaction) -> int:
        return FIRST_PRODUCER_ID + of.epoch

    def _decide(self, of: MoverTransaction, *, is_committed: bool) -> None:
        of.is_committed = is_committed
        self.on_decided(of)
        is_slow = self._rng.random() < self.slow_chance
        way_s = self._rng.uniform(0.0, SLOW_S_MAX if is_slow else MARKER_S_MAX)
        self._loop.in_world(way_s, self._write_markers, of)

    def _write_markers(self, of: MoverTransaction) -> None:
        if of.has_batches:
            self._replicas.end_transaction(self._pid(of), bool(of.is_committed), lambda: self._done(of))
        else:
            self._done(of)

    def _done(self, of: MoverTransaction) -> None:
        if of.is_committed and of.offset is not None:
            self.committed = of.offset
            self.on_progress(of.offset)
        of.is_done = True


def refusal(error: object) -> ClientError:
    """What the client raises."""
    if isinstance(error, ClientError):
        return error
    return BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"no answer: {error}")
