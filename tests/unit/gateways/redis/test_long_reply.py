"""What a long reply still needs stays in the log."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from ottla.gateways.redis.long_reply import HELD_MS, LongReplyError, Span, span_of
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_id import ID_MAX
from ottla.gateways.redis.stream_log import StreamLog
from ottla.gateways.redis.stream_records import Began
from ottla.gateways.redis.stream_snapshot import GARBAGE_MIN


@pytest.fixture
def stream() -> Stream:
    made = Stream(NodeLimits(bytes_max=0, entries_max=1), lambda _: None)
    made.mark(0, Began(0, b"s"))
    for entry_id in range(1, 4):
        made.append(entry_id, [b"f", b"x" * 500_000], 0)
    for node in made.nodes:
        node.offset, node.written_id = 0, node.last_id
    made.take_journal()
    made.unwritten.clear()
    made.garbage = GARBAGE_MIN
    return made


def whole_span(stream: Stream) -> Span | None:
    steps = span_of(stream, 0, ID_MAX, None)
    try:
        while True:
            next(steps)
    except StopIteration as over:
        span: Span | None = over.value
        return span


def test_nothing_is_freed_while_a_long_reply_is_read_within_a_time(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition: Any = Mock(high_watermark=2 * GARBAGE_MIN)
    partition.log.log_start_offset = 0
    log = StreamLog(stream, "s", Mock(), Mock())
    monkeypatch.setattr(log, "_partition", lambda: partition)
    monkeypatch.setattr(StreamLog, "is_current", True)
    monkeypatch.setattr(log, "settled", AsyncMock())

    def free(now_ms: int) -> bool:
        asyncio.run(log.free(now_ms))
        return bool(stream.take_journal())

    span = whole_span(stream)
    assert span is not None
    assert not free(1_000)
    assert not free(1_000 + HELD_MS - 1)
    LongReplyError([b"*1\r\n", span]).end()
    assert free(1_000 + HELD_MS - 1)

    stream.garbage = GARBAGE_MIN
    slow = whole_span(stream)
    assert slow is not None
    assert not free(5_000)
    assert free(5_000 + HELD_MS)
