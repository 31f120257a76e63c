"""The result of a sent record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    import asyncio

NO_TIMESTAMP = -1


class RecordMetadata(NamedTuple):
    """Where a record was appended.

    `offset` is -1 with acks=0, because there is no response. `timestamp_ms` is the time that the topic assigned to the
    record, -1 if the topic keeps the sender's.
    """

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int


class BatchOutcome:
    """The fate of one batch, which all its records share. Settled once.

    A batch that had to be divided has the fates of its parts.
    """

    __slots__ = (
        "_base_offset",
        "_callbacks",
        "_error",
        "_parts",
        "_timestamp_ms",
        "_waiters",
        "done",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.done = False
        self._error: Exception | None = None
        self._base_offset = -1
        self._timestamp_ms = NO_TIMESTAMP
        self._parts: Sequence[tuple[int, BatchOutcome]] = ()
        self._waiters: list[asyncio.Future[None]] = []
        self._callbacks: list[Callable[[], None]] = []

    def succeed(self, base_offset: int, timestamp_ms: int) -> None:
        """The batch was appended, its first record at `base_offset` (-1: not known)."""
        self._base_offset = base_offset
        self._timestamp_ms = timestamp_ms
        self._settle()

    def fail(self, error: Exception) -> None:
        """The batch was given up."""
        self._error = error
        self._settle()

    def divide(self, parts: Sequence[tuple[int, BatchOutcome]]) -> None:
        """From now on these are the fates, each of the records from an index on; settled when all of them are."""
        self._parts = parts
        for _, part in parts:
            part.call_back(self._on_part)

    def error(self, index: int) -> Exception | None:
        """Why this record was given up; None when it was not."""
        fate, _ = self._fate(index)
        return fate._error

    def metadata(self, index: int) -> RecordMetadata:
        """Where this record was appended."""
        fate, place = self._fate(index)
        offset = fate._base_offset + place if fate._base_offset >= 0 else -1
        return RecordMetadata(self.topic_partition, offset, fate._timestamp_ms)

    def waiter(self) -> asyncio.Future[None]:
        """A new future that is done when the outcome is known."""
        # Here, where there is a loop: the blocking client has none, and each process of Spark's would load it.
        import asyncio

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        return future

    def call_back(self, callback: Callable[[], None]) -> None:
        """Call when the outcome is known."""
        self._callbacks.append(callback)

    @property
    def is_divided(self) -> bool:
        """Whether its records have the fates of parts."""
        return bool(self._parts)

    def _fate(self, index: int) -> tuple[BatchOutcome, int]:
        for start, part in reversed(self._parts):
            if index >= start:
                return part._fate(index - start)
        return self, index

    def _on_part(self) -> None:
        if all(part.done for _, part in self._parts):
            self._settle()

    def _settle(self) -> None:
        assert not self.done, "the outcome of a batch is known once"
        self.done = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Delivery:
    """One record on its way: await it for its `RecordMetadata`, or ask later. Many tasks may await it.

    Awaiting and `result` raise the error for which the producer gave up. A delivery that is never awaited costs
    nothing.
    """

    __slots__ = ("_index", "_outcome")

    def __init__(self, outcome: BatchOutcome, index: int) -> None:
        self._outcome = outcome
        self._index = index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._outcome.done:
            yield from self._outcome.waiter()
        return self.result()

    @property
    def done(self) -> bool:
        """Whether the fate of the record is known."""
        return self._outcome.done

    @property
    def error(self) -> Exception | None:
        """Why the record was given up; None while it is under way or when it was appended."""
        return self._outcome.error(self._index) if self._outcome.done else None

    @property
    def is_whole(self) -> bool:
        """Whether the batch of the record has one fate, as it was not divided."""
        return not self._outcome.is_divided

    def error_behind(self, count: int) -> Exception | None:
        """As `error`, of the record so many behind this one in an encoded batch."""
        return self._outcome.error(self._index + count) if self._outcome.done else None

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record goes."""
        return self._outcome.topic_partition

    def result(self) -> RecordMetadata:
        """Where the record is. Call it when `done`; raises why it was given up."""
        assert self._outcome.done, "the record is still under way"
        error = self._outcome.error(self._index)
        if error is not None:
            raise error
        return self._outcome.metadata(self._index)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call back once the fate is known, at once when it is. The callback must not block nor raise."""
        if self._outcome.done:
            callback(self)
        else:
            self._outcome.call_back(lambda: callback(self))
