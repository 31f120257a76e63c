"""Batches that have to be opened before they may be appended: compressed ones of topics that ask for keys or a codec.

    appends of a partition    A (must be opened)   B   C (must be opened)   D          in the order they came
                              |                        |
    threads                   [ open A ........ ]      [ open C .. ]                   C may be done first
    the log                                     A B                  C D               never out of order

Opening takes milliseconds, so it is done in threads, without the GIL. Whatever comes to the partition meanwhile waits
behind in an `AppendQueue`, also what need not be opened: offsets and the sequence numbers of idempotent producers are
given in the order of arrival. docs/design/0009 has the reasons.

What is open at a time is bounded over all partitions (`OPEN_BYTES_MAX`), and so is how many wait (`WAITING_MAX`). Until
a batch is opened its request keeps its receive buffer, which counts as a request that is handled: when half of
`queued.max.request.bytes` wait here, nobody's next request is read.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo, TopicRules
from ottla.native.errors import KernelError
from ottla.replication.acknowledgement import AppendAck, OnAck
from ottla.replication.batch_refusal import refusal_of
from ottla.replication.transaction_verification import Verification
from ottla.runtime.tasks import Tasks
from ottla.storage.append_origin import AppendOrigin

logger = logging.getLogger(__name__)

THREADS_MAX: Final = 2
"""So many batches are opened at a time; the log I/O thread and the event loop want cores too."""

OPEN_BYTES_MAX: Final = 192 << 20
"""Memory of batches that are being opened, and of those written anew until the log has them: three times the largest
that is opened, which is what that takes, so that each finds room alone."""

WAITING_MAX: Final = 50_000
"""So many appends of all partitions wait; a request may name thousands of partitions with a few bytes for each."""

CODEC_BYTES_MAX: Final = THREADS_MAX * (65 << 20)
"""What the codecs of the threads keep for their tables: 65 MiB at the hardest level of zstd."""

WAITING_BYTES: Final = 1 << 10
"""What an append that waits takes beside its records."""

_STOPPED: Final = AppendAck(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stopped while the batch was opened")

WritableBuffer = bytearray | memoryview


Append = Callable[
    [WritableBuffer, Sequence[BatchInfo], int, OnAck, Callable[[], None], AppendOrigin, Verification | None], None
]
"""How a partition appends a batch whose turn it is: records, what was found in them, acks, on_ack, on_buffer_free,
origin and guard, as of `Leader.append`."""


class WaitingAppend:
    """One append that waits: for its batch to be opened, or for one before it. Its producer is answered once."""

    __slots__ = (
        "_on_ack",
        "_on_buffer_free",
        "acks",
        "batches",
        "error",
        "guard",
        "is_over",
        "is_ready",
        "now_ms",
        "on_ready",
        "origin",
        "records",
        "rules",
    )

    def __init__(
        self,
        records: WritableBuffer,
        batches: Sequence[BatchInfo] | None,
        rules: TopicRules,
        now_ms: int,
        acks: int,
        on_ack: OnAck,
        on_buffer_free: Callable[[], None] | None,
        origin: AppendOrigin,
        guard: Verification | None = None,
    ) -> None:
        """`batches` is None when `rules` have to open `records`."""
        self.records = records
        self.batches = batches
        self.rules = rules
        self.now_ms = now_ms
        self.acks = acks
        self.origin = origin
        self.guard = guard
        self.is_ready = batches is not None
        """Whether it need not be opened, or no longer."""
        self.error: KernelError | None = None
        """Why it cannot be appended, once it was opened."""
        self.is_over = False
        """Whether the producer has its answer."""
        self.on_ready: Callable[[], None] = _nothing
        self._on_ack = on_ack
        self._on_buffer_free = on_buffer_free

    def tell(self, ack: AppendAck) -> None:
        """Answer the producer, unless it was answered."""
        if self.is_over:
            return
        self.is_over = True
        try:
            self._on_ack(ack)
        except Exception:
            logger.exception("could not acknowledge records to a producer")

    def free(self) -> None:
        """The records are no longer needed."""
        on_free, self._on_buffer_free = self._on_buffer_free, None
        if on_free is not None:
            on_free()

    def ready(self) -> None:
        """Nothing more is done with the batch before its turn."""
        self.is_ready = True
        self.on_ready()

    def replace(self, records: bytearray, on_free: Callable[[], None]) -> None:
        """Go on with the batch as it was written anew; the one that came is free."""
        self.free()
        self.records = records
        self._on_buffer_free = on_free


def _nothing() -> None:
    pass


class BatchDecompressor:
    """Opens batches for all partitions of a broker, the longest waiting first. Belongs to the event loop."""

    __slots__ = ("_bytes_max", "_running", "_tasks", "_to_open", "_waiting_max", "open_bytes", "waiting_count")

    def __init__(self, tasks: Tasks, *, bytes_max: int = OPEN_BYTES_MAX, waiting_max: int = WAITING_MAX) -> None:
        """`tasks` are its own, with `THREADS_MAX` threads."""
        self._tasks = tasks
        self._bytes_max = bytes_max
        self._waiting_max = waiting_max
        self._to_open: deque[WaitingAppend] = deque()
        self._running: dict[WaitingAppend, asyncio.Task[None]] = {}
        self.open_bytes = 0
        """Memory of what is being opened, at most, and of what was written anew and is not in the log."""
        self.waiting_count = 0
        """How many appends wait in the queues of partitions."""

    @property
    def is_full(self) -> bool:
        """Whether no more appends may wait."""
        return self.waiting_count >= self._waiting_max

    def open(self, append: WaitingAppend) -> None:
        """Open the batch of `append`, now or later; then its `on_ready` is called, in another turn of the loop."""
        self._to_open.append(append)
        self._start()

    async def close(self) -> None:
        """Wait until no thread works on a batch. What was not begun is answered as from a broker that stopped."""
        self._to_open, unopened = deque(), self._to_open
        for append in unopened:
            append.ready()
        # Nobody is cancelled: a thread would go on with bytes that are no longer its request's.
        if self._running:
            await asyncio.wait(self._running.values())
        await self._tasks.close()

    def _start(self) -> None:
        while self._to_open and len(self._running) < THREADS_MAX:
            append = self._to_open[0]
            room = append.rules.open_bytes_max(append.records)
            if self.open_bytes and self.open_bytes + room > self._bytes_max:
                return
            self._to_open.popleft()
            if append.is_over:
                append.ready()
                continue
            self.open_bytes += room
            self._running[append] = self._tasks.spawn(self._open(append, room), "opening a batch")

    async def _open(self, append: WaitingAppend, room: int) -> None:
        try:
            rewritten, append.batches = await self._tasks.in_thread(append.rules.open, append.records, append.now_ms)
            if rewritten is not None:
                self._hold(append, rewritten)
        except KernelError as error:
            append.error = error
        finally:
            del self._running[append]
            self.open_bytes -= room
            append.ready()
            self._start()

    def _hold(self, append: WaitingAppend, rewritten: bytearray) -> None:
        size = len(rewritten)
        self.open_bytes += size

        def release() -> None:
            self.open_bytes -= size
            self._start()

        append.replace(rewritten, release)


class AppendQueue:
    """The appends of one partition from the first that has to be opened on. Belongs to the event loop."""

    __slots__ = ("_append", "_name", "_opener", "waiting")

    def __init__(self, name: TopicPartition, opener: BatchDecompressor, append: Append) -> None:
        self._name = name
        self._opener = opener
        self._append = append
        self.waiting: deque[WaitingAppend] = deque()
        """In the order they came; the first is being opened."""

    def add(self, append: WaitingAppend) -> None:
        """Have `append` wait its turn. The producer is told to try again when too many wait already."""
        if self._opener.is_full:
            append.free()
            append.tell(AppendAck(ErrorCode.REQUEST_TIMED_OUT, "too many batches wait to be opened; try again"))
            return
        append.on_ready = self._advance
        self.waiting.append(append)
        self._opener.waiting_count += 1
        if not append.is_ready:
            self._opener.open(append)

    def fail(self, error: ErrorCode, message: str) -> None:
        """Answer everybody with an error; nothing of theirs is appended. Buffers in the hands of a thread stay."""
        for append in tuple(self.waiting):
            append.tell(AppendAck(error, message))
        self._advance()

    def _advance(self) -> None:
        """Append what has its turn."""
        waiting = self.waiting
        while waiting and waiting[0].is_ready:
            append = waiting.popleft()
            self._opener.waiting_count -= 1
            if append.is_over or append.batches is None:
                append.free()
                append.tell(
                    _STOPPED if append.error is None else AppendAck.refused(refusal_of(self._name, append.error))
                )
                continue
            try:
                self._append(
                    append.records,
                    append.batches,
                    append.acks,
                    append.tell,
                    append.free,
                    append.origin,
                    append.guard,
                )
            except Exception:
                logger.exception("could not append a decompressed batch")
                append.free()
                append.tell(AppendAck(ErrorCode.UNKNOWN_SERVER_ERROR, "the append failed"))
