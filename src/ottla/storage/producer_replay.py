"""The producers of a log as they were when it was last open: the newest snapshot, and what the log holds after it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.model.errors import InvalidInputError
from ottla.native import BatchInfo
from ottla.runtime.disk import Disk
from ottla.storage.file_names import INDEX_SUFFIX, SNAPSHOT_SUFFIX, parse_offset_file_name
from ottla.storage.log_segment import LogSegment
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import OpenFile
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.storage.producer_state import ProducerState
from ottla.storage.producer_state_manager import ProducerStateManager
from ottla.storage.segment_recovery import walk_segment
from ottla.storage.transaction_index import AbortedTransaction

logger: Final = logging.getLogger(__name__)


class ProducerReplay:
    """Finds the producers in one log's directory. BLOCKING."""

    __slots__ = ("_directory", "_disk", "_now_ms", "_sizes", "aborted")

    def __init__(self, disk: Disk, directory: str, sizes: Mapping[str, int], now_ms: int) -> None:
        """`sizes` lists the files of the directory."""
        self._disk = disk
        self._directory = directory
        self._sizes = sizes
        self._now_ms = now_ms
        self.aborted: list[AbortedTransaction] = []
        """The transactions that were found aborted on the way."""

    def load(
        self,
        segments: Sequence[LogSegment],
        end_offset: int,
        aborted_from: int,
        newest_batches: Sequence[BatchInfo] | None = None,
    ) -> tuple[int, ProducerStateManager]:
        """The offset of the snapshot that was used, -1 for none, and the producers at `end_offset`.

        `aborted` has all transactions whose marker is at `aborted_from` or after it: a later snapshot is not used.

        Batches before the log start count as long as they are there: who sent them may send them again. Those of the
        newest segment are not read again when they are given.
        """
        snapshot_offset, states = self._newest_snapshot(end_offset, aborted_from)
        for state in states:
            state.last_heard_ms = self._now_ms
        producers = ProducerStateManager(states)
        if snapshot_offset < end_offset:
            for index, segment in enumerate(segments):
                if index + 1 == len(segments) or segments[index + 1].base_offset > snapshot_offset:
                    known = newest_batches if index + 1 == len(segments) else None
                    self._replay(segment, snapshot_offset, producers, known)
        return snapshot_offset, producers

    def _newest_snapshot(self, end_offset: int, offset_max: int) -> tuple[int, list[ProducerState]]:
        """The newest whole snapshot up to `offset_max`; those that are beyond the log end or broken are removed."""
        parsed = ((name, parse_offset_file_name(name)) for name in self._sizes if name.endswith(SNAPSHOT_SUFFIX))
        snapshots = [(key[0], name) for name, key in parsed if key is not None]
        for offset, name in sorted(snapshots, reverse=True):
            if offset_max < offset <= end_offset:
                continue
            path = f"{self._directory}/{name}"
            try:
                # An empty one is what a kill leaves between making a file and writing it: nothing to tell of.
                if offset <= end_offset and (data := self._disk.read_bytes(path)):
                    return offset, decode_snapshot(data)
            except InvalidInputError as error:
                logger.warning("ignoring %s: %s", path, error)
            self._disk.remove(path)
        return -1, []

    def _replay(
        self,
        segment: LogSegment,
        from_offset: int,
        producers: ProducerStateManager,
        known: Sequence[BatchInfo] | None,
    ) -> None:
        def on_batch(_: int, batch: BatchInfo) -> None:
            if batch.base_offset >= from_offset:
                aborted = producers.update(batch, batch.base_offset, batch.max_timestamp, self._now_ms)
                if aborted is not None:
                    self.aborted.append(aborted)

        if known is not None:
            for batch in known:
                on_batch(0, batch)
            return
        if segment.size == 0:
            return
        start = self._position_before(segment, from_offset)
        file = OpenFile(self._disk, segment.log_path)
        walk_segment(file, segment.size, segment.base_offset, start, on_batch, check_crc=False)

    def _position_before(self, segment: LogSegment, offset: int) -> int:
        """Where to begin to read for `offset`; the beginning when the segment has no index."""
        path = segment.path(INDEX_SUFFIX)
        if not self._disk.exists(path):
            return 0
        index = OffsetIndex(segment.base_offset, self._disk.read_bytes(path))
        if not index.looks_sound(segment.size):
            index.truncate_to_sound(segment.size)
        return index.lookup(offset).position
