"""A partition over a real log, whose writes go out when a test says so, or are lost as on a full disk."""

import os
import select
import tempfile
import weakref
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.coordination.shard_loader import COMMIT_POLL_MS
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.native import walk_batches
from ottla.replication.acknowledgement import OnAck
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.partition import Partition
from ottla.runtime.disk import OsDisk
from ottla.storage.log_manager import LogManager
from ottla.storage.partition_metadata import format_partition_metadata
from tests.unit.coordination.toy import ManualEnvironment
from tests.unit.storage.held_log_io import HeldLogIo

TOPIC_ID = UUID(int=7)
PATIENCE_S = 60


class HeldPartition(Partition):
    """Commits at once what is appended, or by `commit` when it `holds_back`; committed is what was written."""

    def __init__(
        self, environment: ManualEnvironment, topic: str = "__words", index: int = 3, *, holds_back: bool = False
    ) -> None:
        directory = tempfile.TemporaryDirectory(prefix="ottla-test-")
        name = TopicPartition(topic, index)
        (Path(directory.name) / str(name)).mkdir()
        (Path(directory.name) / str(name) / "partition.metadata").write_bytes(format_partition_metadata(TOPIC_ID))
        self._timer = environment.timer
        self._io = HeldLogIo()
        self._logs = LogManager(
            directory.name,
            disk=OsDisk(),
            clock=environment.clock,
            timer=environment.timer,
            tasks=environment.tasks,
            log_io=lambda: self._io,
        )
        self._logs.load()
        log = self._logs.log(name)
        assert log is not None
        super().__init__(
            name,
            TOPIC_ID,
            log,
            leader_epoch=0,
            clock=environment.clock,
            tasks=environment.tasks,
            opener=BatchDecompressor(environment.tasks),
            flush_before_ack=False,
        )
        self._logs.directories[0].on_failure = lambda error: self.fail(str(error))
        self.holds_back = holds_back
        self.appends: list[int] = []
        """How many batches each append had."""
        self.read_error: Exception | None = None
        self.close = weakref.finalize(self, _close, self._logs, directory)
        """Ends its threads and removes its files; done by itself when nobody has it any more."""

    def append(self, records: Any, **options: Any) -> None:
        """As its own, but that nobody waits for the end of a turn of the loop."""
        batches, _, _ = walk_batches(records, check_crc=False)
        super().append(records, **options)
        self.appends.append(len(batches))
        if not self.holds_back:
            self.commit()

    def append_marker(self, marker: TransactionMarker, on_ack: OnAck) -> None:
        """Likewise."""
        super().append_marker(marker, on_ack)
        self.appends.append(1)
        if not self.holds_back:
            self.commit()

    def commit(self) -> None:
        """Everything appended so far is committed."""
        self._io.go()
        thread = select.poll()
        thread.register(self._io.fileno(), select.POLLIN)
        while self.unacknowledged_count:
            assert thread.poll(PATIENCE_S * 1000), "the thread has stopped"
            self._logs.directories[0].writer.poll()

    async def lose(self) -> None:
        """What was appended and not committed is lost: the disk is full, and has room again."""
        self._io.fill_disk()
        self._logs.directories[0].writer.poll()
        resuming = self._tasks.spawn(self._logs.directories[0].resume(), "resume")
        while not resuming.done():
            self._io.go()
            self._logs.directories[0].writer.poll()
            await self._tasks.in_thread(lambda: None)
        resuming.result()
        # Whoever waits for what was lost looks again.
        self._timer.advance(COMMIT_POLL_MS)

    async def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        if self.read_error is not None:
            raise self.read_error
        return await super().read_bytes(offset, max_bytes)

    @property
    def batches(self) -> list[tuple[int, int, bytes]]:
        """What is committed, by batch: its first offset, the one after its last, its bytes."""
        result = self.read(0, 1 << 30, max_offset=self.high_watermark, min_one_batch=True)
        data = b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in result.slices)
        batches, _, _ = walk_batches(data, check_crc=True)
        return [
            (each.base_offset, each.last_offset + 1, data[each.position : each.position + each.size])
            for each in batches
        ]


def _close(logs: LogManager, directory: tempfile.TemporaryDirectory[str]) -> None:
    logs.directories[0].writer.finish()
    directory.cleanup()
