"""The responses of one connection, in the order of its requests.

    number     4        5             6        7
    answers  [ None ] [ answered ] [ None ] [ answered ]      nothing leaves: 4 is first
               4 is answered: 4 and 5 leave, 6 is first

    answers  [ None ] [ None ] [ Turn ]                       who waits until it is first is called then

A slot is made for each request as it arrives and filled whenever its handler is done. The queue does not hold the
slots: one that its handlers have let go of can never be filled, and no later answer could leave. That is noticed at
once, and ends the connection.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ottla.runtime.file_slice import FileSlice

Buffer = bytes | bytearray | memoryview
Part = Buffer | FileSlice

_NEVER: Final = sys.maxsize

SLICE_COST = 128
"""What a slice of a file that waits counts for in bytes of memory."""


class Sender(Protocol):
    """What sends the answers of a connection."""

    def on_response(self, parts: Sequence[Part]) -> None:
        """An answer whose turn it is."""
        ...

    def on_answer(self, answer: bytes) -> None:
        """One that is nothing but bytes."""
        ...

    def on_held(self, by: int, /) -> None:
        """The bytes of answers that wait for an earlier one have changed."""
        ...

    def on_abandoned(self, number: int) -> None:
        """A slot was let go of and not filled. Called from whatever thread, in the middle of whatever it does."""
        ...


class Turn:
    """In the place of an answer: what is to be called when all before it have left, or none is wanted any more."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call


class ResponseSlot:
    """The place of one request's response.

    It is filled once, at any time. After the connection has been closed, or an earlier request has failed, it may still
    be filled, to no effect. To let go of it and not fill it closes the connection.
    """

    __slots__ = ("_queue", "number")

    def __init__(self, queue: "ResponseQueue") -> None:
        """The slot of the request that has just arrived."""
        self._queue: ResponseQueue | None = queue
        self.number = queue.next
        """Its place in the order of the connection's requests."""
        queue.next = self.number + 1
        queue.answers.append(None)

    @classmethod
    def at(cls, queue: "ResponseQueue", number: int) -> "ResponseSlot":
        """The slot of a place that the queue has already, and that nobody else will fill."""
        slot = cls.__new__(cls)
        slot._queue = queue
        slot.number = number
        return slot

    def __del__(self) -> None:
        if self._queue is not None:
            self._queue.abandon(self.number)

    @property
    def is_void(self) -> bool:
        """Whether an answer would go nowhere: a request that is not begun need not be."""
        return self._queue is None or self.number >= self._queue.end

    def send(self, parts: Sequence[Part]) -> None:
        """Answer with these bytes, one after the other, the 4-byte length included. They must stay as they are."""
        queue = self._queue
        assert queue is not None, "a request is answered once"
        self._queue = None
        answers = queue.answers
        if self.number >= queue.end:
            return
        place = self.number - queue.first
        if place:
            answers[place] = parts
            queue.hold(parts)
            return
        del answers[0]
        queue.first += 1
        queue.sender.on_response(parts)
        if answers and answers[0] is not None:
            queue.release()

    def answer(self, answer: bytes) -> None:
        """`send` of nothing but bytes, and some."""
        queue = self._queue
        if queue is None or self.number != queue.first or self.number >= queue.end:
            self.send((answer,))
            return
        self._queue = None
        answers = queue.answers
        del answers[0]
        queue.first += 1
        queue.sender.on_answer(answer)
        if answers and answers[0] is not None:
            queue.release()

    def when_first(self, call: Callable[[], None]) -> None:
        """Call it once all requests before this one are answered, which may be now; or this one need not be any more
        (`is_void`). It may not raise.
        """
        queue = self._queue
        if queue is None or self.number == queue.first or self.number >= queue.end:
            call()
        else:
            queue.answers[self.number - queue.first] = Turn(call)

    def skip(self) -> None:
        """There is no response to this request."""
        self.send(())


class ResponseQueue:
    """The answers of a connection that have not left, oldest first."""

    __slots__ = ("answers", "end", "first", "next", "sender")

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.first = 0
        """The number of the first answer."""
        self.next = 0
        """The number of the next request."""
        self.end = _NEVER
        """The number of the first request that is not answered, nor are those behind it."""
        self.answers: list[Sequence[Part] | Turn | None] = []
        """One for each request whose response has not left; None or a Turn where there is none yet."""

    def __len__(self) -> int:
        return len(self.answers)

    def answer_next(self, answer: bytes) -> None:
        """The next request is answered already. Nobody waits for an answer before."""
        assert not self.answers, "an answer has its turn"
        self.first = self.next = self.next + 1
        self.sender.on_answer(answer)

    def hold(self, parts: Sequence[Part]) -> None:
        """An answer has to wait for an earlier one."""
        self._change_held(_held_bytes(parts))

    def release(self) -> None:
        """Let go of the answers up to the first that is not there."""
        answers = self.answers
        while answers and (parts := answers[0]) is not None:
            if isinstance(parts, Turn):
                answers[0] = None
                parts.call()
                continue
            del answers[0]
            self.first += 1
            self._change_held(-_held_bytes(parts))
            self.sender.on_response(parts)

    def abandon(self, number: int) -> None:
        """A slot will never be filled. Called from whatever thread lets go of it last."""
        if number < self.end:
            self.sender.on_abandoned(number)

    def cut(self, number: int) -> None:
        """Answer neither the request of this number nor those behind it: what their slots are filled with goes nowhere.
        No request comes after that.
        """
        self.end = min(self.end, number)
        place = max(number - self.first, 0)
        cut = self.answers[place:]
        del self.answers[place:]
        self._change_held(-sum(map(_held_bytes, cut)))
        for parts in cut:
            if isinstance(parts, Turn):
                parts.call()

    def clear(self) -> None:
        """The connection is closed: what slots are filled with goes nowhere."""
        self.cut(0)

    def _change_held(self, by: int) -> None:
        if by:
            self.sender.on_held(by)


def _held_bytes(parts: Sequence[Part] | Turn | None) -> int:
    if parts is None or isinstance(parts, Turn):
        return 0
    return sum(SLICE_COST if type(part) is FileSlice else len(part) for part in parts)
