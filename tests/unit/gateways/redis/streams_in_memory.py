"""Streams of one broker without a disk, and clients that run commands on them: for tests of what commands do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import Mock, patch

from ottla.gateways.redis import (
    add_commands,
    group_commands,
    info_commands,
    long_work,
    pending_commands,
    read_commands,
    trimming,
)
from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.command_call import call
from ottla.gateways.redis.command_statistics import CommandStatistics
from ottla.gateways.redis.command_table import command_table
from ottla.gateways.redis.config import RedisConfig
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.keyspace import HeldError, Keyspace
from ottla.gateways.redis.reply import error
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import Stream
from ottla.gateways.redis.stream_log import Flush
from ottla.model.principal import ANONYMOUS


@contextmanager
def slices_of(count: int) -> Iterator[None]:
    """Commands deal with so many entries in one turn."""
    with ExitStack() as patches:
        sliced = (long_work, add_commands, group_commands, info_commands, pending_commands, read_commands, trimming)
        for module in sliced:
            patches.enter_context(patch.object(module, "SLICE", count))
        yield


class Tasks:
    """Spawns tasks, and remembers them."""

    def __init__(self) -> None:
        self.all: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self.all.add(task)
        task.add_done_callback(self.all.discard)
        return task


async def _until_free(missing: HeldError, fetched: Any, session: Session) -> None:
    del fetched, session
    await missing.work.until_over()


class StreamsInMemory:
    """A gateway of which every key of database 0 that is asked for is a stream. Use it inside an event loop."""

    def __init__(self, *keys: bytes) -> None:
        self.now_ms = 1_000_000
        self.written: list[tuple[Stream, list[Any]]] = []
        """What was to be written, in order."""
        broker = Mock(tasks=Tasks())
        broker.clock.now_ms = broker.clock.monotonic_ms = lambda: self.now_ms
        broker.defer = asyncio.get_running_loop().call_soon
        self.keyspace = Keyspace(broker, RedisConfig())
        self.keyspace.placement = Mock(has_peers=False)
        self.gateway: Any = Mock(broker=broker, keyspace=self.keyspace, table=command_table(), has_rules=False)
        self.gateway.logins.is_required = False
        self.gateway.statistics = CommandStatistics()
        self.gateway.fetch = _until_free
        self.streams: dict[bytes, Stream] = {}
        for key in keys:
            stream = self.streams[key] = Stream(self.keyspace.limits, self.keyspace._journaled)
            stream.log = Mock(is_current=True, adopted_by=0, latest=None, topic=key.decode())
            stream.log.journal_began = Flush
            stream.log.flush = lambda stream=stream: self.written.append((stream, stream.take_journal()))
            stream.begin(0, key)
            self.keyspace.databases[0][key] = stream

    def session(self) -> Session:
        """A client."""
        return Session(self.gateway, 1, "", "", self.now_ms, ANONYMOUS)

    async def run(self, session: Session, *words: bytes) -> bytes:
        """The reply to a command."""
        arguments = list(words)
        session.now_ms = self.now_ms
        while True:
            try:
                return call(session, arguments)
            except RedisError as refusal:
                return error(refusal.line)
            except HeldError as missing:
                await missing.work.until_over()

    async def tasks_over(self) -> None:
        """Wait until no task is left that was spawned."""
        while left := self.gateway.broker.tasks.all:
            await asyncio.wait(set(left))

    def read_again(self, key: bytes) -> Stream:
        """The stream of a key as a restart makes it of all that was journaled."""
        made, stream = Stream(self.keyspace.limits, lambda each: None), self.streams[key]
        made.begin(0, key)
        journals = [journal for each, journal in self.written if each is stream] + [stream.journal]
        for offset, (_, _, value, headers) in enumerate(record for journal in journals for record in journal):
            header = records.kind_of(headers)
            entry_id = None if header is None else records.entry_id_of(header)
            if header is None or entry_id is None:
                made.apply_mark(records.decode_mark(value))
            else:
                made.load_entry(entry_id, offset, begins=header[:1] == records.NODE)
        return made
