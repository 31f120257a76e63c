"""Commands with very much to do: a slice of it in each turn of the event loop, so that nobody waits for all of it.

    XGROUP DELCONSUMER of a million pending entries
    slice | others' commands | slice | others' commands ... | reply
    `------- the key is held: commands on it wait -------'

To everybody else the command is atomic: nobody sees its key before it is over, and nothing of it is written before.
What its client does meanwhile changes nothing: it is done to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.gateways.redis.keyspace import HeldError
from ottla.gateways.redis.reply import Raw
from ottla.gateways.redis.session import BlockError
from ottla.gateways.redis.stream_id import parse_ids
from ottla.native import encode_entries
from ottla.runtime.garbage import keeping_much, look_at_new
from ottla.runtime.turns import next_turn

if TYPE_CHECKING:
    from ottla.gateways.redis.keyspace import Keyspace
    from ottla.gateways.redis.reply import Reply
    from ottla.gateways.redis.session import Session
    from ottla.gateways.redis.stream import Stream
    from ottla.gateways.redis.stream_log import Flush

SLICE: Final = 1_000
"""Entries that a command deals with in one turn: some milliseconds."""

_KEPT_ARGUMENTS: Final = 2_000
"""More than so many arguments are let go of bit by bit when the command is over."""

Steps = Generator[None, None, Any]
"""What a command does, and its reply at the end: whatever stands between two yields is done in one turn."""

T = TypeVar("T")


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """A sequence in slices.

    >>> [len(each) for each in slices(range(2 * SLICE + 5))]
    [1000, 1000, 5]
    """
    for at in range(0, len(items), SLICE):
        yield items[at : at + SLICE]


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """What an iterator gives, in slices."""
    chunk: list[T] = []
    for each in items:
        chunk.append(each)
        if len(chunk) == SLICE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def parsed_ids(texts: Sequence[bytes]) -> Generator[None, None, list[int]]:
    """Ids of entries. Raises RedisError."""
    ids: list[int] = []
    for some in slices(texts):
        ids += parse_ids(list(some))
        if len(some) == SLICE:
            yield
    return ids


def array_of(items: Iterable[T], encoded: Callable[[T], bytes]) -> Steps:
    """The array of what items are encoded as."""
    return _array_of(items, lambda some: b"".join(map(encoded, some)))


def array_of_entries(entries: Iterable[tuple[int, list[bytes]]]) -> Steps:
    """The array of entries with their ids and fields."""
    return _array_of(entries, encode_entries)


def _array_of(items: Iterable[T], encoded: Callable[[list[T]], bytes]) -> Steps:
    parts, count = [b""], 0
    for some in chunks(items):
        parts.append(encoded(some))
        count += len(some)
        if len(some) == SLICE:
            yield
    parts[0] = b"*%d\r\n" % count
    return Raw(*parts)


def let_go(*containers: dict[Any, Any] | list[Any]) -> Iterator[None]:
    """Empty what is needed no more: at once that takes as long as many slices."""
    for each in containers:
        while len(each) > SLICE:
            if isinstance(each, list):
                del each[-SLICE:]
            else:
                for _ in range(SLICE):
                    each.popitem()
            yield


class UnfinishedError(HeldError):
    """A command has begun, and is over once its work is; then it is called again for the reply."""


class Work:
    """What is left of a command, which holds streams until it is over. Belongs to the event loop."""

    def __init__(self, session: Session, streams: Iterable[Stream]) -> None:
        self._keyspace: Keyspace = session.keyspace
        self._awaited: set[Flush] = set()
        self._reply: Reply = None
        self._error: Exception | None = None
        self._streams = list(dict.fromkeys(streams))
        self._arguments = session.arguments
        for stream in self._streams:
            self._keyspace.hold(stream, self)
        self._task = session.gateway.broker.tasks.spawn(self._run(), "redis-long-work")

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._task.done()

    async def until_over(self) -> None:
        """Wait until nothing is left."""
        await asyncio.shield(self._task)

    async def _run(self) -> None:
        await self._work()  # where the broker stops before it is over, nothing of it is to be written
        for stream in self._streams:
            self._keyspace.let_go(stream)
        self._keyspace.serve_waiters()
        if self._error is None and len(self._arguments) > _KEPT_ARGUMENTS:  # with an error it may be run again
            for _ in let_go(self._arguments):
                await next_turn()

    async def _work(self) -> None:
        """Do what is left, up to the reply, or an error."""
        raise NotImplementedError

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """What is changed meanwhile, the reply rests on."""
        outside, self._keyspace.awaited = self._keyspace.awaited, self._awaited
        try:
            yield
        finally:
            self._keyspace.awaited = outside

    @property
    def is_stale(self) -> bool:
        """Whether the command has to look again."""
        return False

    def reply(self) -> Reply:
        """What the command answers, which rests on what it has changed. Raises what the command raises."""
        self._keyspace.awaited |= self._awaited
        if self._error is not None:
            raise self._error
        return self._reply


class LongWork(Work):
    """What is left of a command that is done in slices."""

    def __init__(self, session: Session, streams: Iterable[Stream], steps: Steps) -> None:
        self._steps = steps
        self._news: list[int] = []
        super().__init__(session, streams)

    async def _work(self) -> None:
        is_over = False
        with keeping_much():
            while not is_over:
                await next_turn()
                is_over = not self._step()
                look_at_new()

    def _step(self) -> bool:
        with self._changing():
            try:
                next(self._steps)
            except StopIteration as over:
                self._reply = over.value
                return False
            except Exception as error:  # the command's own: it is raised where the command is called
                self._error = error
                self._news = [stream.news for stream in self._streams]
                return False
        return True

    @property
    def is_stale(self) -> bool:
        """Whether the command is to wait, but something has come since it looked."""
        return isinstance(self._error, BlockError) and self._news != [stream.news for stream in self._streams]


def in_slices(session: Session, streams: Iterable[Stream], steps: Steps) -> Reply:
    """The reply of a command to these streams. Raises UnfinishedError when it is not over after a slice."""
    try:
        next(steps)
    except StopIteration as over:
        return over.value
    session.work = LongWork(session, streams, steps)
    raise UnfinishedError(session.work)
