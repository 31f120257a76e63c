"""What one step of a coordinator decides: records to write, answers to give, messages to send, timers to set."""

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from msgspec import Struct, field

from ottla.model.error_code import ErrorCode
from ottla.model.producer_identity import ProducerIdentity
from ottla.model.transaction_marker import TransactionMarker

logger = logging.getLogger(__name__)


class Answer(Struct, frozen=True):
    """What a request is told. Every kind of answer can be made of an error alone: `type(answer)(error=...)`."""

    error: ErrorCode = ErrorCode.NONE


Waiter = Callable[[Any], None]
"""Whoever waits for an answer, as a callable that takes it; it is called exactly once."""

Send = Callable[[Any], None]
"""Takes a message of an outcome to another coordinator, or another broker."""


def send_nothing(message: Any) -> None:
    """For coordinators that have nothing to say to others."""
    raise AssertionError(f"nobody takes the message {message!r}")


class TransactionalRecord(Struct, frozen=True):
    """A record that holds only when the transaction of a producer is committed (TxnOffsetCommit).

    `guard` is what the partition asks for at the append of the first record of a transaction: that its coordinator
    knows of it. None when the transaction is open in the partition already.
    """

    record: Any
    producer: ProducerIdentity
    guard: Any = None


class TransactionEnd(Struct, frozen=True):
    """The marker that ends a producer's transaction in this partition; it is written in the order of the records."""

    marker: TransactionMarker


class Outcome(Struct):
    """The effects of one step, as a value. A step changes nothing outside its shard; the runtime carries this out.

    `records` are applied by `CoordinatorShard.replay` and appended to the log, in order; a `TransactionalRecord` or a
    `TransactionEnd` among them goes to `replay_transactional` or `replay_transaction_end` instead. `answers` leave when
    those records, and all that the shard wrote before them, are committed: no client hears of what a crash may take
    back. A waiter may be any that the shard was given, now or in an earlier step. `messages` go to
    `Environment.send` at the same time, and never when what they rest on was not committed. `timers` maps a timer's key
    to its delay in milliseconds, or to None to cancel it; setting a timer again moves it.
    """

    records: list[Any] = field(default_factory=list)
    answers: list[tuple[Waiter, Answer]] = field(default_factory=list)
    timers: dict[Hashable, int | None] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)

    def write(self, record: Any) -> None:
        """Have a record replayed and appended."""
        self.records.append(record)

    def answer(self, waiter: Waiter, answer: Answer) -> None:
        """Answer somebody once everything up to here is committed."""
        self.answers.append((waiter, answer))

    def send(self, message: Any) -> None:
        """Tell somebody outside of the coordinator something once everything up to here is committed."""
        self.messages.append(message)

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        """Have `handle_timer(key)` called after a delay, instead of what was set for this key before."""
        self.timers[key] = delay_ms

    def cancel_timer(self, key: Hashable) -> None:
        """Forget a timer; it may be one that is not set."""
        self.timers[key] = None


class OnceWaiter:
    """A waiter that passes on the first answer only.

    A shard that crashes in the middle of a step may have kept the waiter of the request it was working on, or not;
    with this, both it and whoever ends the request may answer.
    """

    __slots__ = ("_waiter",)

    def __init__(self, waiter: Waiter) -> None:
        self._waiter: Waiter | None = waiter

    def __call__(self, answer: Answer) -> None:
        """Answer, if nobody did before."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter(answer)


def deliver(answers: Iterable[tuple[Waiter, Answer]]) -> None:
    """Give answers to those who wait; one that cannot be given is logged and does not keep the others waiting."""
    for waiter, answer in answers:
        try:
            waiter(answer)
        except Exception:
            logger.exception("could not send the response of a coordinator")
