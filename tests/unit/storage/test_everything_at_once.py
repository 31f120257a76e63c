"""Logs of a few names live and die, again and again, beside readers, retention, truncation and checkpoints.

Every record says which log it belongs to and has a time that goes with its offset, so a reader knows what it may get.
"""

import asyncio
import random
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_partition import TopicPartition
from ottla.native import decode_records
from ottla.runtime.disk import OsDisk, StrPath
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from tests.unit.storage.data_directory import (
    NOW_MS,
    OpenDirectory,
    batch,
    batches_in,
    bytes_of,
    copy_as_after_a_kill,
    opened,
)

NAMES = [TopicPartition("t", index) for index in range(3)]
LIVES, STEPS_OF_A_LIFE, READERS = 12, 30, 5
MANY = 1 << 60
CONFIG = LogConfig(
    segment_bytes=3000,
    index_interval_bytes=200,
    retention_bytes=9000,
    file_delete_delay_ms=0,
    message_timestamp_after_max_ms=MANY,
)
MAY_BE_ANSWERED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the log was deleted
    ErrorCode.KAFKA_STORAGE_ERROR,  # it is being truncated
    ErrorCode.OFFSET_OUT_OF_RANGE,  # its start moved
}


class UnevenDisk(OsDisk):
    """Takes now and then some milliseconds longer, so that threads overtake each other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def _wait(self) -> None:
        if self._chance.random() < 0.2:
            time.sleep(self._chance.random() * 0.002)

    def open_read(self, path: StrPath) -> int:
        self._wait()
        return super().open_read(path)

    def read_bytes(self, path: StrPath) -> bytes:
        self._wait()
        return super().read_bytes(path)

    def rename(self, old: StrPath, new: StrPath, *, durable: bool = True) -> None:
        self._wait()
        super().rename(old, new, durable=durable)

    def write_atomic(self, path: StrPath, data: bytes) -> None:
        self._wait()
        super().write_atomic(path, data)


@dataclass
class Stage:
    """What everybody shares."""

    directory: OpenDirectory
    chance: random.Random
    lives_left: int = LIVES * len(NAMES)
    truncations: dict[UUID, int] = field(default_factory=dict)
    """How often the truncation of a log began or ended."""
    seen: set[str] = field(default_factory=set)

    def records(self, log: Log, count: int) -> bytearray:
        value = str(log.topic_id).encode() + b"|" * self.chance.randrange(10, 600)
        return batch(count, value=value, timestamp=NOW_MS + log.log_end_offset, step_ms=1)


def check_records(topic_id: UUID, data: bytes) -> None:
    """All of `data` belongs to one log, and each record is where it belongs."""
    found = batches_in(data)
    if found:
        position = found[-1][0]
        end = position + 12 + struct.unpack_from(">i", data, position + 8)[0]
        for offset, timestamp, _, value, _ in decode_records(data[:end], max_decompressed_bytes=1 << 30):
            assert value is not None
            assert value.rstrip(b"|") == str(topic_id).encode()
            assert timestamp == NOW_MS + offset


async def live(stage: Stage, name: TopicPartition) -> None:
    """Logs of one name, one after another."""
    chance, manager = stage.chance, stage.directory.manager
    for _ in range(LIVES):
        log = await manager.create_log(name, UUID(int=chance.getrandbits(120)), CONFIG)
        assert (log.log_end_offset, log.size) == (0, 0)
        for _ in range(chance.randrange(1, STEPS_OF_A_LIFE)):
            step = chance.random()
            if step < 0.7:
                stage.directory.append(log, stage.records(log, chance.randrange(1, 4)), sync=chance.random() < 0.5)
            elif step < 0.8:
                log.delete_records_before(chance.randrange(log.log_start_offset, log.written_end_offset + 1))
            elif step < 0.85:
                stage.truncations[log.topic_id] = stage.truncations.get(log.topic_id, 0) + 1
                await manager.truncate_log(log, chance.randrange(log.log_start_offset, log.log_end_offset + 1))
                stage.truncations[log.topic_id] += 1
            else:
                await log.flush()
        await manager.delete_log(name)
        stage.lives_left -= 1


async def read(stage: Stage, log: Log) -> None:
    offset = stage.chance.randrange(log.log_start_offset, log.log_end_offset + 1)
    look_up = log.look_up(offset)
    if look_up is not None:
        await stage.directory.tasks.in_thread(look_up)
    result = log.read(offset, stage.chance.choice([1, 500, 5000]), max_offset=MANY)
    await asyncio.sleep(0)
    check_records(log.topic_id, bytes_of(result))


async def look_up_time(stage: Stage, log: Log) -> None:
    wanted = stage.chance.randrange(0, 60)
    before, start, end = stage.truncations.get(log.topic_id, 0), log.log_start_offset, log.written_end_offset
    found = await log.offset_for_timestamp(NOW_MS + wanted)
    if before == stage.truncations.get(log.topic_id, 0) and before % 2 == 0:
        if found is None:
            assert max(wanted, log.log_start_offset) >= end
        else:
            assert max(wanted, start) <= found[1] <= max(wanted, log.log_start_offset)
            assert found[0] == NOW_MS + found[1]


async def look_up_greatest(stage: Stage, log: Log) -> None:
    before, end = stage.truncations.get(log.topic_id, 0), log.written_end_offset
    found = await log.max_timestamp_offset()
    if before == stage.truncations.get(log.topic_id, 0) and before % 2 == 0:
        if found is None:
            assert log.log_start_offset >= end
        else:
            assert end - 1 <= found[1] < log.written_end_offset
            assert found[0] == NOW_MS + found[1]


async def keep_reading(stage: Stage) -> None:
    while stage.lives_left:
        await asyncio.sleep(0)
        logs = stage.directory.manager.logs()
        if logs:
            log, ask = stage.chance.choice(logs), stage.chance.choice([read, look_up_time, look_up_greatest])
            try:
                await ask(stage, log)
                stage.seen.add(ask.__name__)
            except ApiError as error:
                if error.code not in MAY_BE_ANSWERED:
                    raise


async def keep_doing(stage: Stage, work: Callable[[], Awaitable[object]]) -> None:
    while stage.lives_left:
        await work()
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_every_reader_gets_the_log_it_asked_for_and_the_next_start_finds_what_was_flushed(
    tmp_path: Path, seed: int
):
    chance, path = random.Random(seed), tmp_path / "data"
    last: dict[TopicPartition, tuple[UUID, int]] = {}
    async with opened(path, disk=UnevenDisk(chance), open_files_max=3) as directory:
        stage, manager = Stage(directory, chance), directory.manager
        async with asyncio.TaskGroup() as everybody:
            for name in NAMES:
                everybody.create_task(live(stage, name))
            for _ in range(READERS):
                everybody.create_task(keep_reading(stage))
            for work in (
                manager.apply_retention,
                manager.checkpoint_recovery_points,
                manager.checkpoint_log_starts,
                manager.checkpoint_high_watermarks,
            ):
                everybody.create_task(keep_doing(stage, work))
        assert stage.seen == {"read", "look_up_time", "look_up_greatest"}
        for name in NAMES:
            log = await manager.create_log(name, UUID(int=chance.getrandbits(120)), CONFIG)
            await directory.append_all(log, [stage.records(log, 2)])
            last[name] = log.topic_id, log.log_end_offset
        killed = copy_as_after_a_kill(path)
    for left in (killed, path):
        async with opened(left) as directory:
            found = {log.topic_partition: log for log in directory.manager.logs()}
            assert {name: (log.topic_id, log.log_end_offset) for name, log in found.items()} == last
            for log in found.values():
                check_records(log.topic_id, bytes_of(log.read(0, 1 << 20, max_offset=MANY)))
