"""Marks of a stream are passed over by those that share its entries."""

import asyncio
import os
from pathlib import Path

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.stream_record import HEADER, MARK
from ottla.native import build_batch, walk_batches
from ottla.queues.acknowledgements import ACCEPT
from ottla.queues.stream_marks import StreamMarks
from ottla.runtime.tasks import Tasks
from tests.unit.queues.test_share_partition import LIMITS, share_over

ENTRY_HEADER = (HEADER, b"E" + bytes(16))
MARK_HEADER = (HEADER, MARK)


def stream_batch(kinds: str) -> bytes:
    """A batch of marks (m), entries (e) and records of other writers (o)."""
    headers = {"m": (MARK_HEADER,), "e": (ENTRY_HEADER,), "o": ()}
    return bytes(build_batch([(0, None, b"x", headers[kind]) for kind in kinds]))


def test_spans_are_cut_to_what_is_asked_for() -> None:
    data = stream_batch("meom")
    (batch,), _, _ = walk_batches(data, check_crc=False)
    marks = StreamMarks()
    assert marks.spans(data, batch, 0, 3) == [(0, 0, True), (1, 2, False), (3, 3, True)]
    assert marks.spans(data, batch, 2, 3) == [(2, 2, False), (3, 3, True)]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("max_records", [1, 2, 10])
def test_members_get_each_entry_once_and_no_mark(tmp_path: Path, max_records: int, exact: bool) -> None:
    kinds, log = ("meemme", "m", "em"), b""
    for each in kinds:
        log += sum(map(len, kinds[: kinds.index(each)])).to_bytes(8, "big") + stream_batch(each)[8:]
    (tmp_path / "log").write_bytes(log)
    fd = os.open(tmp_path / "log", os.O_RDONLY)

    async def run() -> list[int]:
        tasks = Tasks()
        share = share_over(fd, 9, tasks, is_stream=True)
        delivered: list[int] = []
        while True:
            taken = await share.acquire("m", LIMITS, max_bytes=1 << 20, max_records=max_records, exact=exact)
            if not taken.runs:
                break
            assert not exact or sum(last - first + 1 for first, last, _ in taken.runs) <= max_records
            for first, last, count in taken.runs:
                assert count == 1
                delivered += range(first, last + 1)
            accepted = [(first, last, ACCEPT) for first, last, _ in taken.runs]
            assert await share.settle("m", accepted, LIMITS) is ErrorCode.NONE
        assert share.ledger.start_offset == 9, "marks are done without having been delivered"
        await tasks.close()
        return delivered

    assert asyncio.run(run()) == [1, 2, 5, 7]
    os.close(fd)
