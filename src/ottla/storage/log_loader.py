"""Finding out what a log's directory holds: quickly after a clean stop, with recovery otherwise. BLOCKING.

After a clean stop a log costs a directory listing, its small files, the indexes of its newest segment and the few
kilobytes after the last index entry.
"""

import logging
from dataclasses import dataclass
from typing import Final

from ottla.model.errors import InvalidInputError
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo
from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import CorruptSegmentError, scan_batches
from ottla.storage.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
)
from ottla.storage.leader_epoch_cache import LeaderEpochCache, read_leader_epochs
from ottla.storage.log_config import LogConfig
from ottla.storage.log_recovery import CutTail, LogRecovery
from ottla.storage.log_segment import LogSegment
from ottla.storage.log_state import LogState
from ottla.storage.log_writer import LogWriter
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import OpenFile
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.storage.producer_state import ProducerState
from ottla.storage.producer_state_manager import ProducerStateManager
from ottla.storage.segment_appender import SegmentAppender
from ottla.storage.segment_indexer import SegmentIndexer
from ottla.storage.segment_recovery import walk_segment
from ottla.storage.time_index import NO_TIMESTAMP, TimeIndex

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What the data directory remembers of a log: `recovery_point` is None when it remembers nothing."""

    was_clean: bool
    recovery_point: int | None = None
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What was found, what recovery read again, in bytes, and what it cut."""

    state: LogState
    scanned_bytes: int
    cut: CutTail | None


