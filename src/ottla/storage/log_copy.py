"""Copies a log into a future log, batch by batch as they are, while the log goes on growing.

log     [ segment ][ segment ][ segment ........... ]<- appends
             |
future  [ segment ][ segm.. ]<- copied up to here
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo, walk_batches
from ottla.storage.append_origin import AppendOrigin
from ottla.storage.append_run import LeaderRun
from ottla.storage.batch_runs import runs_of
from ottla.storage.log import Log
from ottla.storage.log_read_result import LogReadResult
from ottla.storage.log_resources import InThread

COPIED_BYTES: Final = 1 << 20
"""What is read and written at a time: what others write to the same disk waits behind it."""

_BASE_OFFSET_BYTES: Final = 8
"""The base offset of a batch comes first in it."""


class StaleCopyError(Exception):
    """The log was cut or loaded again: its copy may hold what it does not, and begins anew."""


class LogCopy:
    """One copy of one log. Belongs to the event loop; what waits for a disk does so in threads."""

    __slots__ = ("_in_thread", "_segments", "future", "log")

    def __init__(self, log: Log, future: Log, in_thread: InThread) -> None:
        """`future` is empty, and ends where the first batch of the log begins, or before it."""
        self.log = log
        self.future = future
        self._in_thread = in_thread
        self._segments = log.segments

    @staticmethod
    def has_more(copied: int) -> bool:
        """Whether a step that copied so much has left more than the next one may copy."""
        return copied >= COPIED_BYTES // 2

    async def step(self, now_ms: int) -> int:
        """Copy some batches; returns their bytes, 0 when all that is written is copied.

        Raises StaleCopyError; ApiError CORRUPT_MESSAGE and the like when the log cannot be read, KAFKA_STORAGE_ERROR
        when either disk fails.
        """
        log, future = self.log, self.future
        offset = max(future.log_end_offset, log.log_start_offset)
        look_up = log.look_up(offset)
        if look_up is not None:
            await self._in_thread(look_up)
        if log.segments is not self._segments:
            raise StaleCopyError
        result = log.read(max(offset, log.log_start_offset), COPIED_BYTES, max_offset=log.written_end_offset)
        if not result.slices:
            return 0
        data, batches = await self._in_thread(_batches_of, result)
        if log.segments is not self._segments:
            raise StaleCopyError
        if not batches:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition} cannot be read at offset {offset}")
        errno = await self._append(data, batches, now_ms)
        if errno:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{future.directory}: {os.strerror(errno)}")
        return batches[-1].position + batches[-1].size

    async def _append(self, data: bytes, batches: Sequence[BatchInfo], now_ms: int) -> int:
        """Returns errno, 0 once they are written."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_stage(stage: int, errno: int) -> None:
            del stage
            if not done.done():
                done.set_result(errno)

        view = memoryview(data)
        for run in runs_of(batches):
            last = run[-1]
            self.future.append(
                LeaderRun(view[run[0].position : last.position + last.size], run),
                leader_epoch=run[0].leader_epoch,
                now_ms=now_ms,
                origin=AppendOrigin.REPLICATION,
                on_stage=on_stage if last is batches[-1] else None,
                sync=False,
            )
        return await done


async def first_offset_of(log: Log, in_thread: InThread) -> int:
    """Where a copy of a log begins: where the log does, or its first batch before that. Raises ApiError, OSError."""
    look_up = log.look_up(log.log_start_offset)
    if look_up is not None:
        await in_thread(look_up)
    result = log.read(log.log_start_offset, 1, max_offset=log.written_end_offset)
    if not result.slices:
        return log.log_start_offset
    piece = result.slices[0]
    base_offset = int.from_bytes(await in_thread(os.pread, piece.fd, _BASE_OFFSET_BYTES, piece.position))
    return min(base_offset, log.log_start_offset)


def _batches_of(result: LogReadResult) -> tuple[bytes, list[BatchInfo]]:
    """The whole batches of what was read, each checked against its CRC. BLOCKING. Raises KernelError."""
    data = b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in result.slices)
    batches, _, broken = walk_batches(data, check_crc=True)
    if broken is not None and not batches:
        raise broken
    return data, batches
