"""What a producer is told of one partition's append, and the queue of those who wait for the high watermark."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Self

from msgspec import Struct

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.replication.batch_refusal import BatchRefusedError

logger = logging.getLogger(__name__)

_NOT_TOLD: Final = "could not acknowledge records to a producer"


class AppendAck(Struct, frozen=True):
    """The outcome of one append to one partition.

    `base_offset` is the offset of the first record, -1 after an error. `log_append_time_ms` is -1 unless the topic
    stamps records itself (`message.timestamp.type=LogAppendTime`). `record_errors` names records that are the reason of
    an error: the index in the batch, from 0, and what is wrong.
    """

    error: ErrorCode
    message: str | None = None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()

    @classmethod
    def refused(cls, error: ApiError) -> Self:
        """The outcome of an append that did not happen."""
        record_errors = error.record_errors if isinstance(error, BatchRefusedError) else ()
        return cls(error.code, error.message, record_errors=record_errors)


OnAck = Callable[[AppendAck], None]


class AckQueue:
    """Acknowledgements that wait until the high watermark has passed their last record.

    Appends enter in offset order, so the queue is sorted by construction and one look at its head is enough; a
    duplicate of an idempotent producer waits for an earlier offset and enters in its own place, which is why `add`
    looks at the tail. Who raises when he is told is logged; the others are told all the same.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, AppendAck, OnAck]] = deque()
        """The offset that each waits for, what it is told then, and how."""

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, required_offset: int, ack: AppendAck, on_ack: OnAck) -> None:
        """Have `on_ack` called with `ack` once the high watermark is at least `required_offset`."""
        waiting = self.waiting
        if not waiting or waiting[-1][0] <= required_offset:
            waiting.append((required_offset, ack, on_ack))
            return
        index = len(waiting)
        while index and waiting[index - 1][0] > required_offset:
            index -= 1
        waiting.insert(index, (required_offset, ack, on_ack))

    def complete(self, high_watermark: int) -> None:
        """Answer everybody whose records are committed, in offset order."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, ack, on_ack = waiting.popleft()
            try:
                on_ack(ack)
            except Exception:
                logger.exception(_NOT_TOLD)

    def fail(self, error: ErrorCode, message: str) -> None:
        """Answer everybody with an error: the records are not known to be committed and may or may not survive."""
        waiting, self.waiting = self.waiting, deque()
        for _, _, on_ack in waiting:
            try:
                on_ack(AppendAck(error, message))
            except Exception:
                logger.exception(_NOT_TOLD)
