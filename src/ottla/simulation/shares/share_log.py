"""The log of a simulated share partition: batches, gaps, aborted transactions with their markers."""

from bisect import bisect_right
from types import SimpleNamespace
from typing import Any, Final, cast

from ottla.native import build_batch
from ottla.replication.partition import Partition
from ottla.runtime.rng import Rng
from ottla.storage.log_config import LogConfig

BATCHES: Final = 25
RECORDS_MAX: Final = 5
GAP_CHANCE: Final = 0.1
ABORT_CHANCE: Final = 0.1
READ_BATCHES_MAX: Final = 4


class ShareLog:
    """Written before the run; `end` says up to where members may read, and rises."""

    def __init__(self, rng: Rng) -> None:
        self.values: list[tuple[int, str]] = []
        """The records that members are to get."""
        self._rng = rng
        self._batches: list[tuple[int, bytes]] = []
        self._aborted: list[tuple[int, int]] = []
        self._ends: list[int] = []
        self._visible = 0
        offset = 0
        for number in range(BATCHES):
            if rng.random() < GAP_CHANCE:
                offset += 1 + rng.randbelow(3)
            count = 1 + rng.randbelow(RECORDS_MAX)
            is_aborted = rng.random() < ABORT_CHANCE
            values = [f"{number}/{offset + each}" for each in range(count)]
            records = [(0, None, value.encode(), ()) for value in values]
            batch = build_batch(
                records,
                base_offset=offset,
                is_transactional=is_aborted,
                producer_id=number if is_aborted else -1,
                producer_epoch=0 if is_aborted else -1,
                base_sequence=0 if is_aborted else -1,
            )
            self._batches.append((offset, bytes(batch)))
            if is_aborted:
                self._aborted.append((number, offset))
                marker = build_batch(
                    [(0, b"\0\0\0\0", b"\0\0\0\0\0\0", ())],
                    base_offset=offset + count,
                    producer_id=number,
                    producer_epoch=0,
                    is_transactional=True,
                    is_control=True,
                )
                self._batches.append((offset + count, bytes(marker)))
                count += 1
            else:
                self.values += list(enumerate(values, offset))
            offset += count
            self._ends.append(offset)
        self.config = LogConfig()
        self.log_start_offset = 0

    @property
    def end(self) -> int:
        """The offset behind the last record that members may read."""
        return self._ends[self._visible - 1] if self._visible else 0

    @property
    def is_whole(self) -> bool:
        """Whether members may read all of it."""
        return self._visible == len(self._ends)

    def grow(self) -> None:
        """Another batch is committed."""
        self._visible = min(self._visible + 1, len(self._ends))

    def aborted_in(self, result: object, offset: int, end: int) -> list[tuple[int, int]]:
        """The producers and first offsets of the aborted transactions up to an end."""
        del result, offset
        return [each for each in self._aborted if each[1] < end]

    def read(self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool) -> Any:
        """Some of the batches from the one on that has an offset."""
        del max_bytes, min_one_batch
        at = max(0, bisect_right(self._batches, offset, key=lambda each: each[0]) - 1)
        count = 1 + self._rng.randbelow(READ_BATCHES_MAX)
        found = [data for first, data in self._batches[at : at + count] if first < max_offset]
        return SimpleNamespace(read=lambda: b"".join(found))

    def led(self, leader_epoch: int) -> Partition:
        """The partition as a leader of an epoch has it."""
        return cast("Partition", _Led(self, leader_epoch))


class _Led:
    def __init__(self, log: ShareLog, leader_epoch: int) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self.topic_partition = "jobs-0"
        self.read = log.read

    @property
    def high_watermark(self) -> int:
        return self.log.end

    @property
    def last_stable_offset(self) -> int:
        return self.log.end
