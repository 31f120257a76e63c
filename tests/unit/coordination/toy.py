"""A shard that stores words, and a partition that commits when told to."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from ottla.coordination.environment import CoordinatorLimits, Environment
from ottla.coordination.outcome import Answer, Outcome, Waiter
from ottla.model.error_code import ErrorCode
from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import assign_offsets, validate_batches
from ottla.replication.acknowledgement import AppendAck
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer


@dataclass(frozen=True, slots=True)
class WordAnswer(Answer):
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


class FakeLog:
    log_start_offset = 0
    log_end_offset = 0


class FakePartition:
    """Keeps batches; they are committed at once, or by `commit` when `holds_back`."""

    def __init__(self, *, holds_back: bool = False) -> None:
        self.topic_partition = TopicPartition("__words", 3)
        self.index = 3
        self.is_leader = True
        self.log = FakeLog()
        self.high_watermark = 0
        self.batches: list[tuple[int, int, bytes]] = []
        self.appends: list[int] = []
        self.refuse_with: ErrorCode | None = None
        self.holds_back = holds_back
        self.read_error: Exception | None = None
        self._held: list[tuple[int, Callable[[AppendAck], None]]] = []

    def append(self, records: bytearray, *, acks: int, on_ack: Callable[[AppendAck], None], from_client: bool) -> None:
        assert acks == -1
        assert not from_client
        if self.refuse_with is not None:
            on_ack(AppendAck(self.refuse_with, "refused"))
            return
        infos = validate_batches(records)
        base = self.log.log_end_offset
        self.log.log_end_offset = assign_offsets(records, base, 0)
        self.appends.append(len(infos))
        for info, first in zip(infos, _first_offsets(infos, base), strict=True):
            data = bytes(records[info.position : info.position + info.size])
            self.batches.append((first, first + info.record_count, data))
        self._held.append((self.log.log_end_offset, on_ack))
        if not self.holds_back:
            self.commit()

    def commit(self) -> None:
        """Everything appended so far is committed."""
        held, self._held = self._held, []
        for end_offset, on_ack in held:
            self.high_watermark = end_offset
            on_ack(AppendAck(ErrorCode.NONE))

    def lose(self, error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """What was appended and not committed is lost."""
        held, self._held = self._held, []
        self.batches = [batch for batch in self.batches if batch[1] <= self.high_watermark]
        self.log.log_end_offset = self.high_watermark
        for _, on_ack in held:
            on_ack(AppendAck(error, "lost"))

    async def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """Batches from an offset on, at least one."""
        if self.read_error is not None:
            raise self.read_error
        found = b""
        for _, end, data in self.batches:
            if end > offset and end <= self.high_watermark and (not found or len(found) + len(data) <= max_bytes):
                found += data
        return found


def _first_offsets(infos: list[Any], base: int) -> list[int]:
    offsets = []
    for info in infos:
        offsets.append(base)
        base += info.record_count
    return offsets


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


def environment(**limits: int) -> tuple[Environment, Turn]:
    """An environment whose time and turns pass by hand; its tasks run on the test's loop."""
    timer = ManualTimer()
    turn = Turn()
    return Environment(timer.clock, timer, Tasks("test"), turn, CoordinatorLimits(**limits)), turn


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0)
