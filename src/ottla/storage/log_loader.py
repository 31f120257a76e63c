"""Finding out what a log's directory holds: quickly after a clean stop, with recovery otherwise. BLOCKING.

After a clean stop a log costs a directory listing, its small files, the indexes of its newest segment and the few
kilobytes after the last index entry.
"""

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo
from ottla.runtime.disk import Disk
from ottla.runtime.parallel import map_in_threads
from ottla.runtime.rng import Rng
from ottla.storage.compaction.segment_swap import settle
from ottla.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
)
from ottla.storage.leader_epoch_cache import LeaderEpochCache, read_leader_epochs
from ottla.storage.log_config import LONG_MAX, LogConfig
from ottla.storage.log_recovery import CutTail, DamagedSegment, LogRecovery
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_state import LogState
from ottla.storage.log_writer import LogWriter
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.producer_replay import ProducerReplay
from ottla.storage.segment_tail import SegmentTail, read_tail, recovered_tail
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index_loading import TransactionIndexLoading

_INDEX_SUFFIXES: Final = tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG_SUFFIX)

logger: Final = logging.getLogger(__name__)


class Checkpoints(Struct, frozen=True):
    """What the data directory remembers of a log: `recovery_point` is None when it remembers nothing.

    `was_failing` says that what is in the page cache above the recovery point may not be what is on disk.
    """

    was_clean: bool
    recovery_point: int | None = None
    log_start_offset: int = 0
    was_failing: bool = False


class LoadedLog(Struct, frozen=True):
    """What was found, what recovery read again, in bytes, what it cut, and what is damaged.

    `to_sync` are the files `make_durable` must sync before the log is used.
    """

    state: LogState
    scanned_bytes: int
    cut: CutTail | None
    damaged: tuple[DamagedSegment, ...] = ()
    to_sync: tuple[str, ...] = ()


