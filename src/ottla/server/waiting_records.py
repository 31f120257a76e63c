"""Reads records of a delay topic from the log once they are due: they lie in any order and in any batch."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import decode_at
from ottla.replication.partition import Partition
from ottla.runtime.tasks import Tasks
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX
from ottla.storage.log_read_result import LogReadResult

DENSE: Final = 8
"""Where at least one record in so many is wanted, the log is read as a whole."""

READ_BYTES: Final = 1 << 20
_OVERHEAD: Final = 64


class WaitingRecord(NamedTuple):
    """A record, and when it is due, as the index says."""

    due_ms: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def size(self) -> int:
        """About how many bytes it takes in a batch."""
        headers = sum(len(name) + len(value or b"") + _OVERHEAD for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + _OVERHEAD


Decoded = list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]


class TooManyBytesError(Exception):
    """The records that were asked for together are larger than was allowed."""


async def read_waiting(
    partition: Partition, due: Sequence[tuple[int, int]], tasks: Tasks, bytes_max: int
) -> list[WaitingRecord]:
    """The records at (due time, offset), in this order. Raises TooManyBytesError, ApiError and KernelError."""
    offsets = sorted(offset for _, offset in due)
    end = partition.last_stable_offset
    found: Decoded = []
    if offsets[-1] - offsets[0] < DENSE * len(offsets):
        while len(found) < len(offsets):
            result = partition.read(offsets[len(found)], READ_BYTES, max_offset=end, min_one_batch=True)
            more = await tasks.in_thread(_read_all, [result], offsets[len(found) :], bytes_max)
            if not more:
                break
            found += more
            bytes_max -= sum(map(_bytes, more))
    else:
        results = [partition.read(offset, 1, max_offset=end, min_one_batch=True) for offset in offsets]
        found = await tasks.in_thread(_read_all, results, offsets, bytes_max)
    if [each[0] for each in found] != offsets:
        where = partition.topic_partition
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{where}: records that are due are not in the log")
    by_offset = {each[0]: each for each in found}
    return [WaitingRecord(due_ms, *by_offset[offset]) for due_ms, offset in due]


def _bytes(record: tuple[int, int, bytes | None, bytes | None, object]) -> int:
    return len(record[2] or b"") + len(record[3] or b"")


def _read_all(results: Sequence[LogReadResult], offsets: Sequence[int], bytes_max: int) -> Decoded:
    """What the results hold of the records at these offsets; one result for all, or one for each."""
    found: Decoded = []
    for index, result in enumerate(results):
        if len(results) > 1 and len(found) > index:
            continue  # it lay in a batch that was read already
        more = decode_at(result.read(), offsets[len(found) :], max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
        found += more
        bytes_max -= sum(map(_bytes, more))
        if bytes_max < 0:
            raise TooManyBytesError
    return found
