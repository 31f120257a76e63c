"""Commands with much to do are done in slices: the same is done, and nobody sees a part of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.gateways.redis import group_commands
from ottla.gateways.redis.command_call import call
from ottla.gateways.redis.group import UNKNOWN, Group
from ottla.gateways.redis.keyspace import HeldError
from ottla.gateways.redis.long_reply import LongReplyError
from ottla.gateways.redis.session import BlockError
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_records import snapshot
from tests.unit.gateways.redis.streams_in_memory import StreamsInMemory, slices_of

_ID = st.integers(1, 9).map(lambda number: b"%d-0" % number)
_IDS = st.lists(_ID, min_size=1, max_size=6)
_NAME = st.sampled_from((b"alice", b"bob"))
_COUNT = st.sampled_from(((), (b"COUNT", b"2"), (b"COUNT", b"5")))
_AFTER = st.sampled_from((b">", b"0", b"3-0"))


def _words(*parts: Any) -> st.SearchStrategy[tuple[bytes, ...]]:
    """A command of words, strategies for words, and of such for several words."""

    def flat(found: tuple[Any, ...]) -> tuple[bytes, ...]:
        return tuple(word for each in found for word in ((each,) if isinstance(each, bytes) else each))

    return st.tuples(*(st.just(each) if isinstance(each, bytes) else each for each in parts)).map(flat)


_COMMAND = st.one_of(
    _words(b"XADD", b"s", b"*", b"f", b"v"),
    _words(b"XDEL", b"s", _IDS),
    _words(b"XDELEX", b"s", st.sampled_from((b"KEEPREF", b"DELREF", b"ACKED")), b"IDS", b"3", _ID, _ID, _ID),
    _words(b"XRANGE", b"s", _ID, b"+", _COUNT),
    _words(b"XREAD", _COUNT, b"STREAMS", b"s", b"s", _ID, b"0"),
    _words(b"XTRIM", b"s", b"MAXLEN", st.sampled_from((b"1", b"4"))),
    _words(b"XTRIM", b"s", b"MINID", _ID, st.sampled_from((b"DELREF", b"ACKED"))),
    _words(b"XTRIM", b"s", b"MAXLEN", b"~", b"2", st.sampled_from((b"DELREF", b"ACKED"))),
    _words(b"XGROUP", b"SETID", b"s", b"g", st.sampled_from((b"0", b"4-0", b"$"))),
    _words(b"XGROUP", b"DELCONSUMER", b"s", b"g", _NAME),
    _words(b"XREADGROUP", b"GROUP", b"g", _NAME, _COUNT, b"STREAMS", b"s", _AFTER),
    _words(b"XREADGROUP", b"GROUP", b"g", _NAME, _COUNT, b"NOACK", b"STREAMS", b"s", b">"),
    _words(
        b"XREADGROUP", b"GROUP", b"g", _NAME, _COUNT, b"CLAIM", st.sampled_from((b"0", b"5")), b"STREAMS", b"s", b">"
    ),
    _words(b"XREADGROUP", b"GROUP", b"g", _NAME, b"STREAMS", b"s", b"s", b">", _AFTER),
    _words(b"XACK", b"s", b"g", _IDS),
    _words(b"XNACK", b"s", b"g", b"FAIL", b"IDS", b"3", _ID, _ID, _ID, st.sampled_from(((), (b"FORCE",)))),
    _words(b"XACKDEL", b"s", b"g", st.sampled_from((b"KEEPREF", b"DELREF", b"ACKED")), b"IDS", b"3", _ID, _ID, _ID),
    _words(b"XCLAIM", b"s", b"g", _NAME, st.sampled_from((b"0", b"5")), _IDS, st.sampled_from(((), (b"FORCE",)))),
    _words(b"XCLAIM", b"s", b"g", _NAME, b"0", _IDS, b"JUSTID", b"IDLE", b"7", b"LASTID", _ID),
    _words(b"XAUTOCLAIM", b"s", b"g", _NAME, st.sampled_from((b"0", b"5")), _ID, _COUNT),
    _words(b"XAUTOCLAIM", b"s", b"g", _NAME, b"0", b"0", _COUNT, b"JUSTID"),
    _words(b"XPENDING", b"s", b"g", b"-", b"+", st.sampled_from((b"0", b"2", b"9"))),
    _words(b"XPENDING", b"s", b"g", b"IDLE", b"3", _ID, b"+", b"9", _NAME),
    _words(b"XPENDING", b"s", b"g"),
    _words(b"XINFO", b"STREAM", b"s", b"FULL", b"COUNT", b"0"),
)


async def replies_to(commands: list[tuple[bytes, ...]], slice_size: int) -> tuple[list[bytes], Stream, Stream]:
    """Replies to commands; the stream behind them, and the stream that a restart makes of what was written."""
    with slices_of(slice_size):
        server = StreamsInMemory(b"s")
        session, stream = server.session(), server.streams[b"s"]
        for number in range(1, 7):
            await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"%d" % number)
        await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
        replies = []
        for words in commands:
            server.now_ms += 3
            replies.append(await server.run(session, *words))
    return replies, stream, server.read_again(b"s")


@settings(max_examples=60)
@given(st.lists(_COMMAND, max_size=25))
def test_commands_in_slices_do_and_answer_what_they_do_at_once(commands: list[tuple[bytes, ...]]) -> None:
    replies, stream, _ = asyncio.run(replies_to(commands, 1_000_000))
    for slice_size in (1, 2, 3):
        replies_in_slices, other, _ = asyncio.run(replies_to(commands, slice_size))
        assert replies_in_slices == replies
        assert snapshot(other, 0) == snapshot(stream, 0)


def _without_times(stream: Stream) -> Any:
    for group in stream.groups.values():
        for consumer in group.consumers.values():
            consumer.seen_ms = consumer.active_ms = 0
    return snapshot(stream, 0)


@settings(max_examples=60)
@given(st.lists(_COMMAND, max_size=25), st.sampled_from((2, 1_000)))
def test_a_restart_changes_nothing_but_when_consumers_were_seen(
    commands: list[tuple[bytes, ...]], slice_size: int
) -> None:
    _, stream, read_again = asyncio.run(replies_to(commands, slice_size))
    assert _without_times(read_again) == _without_times(stream)
    assert [(node.first_id, node.last_id, node.count) for node in read_again.nodes] == [
        (node.first_id, node.last_id, node.count) for node in stream.nodes
    ]


async def _with_pending(count: int) -> StreamsInMemory:
    server = StreamsInMemory(b"s", b"other")
    session = server.session()
    for number in range(1, count + 1):
        await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"v")
    await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
    await server.run(session, b"XREADGROUP", b"GROUP", b"g", b"alice", b"STREAMS", b"s", b">")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.written.clear()
    return server


def test_nobody_sees_a_part_of_a_command_and_others_do_not_wait() -> None:
    async def run() -> None:
        server = await _with_pending(10)
        first, second = server.session(), server.session()
        with pytest.raises(HeldError):
            call(first, [b"XGROUP", b"DELCONSUMER", b"s", b"g", b"alice"])
        assert len(server.streams[b"s"].groups[b"g"].pending) == 8
        with pytest.raises(HeldError) as held:
            call(second, [b"XPENDING", b"s", b"g"])
        assert call(second, [b"XLEN", b"other"]) == b":0\r\n"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert server.written == []
        await held.value.work.until_over()
        assert call(second, [b"XPENDING", b"s", b"g"]).startswith(b"*4\r\n:0\r\n")
        assert call(first, [b"XGROUP", b"DELCONSUMER", b"s", b"g", b"alice"]) == b":10\r\n"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ((stream, journal),) = server.written
        assert stream is server.streams[b"s"]
        assert len(journal) == 5

    with slices_of(2):
        asyncio.run(run())


def test_a_command_is_done_to_its_end_when_its_client_is_gone() -> None:
    async def run() -> None:
        server = await _with_pending(10)
        with slices_of(2), pytest.raises(HeldError) as held:
            call(server.session(), [b"XACK", b"s", b"g", *(b"%d-0" % number for number in range(1, 11))])
        waiting = asyncio.create_task(held.value.work.until_over())
        await asyncio.sleep(0)
        waiting.cancel()
        await held.value.work.until_over()
        assert await server.run(server.session(), b"XPENDING", b"s", b"g") == b"*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"

    asyncio.run(run())


def test_a_long_reply_of_a_command_in_slices_is_sent_in_pieces_and_never_made_twice() -> None:
    async def run(slice_size: int) -> tuple[bytes, int]:
        server = StreamsInMemory(b"s")
        session = server.session()
        for number in range(1, 10):
            await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"x" * 200_000)
        await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
        with slices_of(slice_size):
            try:
                reply = await server.run(session, b"XREADGROUP", b"GROUP", b"g", b"a", b"STREAMS", b"s", b">")
                pieces = 1
            except LongReplyError as long:
                parts = [each for each in long.parts if isinstance(each, bytes)]
                reply, pieces = b"".join(parts), len(long.parts)
        assert [each.count for _, each in server.streams[b"s"].groups[b"g"].pending_from(0, 1 << 128)] == [1] * 9
        return reply, pieces

    whole, in_slices = asyncio.run(run(1_000)), asyncio.run(run(2))
    assert whole[0] == in_slices[0]
    assert whole[1] == 1
    assert in_slices[1] >= 5


def test_a_command_that_found_nothing_looks_again_where_something_came_before_it_waits() -> None:
    async def run() -> None:
        server = await _with_pending(6)
        session, other = server.session(), server.session()
        await server.run(session, b"XDEL", b"s", *(b"%d-0" % number for number in range(1, 7)))
        command = [b"XREADGROUP", b"GROUP", b"g", b"bob", b"BLOCK", b"0", b"CLAIM", b"0", b"STREAMS", b"s", b">"]
        with slices_of(2):
            with pytest.raises(HeldError) as held:
                call(session, command)
            await held.value.work.until_over()
            await server.run(other, b"XADD", b"s", b"7-0", b"f", b"v")
            assert b"7-0" in await server.run(session, *command)
            await server.run(other, b"XDEL", b"s", b"7-0")
            with pytest.raises(HeldError) as held:
                call(session, command)
            await held.value.work.until_over()
            with pytest.raises(BlockError):
                call(session, command)

    asyncio.run(run())


def test_a_key_that_a_command_names_twice_gives_its_entries_once() -> None:
    async def run(slice_size: int) -> tuple[list[bytes], Group]:
        with slices_of(slice_size):
            server = StreamsInMemory(b"s")
            session = server.session()
            for number in range(1, 7):
                await server.run(session, b"XADD", b"s", b"%d-0" % number, b"f", b"v")
            await server.run(session, b"XGROUP", b"CREATE", b"s", b"g", b"0")
            read = (b"XREADGROUP", b"GROUP", b"g", b"alice", b"COUNT", b"2", b"STREAMS", b"s", b"s")
            replies = [
                await server.run(session, *read, *after) for after in ((b">", b">"), (b">", b"0"), (b">", b"4-0"))
            ]
            claim = (b"XREADGROUP", b"GROUP", b"g", b"bob", b"CLAIM", b"0", b"STREAMS", b"s", b"s", b">", b">")
            return [*replies, await server.run(session, *claim)], server.streams[b"s"].groups[b"g"]

    for slice_size in (1, 2, 1_000):
        replies, group = asyncio.run(run(slice_size))
        assert [re.findall(rb"(\d)-0\r\n", each) for each in replies] == [
            [b"1", b"2", b"3", b"4"],
            [b"5", b"6", b"1", b"2"],
            [b"5", b"6"],
            [b"1", b"2", b"3", b"4", b"5", b"6"],
        ]
        assert [each.count for _, each in group.pending_from(0, 1 << 128)] == [3, 3, 2, 2, 3, 3]
        assert group.entries_read == 6


@given(st.data())
def test_entries_read_is_what_it_is_when_counted_one_by_one(data: st.DataObject) -> None:
    stream = Stream(NodeLimits(entries_max=3), lambda each: None)
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        stream.append(number, [b"f", b"v"], 0)
    for entry_id in data.draw(st.lists(st.integers(1, 12), unique=True, max_size=8)):
        if stream.has(entry_id):
            stream.remove([entry_id], entry_id if data.draw(st.booleans()) else 0)
    group = Group(b"g", data.draw(st.integers(0, 12)), data.draw(st.integers(UNKNOWN, 12)))
    ids = [entry_id for entry_id, _ in stream.range(group.last_id + 1, 100)]
    ids = ids[: data.draw(st.integers(1, 12))]
    if not ids:
        return
    wanted, before = group.entries_read, group.last_id
    for entry_id in ids:
        if wanted != UNKNOWN and before >= stream.first_id and not stream.has_tombstone(before):
            wanted += 1
        else:
            wanted = stream.distance_to(entry_id)
        before = entry_id
    assert group_commands.entries_read_behind(stream, group, ids) == wanted