class LogLoader:
    """Loads the log of one partition."""

    __slots__ = ("_config", "_directory", "_disk", "_epochs", "_now_ms", "_sizes", "_topic_partition", "_writer")

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        disk: Disk,
        writer: LogWriter,
        now_ms: int,
    ) -> None:
        self._topic_partition = topic_partition
        self._directory = directory
        self._config = config
        self._disk = disk
        self._writer = writer
        self._now_ms = now_ms
        self._sizes: dict[str, int] = {}
        self._epochs = LeaderEpochCache()

    def load(self, checkpoints: Checkpoints) -> LoadedLog:
        """Load what is there; a directory without segments is an empty log. Raises OSError."""
        self._sizes = self._disk.file_sizes(self._directory)
        self._remove_leftovers()
        self._epochs = self._read_epochs()
        segments = self._list_segments(checkpoints.log_start_offset)
        recovery = LogRecovery(self._disk, self._topic_partition, self._config.index_interval_bytes, self._see_batch)
        for segment in segments[:-1]:
            if not self._has_indexes(segment):
                recovery.rebuild_indexes(segment)
        cut = None
        end_offset = self._end_offset(segments[-1]) if checkpoints.was_clean else None
        if end_offset is None:
            point = segments[-1].base_offset if checkpoints.was_clean else checkpoints.recovery_point
            cut = recovery.recover(segments, point)
            end_offset = self._end_offset(segments[-1])
            assert end_offset is not None, "a recovered segment can be read to its end"
        log_start_offset = max(checkpoints.log_start_offset, segments[0].base_offset)
        if log_start_offset > end_offset:
            segments, end_offset = self._begin_anew(segments, log_start_offset), log_start_offset
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        snapshot_offset, producers = self._load_producers(segments, log_start_offset, end_offset)
        state = LogState(
            segments,
            self._appender(segments[-1]),
            log_start_offset,
            end_offset,
            self._epochs,
            producers,
            snapshot_offset,
        )
        return LoadedLog(state, recovery.scanned_bytes, cut)

    def _remove_leftovers(self) -> None:
        for name in [name for name in self._sizes if name.endswith(DELETED_SUFFIX)]:
            self._disk.remove(f"{self._directory}/{name}")
            del self._sizes[name]

    def _read_epochs(self) -> LeaderEpochCache:
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            return read_leader_epochs(self._disk, path)
        except InvalidInputError as error:
            logger.warning("%s: leader epochs are found again from the log: %s", self._topic_partition, error)
            return LeaderEpochCache()

    def _list_segments(self, log_start_offset: int) -> list[LogSegment]:
        parsed = ((parse_offset_file_name(name), size) for name, size in self._sizes.items())
        found = sorted((name[0], size) for name, size in parsed if name is not None and name[1] == LOG_SUFFIX)
        segments = [LogSegment(self._directory, base_offset, size) for base_offset, size in found]
        return segments or [LogSegment(self._directory, log_start_offset)]

    def _has_indexes(self, segment: LogSegment) -> bool:
        index_size = self._sizes.get(offset_file_name(segment.base_offset, INDEX_SUFFIX), -1)
        time_index_size = self._sizes.get(offset_file_name(segment.base_offset, TIME_INDEX_SUFFIX), -1)
        whole = index_size % OffsetIndex.ENTRY_BYTES == 0 and time_index_size % TimeIndex.ENTRY_BYTES == 0
        return whole and index_size >= 0 and time_index_size >= 0

    def _see_batch(self, batch: BatchInfo) -> None:
        self._epochs.assign(batch.leader_epoch, batch.base_offset)

    def _end_offset(self, segment: LogSegment) -> int | None:
        """The offset after the last batch, from the last index entry on; None when that does not come out even."""
        if segment.size == 0:
            return segment.base_offset
        offset_index, time_index = self._read_indexes(segment)
        if not (offset_index.looks_sound(segment.size) and time_index.looks_sound()):
            return None
        start = offset_index[-1].position if len(offset_index) else 0
        end_offset = segment.base_offset
        position = start
        try:
            for batch in scan_batches(OpenFile(self._disk, segment.log_path), start, segment.size):
                end_offset, position = batch.last_offset + 1, batch.position + batch.size
        except CorruptSegmentError:
            return None
        return end_offset if position == segment.size else None

    def _read_indexes(self, segment: LogSegment) -> tuple[OffsetIndex, TimeIndex]:
        base_offset = segment.base_offset
        offset_entries, time_entries = (
            self._disk.read_bytes(segment.path(suffix)) if self._disk.exists(segment.path(suffix)) else b""
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        )
        return OffsetIndex(base_offset, offset_entries, growing=True), TimeIndex(
            base_offset, time_entries, growing=True
        )

    def _begin_anew(self, segments: list[LogSegment], log_start_offset: int) -> list[LogSegment]:
        """The log ends before it begins: everything in it was deleted on request."""
        for segment in segments:
            for suffix in SEGMENT_SUFFIXES:
                self._disk.remove(segment.path(suffix))
        return [LogSegment(self._directory, log_start_offset)]

    def _appender(self, segment: LogSegment) -> SegmentAppender:
        offset_index, time_index = self._read_indexes(segment)
        first_timestamp = NO_TIMESTAMP
        if segment.size:
            first = next(scan_batches(OpenFile(self._disk, segment.log_path), 0, segment.size))
            first_timestamp = first.max_timestamp
        bytes_since_entry = segment.size - (offset_index[-1].position if len(offset_index) else 0)
        return SegmentAppender(
            segment,
            self._writer,
            created_ms=self._now_ms,
            first_timestamp=first_timestamp,
            indexer=SegmentIndexer(offset_index, time_index, bytes_since_entry),
        )

    def _load_producers(
        self, segments: list[LogSegment], log_start_offset: int, end_offset: int
    ) -> tuple[int, ProducerStateManager]:
        """The producers of the newest snapshot that is whole, and what the log holds after it."""
        offset, states = self._newest_snapshot(end_offset)
        for state in states:
            state.last_heard_ms = self._now_ms
        producers = ProducerStateManager(states)
        from_offset = max(offset, log_start_offset)

        def replay(_: int, batch: BatchInfo) -> None:
            if batch.base_offset >= from_offset:
                producers.update(batch, batch.base_offset, batch.max_timestamp, self._now_ms)

        if from_offset < end_offset:
            for index, segment in enumerate(segments):
                if index + 1 < len(segments) and segments[index + 1].base_offset <= from_offset:
                    continue
                offset_index, _ = self._read_indexes(segment)
                start = offset_index.lookup(from_offset).position
                file = OpenFile(self._disk, segment.log_path)
                walk_segment(file, segment.size, segment.base_offset, start, replay, check_crc=False)
        return offset, producers

    def _newest_snapshot(self, end_offset: int) -> tuple[int, list[ProducerState]]:
        """The newest whole snapshot not beyond the log end; those that are beyond it or broken are removed."""
        parsed = ((name, parse_offset_file_name(name)) for name in self._sizes)
        snapshots = [(key[0], name) for name, key in parsed if key is not None and key[1] == SNAPSHOT_SUFFIX]
        for offset, name in sorted(snapshots, reverse=True):
            path = f"{self._directory}/{name}"
            try:
                if offset <= end_offset:
                    return offset, decode_snapshot(self._disk.read_bytes(path))
            except InvalidInputError as error:
                logger.warning("%s: %s is not used: %s", self._topic_partition, name, error)
            self._disk.remove(path)
        return -1, []
