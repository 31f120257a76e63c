"""What is encoded out of the log is what the entries in memory are encoded to."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateways.redis import long_reply
from ottla.gateways.redis.long_reply import Span, span_of
from ottla.gateways.redis.reply import entry
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_id import floor_bytes, id_bytes, id_text, parse_id, parse_ids
from ottla.gateways.redis.stream_log import StreamLog
from ottla.gateways.redis.stream_records import Began, Deleted, Trimmed
from ottla.native import assign_offsets, build_stream_batch, encode_entries, encode_logged_entries, parse_entry_ids
from ottla.native.errors import KernelError

FIELDS = st.lists(st.binary(max_size=300), min_size=2, max_size=34).map(lambda some: some[: len(some) // 2 * 2])


@given(st.lists(st.tuples(st.integers(0, (1 << 128) - 1), FIELDS), max_size=4))
def test_entries_are_encoded_as_one_by_one(entries: list[tuple[int, list[bytes]]]) -> None:
    assert encode_entries(entries) == b"".join(entry(id_text(entry_id), fields) for entry_id, fields in entries)


@given(st.lists(st.integers(0, (1 << 128) - 1).map(id_text) | st.sampled_from((b"5", b" 7-1", b"7-+1")), max_size=4))
def test_ids_are_read_as_one_by_one(texts: list[bytes]) -> None:
    assert parse_ids(texts) == [parse_id(each) for each in texts]


def test_what_is_no_plain_id_is_left_alone() -> None:
    assert parse_entry_ids([b"1-2", b"0-18446744073709551615"]) == [1 << 64 | 2, (1 << 64) - 1]
    for other in (b"5", b"1-", b"-", b"1-2-3", b"1-18446744073709551616", b"\xb9-1"):
        assert parse_entry_ids([b"1-2", other]) is None


def span_now(stream: Stream, first: int, last: int, count: int | None, *, is_reverse: bool) -> Span:
    steps = span_of(stream, first, last, count, is_reverse=is_reverse)
    try:
        while True:
            next(steps)
    except StopIteration as over:
        span: Span = over.value
        return span


class OneBatch:
    """A log of one batch, of which a read gives all."""

    def __init__(self, journal: list[Any]) -> None:
        batch = build_stream_batch(journal)
        self.high_watermark = assign_offsets(batch, 0, 0) + 1
        self._data = bytes(batch)

    async def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """All there is."""
        return self._data


@given(
    st.lists(FIELDS, min_size=1, max_size=9),
    st.sets(st.integers(1, 9)),
    st.integers(0, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.none() | st.integers(1, 5),
    st.booleans(),
)
def test_a_long_reply_out_of_the_log_is_that_out_of_memory(
    entries: list[list[bytes]],
    deleted: set[int],
    trimmed: int,
    first: int,
    last: int,
    count: int | None,
    is_reverse: bool,
) -> None:
    stream = Stream(NodeLimits(bytes_max=0, entries_max=3), lambda _: None)
    stream.mark(0, Began(0, b"s"))
    for entry_id, fields in enumerate(entries, 1):
        stream.append(entry_id, fields, 0)
    going = [each for each in sorted(deleted) if each <= len(entries)]
    if going:
        stream.mark(0, Deleted([id_bytes(each) for each in going], id_bytes(going[-1])))
    if stream.length:
        removed, floor, part = stream.plan_trim_length(max(0, stream.length - trimmed), 0, approximate=False)
        if removed:
            stream.mark(0, Trimmed(floor_bytes(floor), part))
    expected = list(stream.reverse_range(first, last) if is_reverse else stream.range(first, last))[:count]
    log = StreamLog(stream, "s", Mock(), Mock())
    partition = OneBatch(stream.take_journal())
    for node in stream.nodes:
        node.offset, node.written_id = node.journal_index, node.last_id
        stream.nodes.take(stream.nodes.end_of(node.first_id) - 1)

    async def reply(span: Span) -> bytes:
        return b"".join([piece async for piece in span.pieces()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_reply, "LONG_BYTES", -1)
        patch.setattr(log, "_partition", lambda: partition)
        stream.log = log
        span = span_now(stream, first, last, count, is_reverse=is_reverse)
        for node in list(stream.nodes):
            node.entries = None
        assert asyncio.run(reply(span)) == b"*%d\r\n%b" % (len(expected), encode_entries(expected))


def test_what_is_no_log_of_a_stream_is_refused() -> None:
    batch = build_stream_batch([(0, None, b"\x91\x01", (("redis", b"E" + id_bytes(1)),))])
    with pytest.raises(KernelError):
        encode_logged_entries(batch, 0, [(0, 5)], [], 5)
    with pytest.raises(KernelError):
        encode_logged_entries(bytes(batch)[:-1] + b"x", 0, [(0, 5)], [], 5)