class LogLoader:
    """Loads the log of one partition."""

    __slots__ = (
        "_disk",
        "_epochs",
        "_now_ms",
        "_rng",
        "_saw_markers",
        "_sizes",
        "_unsynced",
        "_writer",
        "config",
        "directory",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        disk: Disk,
        writer: LogWriter,
        now_ms: int,
        unsynced: set[str],
        rng: Rng,
    ) -> None:
        """`unsynced` gets the files whose content is to be made durable before the log counts as closed."""
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self._disk = disk
        self._writer = writer
        self._now_ms = now_ms
        self._unsynced = unsynced
        self._rng = rng
        self._sizes: dict[str, int] = {}
        self._epochs = LeaderEpochCache()
        self._saw_markers = False

    def bytes_to_check(self, checkpoints: Checkpoints) -> int:
        """At most so much of the log `load`, which comes next, will check: nothing after a clean stop.

        Raises OSError.
        """
        if checkpoints.was_clean:
            return 0
        self._sizes = self._file_sizes()
        segments = self._list_segments(checkpoints.log_start_offset)
        point = -1 if checkpoints.recovery_point is None else checkpoints.recovery_point
        ends = [*(segment.base_offset for segment in segments[1:]), math.inf]
        return sum(segment.size for segment, end in zip(segments, ends, strict=True) if end > point)

    def load(self, checkpoints: Checkpoints) -> LoadedLog:
        """Load what is there; a directory without segments is an empty log. Raises OSError.

        `make_durable` must follow before the log is used.
        """
        self._sizes = self._sizes or self._file_sizes()
        self._remove_leftovers()
        if not self._read_epochs():
            checkpoints = replace(checkpoints, was_clean=False, recovery_point=None)
        segments = self._list_segments(checkpoints.log_start_offset)
        recovery = LogRecovery(
            self._disk,
            self.topic_partition,
            self.config.index_interval_bytes,
            self._see_batch,
            self._unsynced,
            drops_cache=checkpoints.was_failing,
        )
        for segment in segments[:-1]:
            if not self._has_indexes(segment) or not (checkpoints.was_clean or recovery.has_sound_indexes(segment)):
                recovery.rebuild_indexes(segment)
        cut, trusted_up_to = None, LONG_MAX
        batches: Sequence[BatchInfo] | None = None
        tail = read_tail(self._disk, segments[-1]) if checkpoints.was_clean else None
        if tail is None:
            point = segments[-1].base_offset if checkpoints.was_clean else checkpoints.recovery_point
            cut = recovery.recover(segments, point)
            trusted_up_to = segments[0].base_offset if point is None else point
            newest = recovery.newest
            if newest is not None and newest.segment is segments[-1]:
                tail, batches = recovered_tail(self._disk, newest), newest.batches
            else:
                tail = read_tail(self._disk, segments[-1])
            assert tail is not None, "a recovered segment can be read to its end"
        log_start_offset = max(checkpoints.log_start_offset, segments[0].base_offset)
        if log_start_offset > tail.end_offset:
            tail, batches = self._begin_anew(segments, log_start_offset), ()
            recovery.to_sync.clear()
            self._saw_markers = False
        state = self._state(segments, tail, log_start_offset, trusted_up_to, batches)
        return LoadedLog(state, recovery.scanned_bytes, cut, tuple(recovery.damaged), tuple(recovery.to_sync))

    def _state(
        self,
        segments: list[LogSegment],
        tail: SegmentTail,
        log_start_offset: int,
        trusted_up_to: int,
        batches: Sequence[BatchInfo] | None,
    ) -> LogState:
        """`batches` are those of the newest segment where they were read."""
        end_offset = tail.end_offset
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        replay = ProducerReplay(self._disk, self.directory, self._sizes, self._now_ms)
        indexes = TransactionIndexLoading(self._disk, segments, end_offset, trusted_up_to)
        if self._saw_markers:
            indexes.rebuild_from_trusted()
        snapshot_offset, producers = replay.load(segments, end_offset, indexes.rebuild_from, batches)
        transaction_index = indexes.complete(replay.aborted, self._unsynced)
        return LogState(
            segments,
            tail.appender(self._writer, self._now_ms, self._rng.random(), transaction_index),
            log_start_offset,
            end_offset,
            self._epochs,
            producers,
            snapshot_offset,
        )

    def _file_sizes(self) -> dict[str, int]:
        """The files of the log, once what a crash interrupted of a compaction is completed or undone."""
        sizes = self._disk.file_sizes(self.directory)
        return self._disk.file_sizes(self.directory) if settle(self._disk, self.directory, sizes) else sizes

    def _remove_leftovers(self) -> None:
        """Remove what waited to be, and the indexes of a segment whose deletion was cut short after its first file."""
        for name in [name for name in self._sizes if name.endswith(DELETED_SUFFIX) or self._is_orphan(name)]:
            self._disk.remove(f"{self.directory}/{name}")
            del self._sizes[name]

    def _is_orphan(self, name: str) -> bool:
        parsed = parse_offset_file_name(name) if name.endswith(_INDEX_SUFFIXES) else None
        return parsed is not None and offset_file_name(parsed[0], LOG_SUFFIX) not in self._sizes

    def _read_epochs(self) -> bool:
        """Read the leader epochs; False if they must be found again in the batches."""
        if LEADER_EPOCH_CHECKPOINT in self._sizes:
            try:
                self._epochs = read_leader_epochs(self._disk, f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
            except InvalidInputError as error:
                logger.warning("%s: rebuilding leader epochs from the batches: %s", self.topic_partition, error)
                return False
        return True

    def _list_segments(self, log_start_offset: int) -> list[LogSegment]:
        logs = [name for name in self._sizes if name.endswith(LOG_SUFFIX)]
        parsed = ((parse_offset_file_name(name), self._sizes[name]) for name in logs)
        found = sorted((key[0], size) for key, size in parsed if key is not None)
        segments = [LogSegment(self.directory, base_offset, size) for base_offset, size in found]
        for segment in segments:
            name = offset_file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
            segment.has_aborted = self._sizes.get(name, 0) > 0
        return segments or [LogSegment(self.directory, log_start_offset)]

    def _has_indexes(self, segment: LogSegment) -> bool:
        index_size = self._sizes.get(offset_file_name(segment.base_offset, INDEX_SUFFIX), -1)
        time_index_size = self._sizes.get(offset_file_name(segment.base_offset, TIME_INDEX_SUFFIX), -1)
        whole = index_size % OffsetIndex.ENTRY_BYTES == 0 and time_index_size % TimeIndex.ENTRY_BYTES == 0
        return whole and index_size >= 0 and time_index_size >= 0

    def _see_batch(self, batch: BatchInfo) -> None:
        self._epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.is_control:
            self._saw_markers = True

    def _begin_anew(self, segments: list[LogSegment], log_start_offset: int) -> SegmentTail:
        """The log ends before it begins: everything in it was deleted on request."""
        for segment in segments:
            for suffix in SEGMENT_SUFFIXES:
                self._disk.remove(segment.path(suffix))
        segments[:] = [LogSegment(self.directory, log_start_offset)]
        tail = read_tail(self._disk, segments[0])
        assert tail is not None, "an empty segment needs no recovery"
        return tail


def make_durable(disk: Disk, loaded: Iterable[LoadedLog]) -> None:
    """Sync what recovery found beyond the recovery points, or cut. BLOCKING. Raises OSError.

    Until then a power cut may take it away, so nothing of it may be served, or counted as flushed. All files of all
    logs together: the file system merges what waits for it at once.
    """
    map_in_threads(disk.sync_file, [path for found in loaded for path in found.to_sync])
