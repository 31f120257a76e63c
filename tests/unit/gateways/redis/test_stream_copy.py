"""A copy of a stream is the stream: what is in memory, and what a restart reads from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock, patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.gateways.redis import stream_copy
from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.error import RedisError
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_copy import StreamCopy
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_snapshot import SnapshotReader
from ottla.model.stream_record import MARK
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory
from tests.unit.gateways.redis.test_long_work import _COMMAND

PLACE = (3, b"copy")


class Log:
    """The log of a copy, in memory."""

    batch_bytes_max = 1 << 20

    def __init__(self) -> None:
        self.records: list[records.Record] = []
        self.batches = 0

    async def append(self, some: list[records.Record]) -> int:
        self.batches += 1
        self.records += some
        return len(self.records) - len(some)


def read(log: list[records.Record]) -> Stream:
    """The stream that a start makes of a log."""
    stream = Stream(NodeLimits(), lambda each: None)
    snapshots = SnapshotReader(stream)
    for offset, (_, _, value, headers) in enumerate(log):
        header = records.kind_of(headers)
        assert header is not None
        entry_id = records.entry_id_of(header)
        if entry_id is not None:
            snapshots.give_up()
            stream.load_entry(entry_id, offset, begins=header[:1] == records.NODE)
            continue
        mark = records.decode_mark(value)
        if isinstance(mark, records.Snapshot):
            snapshots.begin(mark)
        elif snapshots.is_reading:
            snapshots.take(mark)
        else:
            stream.apply_mark(mark)
        if snapshots.is_whole:
            for _ in snapshots.slices():
                pass
    return stream


def shown(stream: Stream) -> Any:
    """All of a stream, and where its nodes begin and end."""
    stream.database, stream.key = PLACE
    nodes = [
        (node.first_id, node.last_id, node.count, node.deleted, node.size, node.floor, node.removed)
        for node in stream.nodes
    ]
    return records.snapshot(stream, 0), stream.length, nodes


async def copied(commands: Sequence[tuple[bytes, ...]]) -> tuple[Stream, Stream, Log]:
    """A stream after these commands, its copy, and the log of the copy."""
    server = StreamsInMemory(b"s")
    server.keyspace.limits.entries_max = 3
    session, stream = server.session(), server.streams[b"s"]
    for number in range(1, 9):
        await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"%d" % number)
    await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
    for words in commands:
        server.now_ms += 3
        await server.run(session, *words)
    target, log = Stream(server.keyspace.limits, lambda each: None), Log()
    target.log = log
    await StreamCopy(stream, target, PLACE, Mock(), Mock()).write(5, "before")
    return stream, target, log


@pytest.mark.parametrize("size", [1, 2, 1_000])
@settings(max_examples=40)
@given(st.lists(_COMMAND, max_size=25))
def test_a_copy_is_the_stream_in_memory_and_in_its_log(size: int, commands: list[tuple[bytes, ...]]) -> None:
    with (
        patch.object(stream_copy, "BATCH_RECORDS", size),
        patch.object(stream_copy, "ROWS", size),
        patch.object(stream_copy, "CONSUMERS", size),
        patch.object(records, "HELD_MAX", size),
    ):
        stream, target, log = asyncio.run(copied(commands))
    assert target.key is None
    assert shown(target) == shown(stream)
    assert shown(read(log.records)) == shown(stream)
    entries = [entry for node in stream.nodes for entry in (node.entries or {}).items()]
    offsets: dict[int, tuple[int, list[bytes]]] = {
        records.entry_id_of(records.kind_of(headers) or b"") or 0: (offset, records.decode_fields(value))
        for offset, (_, _, value, headers) in enumerate(log.records)
        if headers[0][1] != MARK
    }
    assert {entry_id: fields for entry_id, (_, fields) in offsets.items()} == dict(entries)
    for node in target.nodes:
        assert node.offset == min(
            at for entry_id, (at, _) in offsets.items() if node.first_id <= entry_id <= node.last_id
        )


def test_no_part_of_a_copy_counts_before_all_of_it_is_there() -> None:
    commands = [(b"XREADGROUP", b"GROUP", b"g", b"alice", b"STREAMS", b"s", b">")]
    _, _, log = asyncio.run(copied(commands))
    for size in range(len(log.records)):
        assert read(log.records[:size]).key is None
    assert (read(log.records).database, read(log.records).key) == PLACE


def test_what_follows_a_copy_that_was_not_finished_is_no_part_of_it() -> None:
    _, _, log = asyncio.run(copied([]))
    cut = log.records[:-2]
    broken = [*cut, records.mark(records.Snapshot(0, [], cleans=False), 0), records.mark(records.Ended(), 0)]
    stream = read(
        [*broken, records.mark(records.Began(0, b"s"), 0), records.entry(5, [b"a", b"b"], 0, begins_node=True)]
    )
    assert (stream.key, stream.length, stream.entries_added, stream.groups) == (b"s", 1, 1, {})


def test_what_workers_have_nobody_has_in_the_copy() -> None:
    async def run() -> tuple[Stream, Log]:
        server = StreamsInMemory(b"s")
        session, stream = server.session(), server.streams[b"s"]
        await server.run(session, b"XADD", b"s", b"1-0", b"f", b"1")
        await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
        stream.mark(7, records.Assigned(b"g", b"worker", 7, 7, [id_bytes(1 << 64)], [2], until_ms=90))
        target, log = Stream(server.keyspace.limits, lambda each: None), Log()
        target.log = log
        await StreamCopy(stream, target, PLACE, Mock(), Mock()).write(8, "")
        return target, log

    target, log = asyncio.run(run())
    for stream in (target, read(log.records)):
        group = stream.groups[b"g"]
        assert group.consumers == {}
        ((entry_id, pending),) = group.pending.items()
        assert (entry_id, pending.consumer, pending.count, pending.until_ms) == (1 << 64, None, 2, 0)


def test_a_stream_that_has_lost_entries_is_not_copied() -> None:
    async def run() -> None:
        server = StreamsInMemory(b"s")
        stream = server.streams[b"s"]
        await server.run(server.session(), b"XADD", b"s", b"1-0", b"f", b"1")
        stream.nodes[0].entries = {}
        target = Stream(server.keyspace.limits, lambda each: None)
        target.log = Log()
        with pytest.raises(RedisError, match="its log lacks 1 of its entries"):
            await StreamCopy(stream, target, PLACE, Mock(), Mock()).write(8, "")

    asyncio.run(run())
