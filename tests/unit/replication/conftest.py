"""A partition over a real log, driven by the loop of the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import UUID

import pytest

from ottla.model.topic_partition import TopicPartition
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.partition import Partition
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer
from ottla.storage.log_config import LogConfig
from ottla.storage.log_manager import LogManager

NewPartition = Callable[..., "asyncio.Future[Partition]"]


class Appended:
    """Collects what an append reports."""

    def __init__(self) -> None:
        self.ack: asyncio.Future[AppendAck] = asyncio.get_running_loop().create_future()
        self.freed = 0

    def on_ack(self, ack: AppendAck) -> None:
        self.ack.set_result(ack)

    def on_buffer_free(self) -> None:
        self.freed += 1


@pytest.fixture
async def new_partition(tmp_path: Path) -> AsyncIterator[Callable[..., object]]:
    """Makes partitions of a topic `t` in one data directory; `on_change` is told of what readers notice."""
    clock = SystemClock()
    tasks = Tasks("test")
    its_opener = BatchDecompressor(Tasks("open"))
    loop = asyncio.get_running_loop()
    timer = Timer(clock, loop.call_later)
    logs = LogManager(tmp_path, disk=OsDisk(), clock=clock, timer=timer, tasks=tasks)
    logs.load()
    logs.attach(loop)

    async def make(
        index: int = 0,
        *,
        flush_before_ack: bool = True,
        config: LogConfig | None = None,
        on_change: Callable[[Partition], None] | None = None,
        opener: BatchDecompressor | None = None,
    ) -> Partition:
        name = TopicPartition("t", index)
        log = await logs.create_log(name, UUID(int=7), config or LogConfig())
        partition = Partition(
            name,
            UUID(int=7),
            log,
            leader_epoch=3,
            clock=clock,
            tasks=tasks,
            opener=opener or its_opener,
            flush_before_ack=flush_before_ack,
        )
        if on_change is not None:
            partition.subscribe(on_change)
        return partition

    yield make
    await its_opener.close()
    await logs.close()
    timer.close()
    await tasks.close()
