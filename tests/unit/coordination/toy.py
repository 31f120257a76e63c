"""A shard that stores words, and the time and turns of a test."""

import asyncio
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.runtime.environment import Environment
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer


class WordAnswer(Answer, frozen=True):
    word: str | None = None


class WordShard:
    """Stores a word under a key; `park` keeps its waiter until a timer or the end."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.parked: list[Waiter] = []
        self.loaded = False

    def encode(self, record: tuple[str, str | None]) -> tuple[bytes, bytes | None]:
        key, word = record
        return key.encode(), None if word is None else word.encode()

    def decode(self, key: bytes, value: bytes | None) -> tuple[str, str | None] | None:
        if key.startswith(b"broken"):
            raise InvalidInputError("not a word")
        if key.startswith(b"unknown"):
            return None
        return key.decode(), None if value is None else value.decode()

    def replay(self, record: tuple[str, str | None]) -> None:
        key, word = record
        if word is None:
            self.words.pop(key, None)
        else:
            self.words[key] = word

    def handle_loaded(self, now_ms: int) -> Outcome:
        self.loaded = True
        return Outcome()

    def handle_unloaded(self) -> Outcome:
        return Outcome(answers=[(waiter, WordAnswer(ErrorCode.NOT_COORDINATOR)) for waiter in self.parked])

    def handle_timer(self, now_ms: int, key: Hashable) -> Outcome:
        return Outcome(answers=[(self.parked.pop(0), WordAnswer(word=f"{key} at {now_ms}"))])


def put(key: str, word: str) -> Callable[[WordShard, int, Waiter], Outcome]:
    """Store a word."""
    return lambda shard, now_ms, waiter: Outcome(records=[(key, word)], answers=[(waiter, WordAnswer(word=word))])


def get(key: str) -> Callable[[WordShard, int, Waiter], Outcome]:
    """Read a word."""
    return lambda shard, now_ms, waiter: Outcome(answers=[(waiter, WordAnswer(word=shard.words.get(key)))])


def park(delay_ms: int | None = None) -> Callable[[WordShard, int, Waiter], Outcome]:
    """Wait, for a timer if a delay is given."""

    def operation(shard: WordShard, now_ms: int, waiter: Waiter) -> Outcome:
        shard.parked.append(waiter)
        return Outcome(timers={} if delay_ms is None else {"due": delay_ms})

    return operation


def crash(shard: WordShard, now_ms: int, waiter: Waiter) -> Outcome:
    """A bug, after the waiter was kept."""
    shard.parked.append(waiter)
    raise RuntimeError("a bug")


class Turn:
    """The end of a turn of the event loop, by hand."""

    def __init__(self) -> None:
        self.deferred: list[Callable[[], None]] = []

    def __call__(self, callback: Callable[[], None]) -> None:
        self.deferred.append(callback)

    def end(self) -> None:
        deferred, self.deferred = self.deferred, []
        for callback in deferred:
            callback()


class ManualEnvironment(Environment, frozen=True):
    """An environment whose time passes by hand."""

    if TYPE_CHECKING:  # at run time a field that is named again would come last
        timer: ManualTimer


def environment() -> tuple[ManualEnvironment, Turn]:
    """An environment whose time and turns pass by hand; its tasks run on the test's loop."""
    timer = ManualTimer()
    turn = Turn()
    return ManualEnvironment(timer.clock, SeededRng(0), timer, Tasks("test"), turn), turn


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0)
