"""A data directory on a real file system, driven by the tests' event loop."""

import asyncio
import contextlib
import os
import shutil
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch, validate_batches
from ottla.runtime.clock import ManualClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.rng import SeededRng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import ManualTimer
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.append_run import BatchRun
from ottla.storage.load_report import LoadReport
from ottla.storage.log import Log
from ottla.storage.log_append_info import LogAppendInfo
from ottla.storage.log_config import LogConfig
from ottla.storage.log_io import SYNC
from ottla.storage.log_manager import LogManager
from ottla.storage.log_read_result import LogReadResult

TOPIC_ID = UUID("7f2c1f6e-54a2-4b6c-9d3e-0a1b2c3d4e5f")
ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000


def batch(
    count: int = 1,
    *,
    value: bytes = b"v",
    timestamp: int = NOW_MS,
    step_ms: int = 0,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    codec: int = 0,
) -> bytearray:
    """A batch as a client sends it: `count` records of `value`, `step_ms` apart."""
    return build_batch(
        [(timestamp + index * step_ms, b"key", value, []) for index in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        codec=codec,
    )


@dataclass
class OpenDirectory:
    """A directory that is open, its manager, and the time in it."""

    manager: LogManager
    report: LoadReport
    clock: ManualClock
    timer: ManualTimer
    tasks: Tasks
    stages: list[tuple[int, int]] = field(default_factory=list)

    async def log(self, config: LogConfig | None = None, topic_partition: TopicPartition = ORDERS) -> Log:
        """The log of a partition, made when missing."""
        return await self.manager.create_log(topic_partition, TOPIC_ID, config or LogConfig())

    def append(
        self,
        log: Log,
        records: bytearray,
        *,
        epoch: int = 0,
        sync: bool = True,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        then: Callable[[int], None] | None = None,
    ) -> LogAppendInfo:
        """Append without waiting; `stages` tells what becomes of it, `then` gets the end offset once it is synced."""

        def on_stage(stage: int, errno: int) -> None:
            self.stages.append((stage, errno))
            if stage == SYNC and errno == 0 and then is not None:
                then(info.last_offset + 1)

        info = log.append(
            BatchRun(memoryview(records), validate_batches(records)),
            leader_epoch=epoch,
            now_ms=self.clock.now_ms(),
            origin=origin,
            on_stage=on_stage,
            sync=sync,
        )
        assert info is not None
        return info

    async def append_all(self, log: Log, batches: Sequence[bytearray], **options: Any) -> None:
        """Append and wait until everything is on disk."""
        for records in batches:
            self.append(log, records, **options)
        await log.flush()

    async def in_line(self, count: int = 1) -> None:
        """Until so many wait for the lock of `orders-0`; whoever comes to it later may find everything done."""
        while len(self.manager.cleaner._locks._waiting.get(ORDERS, ())) < count:  # noqa: ASYNC110 only a test asks
            await asyncio.sleep(0.001)

    async def pass_time(self, ms: int) -> None:
        """Let time pass and wait for what was started by it."""
        self.timer.advance(ms)
        idle = asyncio.get_running_loop().create_future()

        def look() -> None:
            if not self.tasks:
                idle.set_result(None)
            else:
                asyncio.get_running_loop().call_later(0.001, look)

        look()
        await idle


@contextlib.asynccontextmanager
async def opened(
    path: Path | Sequence[Path], *, clean: bool = True, disk: OsDisk | None = None, **options: Any
) -> AsyncIterator[OpenDirectory]:
    """Load a directory, and close it at the end."""
    clock = ManualClock(NOW_MS)
    timer, tasks = ManualTimer(clock), Tasks("test")
    manager = LogManager(
        path, **{"disk": disk or OsDisk(), "rng": SeededRng(1), **options}, clock=clock, timer=timer, tasks=tasks
    )
    report = manager.load()
    manager.attach(asyncio.get_running_loop())
    try:
        yield OpenDirectory(manager, report, clock, timer, tasks)
    finally:
        await manager.close(clean=clean)
        await tasks.close()


def copy_as_after_a_kill(path: Path, name: str = "after-the-kill") -> Path:
    """The directory as another process would find it if this one were killed now."""
    copy = path.parent / name
    shutil.copytree(path, copy)
    return copy


def bytes_of(result: LogReadResult) -> bytes:
    """What a socket would get."""
    return b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in result.slices)


def batches_in(data: bytes | bytearray) -> list[tuple[int, int, int]]:
    """Position, base offset and last offset of each whole batch, by the header alone."""
    found, position = [], 0
    while position + 61 <= len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        (delta,) = struct.unpack_from(">i", data, position + 23)
        if position + 12 + length > len(data):
            break
        found.append((position, base_offset, base_offset + delta))
        position += 12 + length
    return found


def files_of(directory: Path, suffix: str) -> list[Path]:
    """The files of a kind, by offset."""
    return sorted(directory.glob(f"*{suffix}"))


def names_in(directory: Path, pattern: str = "*") -> list[str]:
    """The names in a directory that match."""
    return sorted(path.name for path in directory.glob(pattern))


def kafkas_indexes(data: bytes, base_offset: int, interval: int) -> tuple[bytes, bytes]:
    """What Kafka's LogSegment.append writes for these batches, with the time index completed as when it closes."""
    index, times, since = b"", b"", 0
    greatest, last_indexed = (-1, base_offset), -1
    for position, _, last_offset in batches_in(data):
        (timestamp,) = struct.unpack_from(">q", data, position + 35)
        (length,) = struct.unpack_from(">i", data, position + 8)
        if timestamp > greatest[0]:
            greatest = (timestamp, last_offset)
        if since > interval:
            index += struct.pack(">ii", last_offset - base_offset, position)
            if greatest[0] > last_indexed:
                times += struct.pack(">qi", greatest[0], greatest[1] - base_offset)
                last_indexed = greatest[0]
            since = 0
        since += 12 + length
    if greatest[0] > last_indexed:
        times += struct.pack(">qi", greatest[0], greatest[1] - base_offset)
    return index, times
