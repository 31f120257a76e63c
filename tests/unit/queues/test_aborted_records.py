"""Records of aborted transactions are passed over, and none of the same producer that are committed."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from ottla.native import build_batch
from ottla.queues.log_reader import LogReader
from ottla.queues.recent_reads import RecentReads
from ottla.queues.record_spans import RecordSpans
from ottla.queues.share_state import ShareKey
from ottla.runtime.file_slice import FileSlice
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.storage.log_config import LogConfig
from ottla.storage.log_read_result import LogReadResult

PRODUCER = 7


def batch(base_offset: int, count: int) -> bytes:
    return bytes(
        build_batch(
            [(0, None, b"x" * 100, ())] * count,
            base_offset=base_offset,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def marker(offset: int, *, is_commit: bool) -> bytes:
    record = [(0, bytes((0, 0, 0, int(is_commit))), bytes(6), ())]
    return bytes(
        build_batch(
            record,
            base_offset=offset,
            producer_id=PRODUCER,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
    )


async def delivered_one_after_the_other(fd: int, end: int, max_bytes: int) -> list[int]:
    """The offsets that have a record for members, asked for one by one of what is kept of one read."""
    size = os.fstat(fd).st_size
    reads = []

    def read(*asked: object, **more: object) -> LogReadResult:
        reads.append(asked)
        return LogReadResult((FileSlice(fd, 0, size, None),), size)

    log = SimpleNamespace(aborted_in=lambda *asked: [(PRODUCER, 0)], config=LogConfig())
    partition = cast("Any", SimpleNamespace(read=read, log=log, high_watermark=end, last_stable_offset=end))
    tasks = Tasks()
    reader = LogReader(partition, ShareKey("g", UUID(int=1), 0), 0, RecentReads(), tasks)
    spans = RecordSpans(partition, ManualTimer().clock)
    found = []
    for offset in range(end):
        known = await reader.read(offset, max_bytes, 1, read_committed=True)
        first = next(spans.of(known.data, known.batches, known.undone, offset, end))
        if first.passed_over is None:
            found.append(first.first)
    await tasks.close()
    assert len(reads) == 1
    return found


def test_records_behind_an_aborted_transaction_are_delivered_though_the_read_began_within_it(tmp_path: Path) -> None:
    log = batch(0, 2) + marker(2, is_commit=False) + batch(3, 2) + batch(5, 1) + marker(6, is_commit=True)
    (tmp_path / "log").write_bytes(log)
    fd = os.open(tmp_path / "log", os.O_RDONLY)
    for max_bytes in (1 << 20, 1):
        assert asyncio.run(delivered_one_after_the_other(fd, 7, max_bytes)) == [3, 4, 5]
    os.close(fd)
