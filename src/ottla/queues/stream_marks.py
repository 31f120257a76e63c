"""Which records of a stream of Redis are marks: share groups and channels are not given them.

offsets   0 mark   1 entry   2 entry   3 mark      -->   (0, 0, mark)   (1, 2, entries)   (3, 3, mark)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.model.stream_record import HEADER, MARK
from ottla.native import decode_records
from ottla.native.errors import KernelError

if TYPE_CHECKING:
    from ottla.native import BatchInfo

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024

Span = tuple[int, int, bool]
"""First and last offset, and whether the records between are marks."""


class StreamMarks:
    """Of the batch that was looked at last, as a reader that takes one record at a time comes to it again."""

    def __init__(self) -> None:
        self._base_offset = -1
        self._spans: list[Span] = []

    def spans(self, data: bytes, batch: BatchInfo, first: int, last: int) -> list[Span]:
        """The spans of a part of a batch in `data`. One that cannot be opened has no marks."""
        if batch.base_offset != self._base_offset:
            self._spans = _spans(data[batch.position : batch.position + batch.size], batch)
            self._base_offset = batch.base_offset
        cut = ((max(start, first), min(end, last), is_mark) for start, end, is_mark in self._spans)
        return [span for span in cut if span[0] <= span[1]]


def _spans(data: bytes, batch: BatchInfo) -> list[Span]:
    spans: list[Span] = []
    expected = batch.base_offset
    try:
        for offset, _, _, _, headers in decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
            is_mark = (HEADER, MARK) in headers
            start = expected
            if spans and spans[-1][2] == is_mark:
                start = spans.pop()[0]
            spans.append((start, offset, is_mark))
            expected = offset + 1
    except KernelError:
        return [(batch.base_offset, batch.last_offset, False)]
    if expected <= batch.last_offset:
        spans.append((expected, batch.last_offset, False))
    return spans
