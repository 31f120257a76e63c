"""Which part of the log of a stream of Redis may be cleaned: what lies before its newest snapshot, in closed segments.

log      [ closed ][ closed ][ closed, snapshot ][ grows ]        searched once, as it grows, up to what is committed
cleaned  |------- by this snapshot --------------|                again when there is another, or more is closed

Every replica finds the snapshots in its own log. They say which entries there are, so what a replica has not got of
earlier deletions does not matter.
"""

from msgspec import Struct

from ottla.native import StreamSnapshots
from ottla.storage.compaction.cleaned_directory import CleanedDirectory
from ottla.storage.compaction.dirty_range import DirtyRange
from ottla.storage.compaction.segment_reader import SegmentReader
from ottla.storage.log import Log
from ottla.storage.log_config import DECOMPRESSED_BYTES_MAX
from ottla.storage.log_segment import LogSegment


class _State(Struct):
    """What is known of one log."""

    snapshots: StreamSnapshots
    begin_offset: int
    """Below it all records are of other writers."""
    segment: LogSegment
    """The one that was looked at last."""
    position: int = 0
    """Up to where."""
    cleaned: tuple[int, int] = (-1, 0)
    """The snapshot by which it was cleaned, and up to which offset."""


class StreamCleaning:
    """Belongs to the event loop. What it knows is lost with the broker: logs are searched again from the checkpoint."""

    def __init__(self) -> None:
        self._states: dict[Log, _State] = {}

    def forget_deleted(self) -> None:
        """Forget the logs that are gone."""
        for log in [log for log in self._states if log.is_deleted]:
            del self._states[log]

    def snapshots_of(self, log: Log) -> StreamSnapshots:
        """By which a log is cleaned that `look` has found to be worth it."""
        return self._states[log].snapshots

    async def look(self, directory: CleanedDirectory, log: Log, memory_bytes: int) -> DirtyRange | None:
        """The part of a log that is worth a pass. Raises OSError, KernelError."""
        state = await self._search(directory, log, memory_bytes)
        newest = state.snapshots.newest
        segments = list(log.segments)
        if newest is None or newest[1] > log.stable_end_offset:
            return None
        snapshot, cleaned_to = state.cleaned
        first_dirty = max(log.log_start_offset, cleaned_to if snapshot == newest[0] else 0)
        end = next((each.base_offset for each in segments[:-1] if each.base_offset >= newest[0]), None)
        uncleanable = segments[-1].base_offset if end is None else end
        ends = [each.base_offset for each in segments[1:]]
        size = sum(
            each.size
            for each, end_offset in zip(segments[:-1], ends, strict=True)
            if end_offset > first_dirty and each.base_offset < uncleanable
        )
        return DirtyRange(first_dirty, uncleanable, size, size, is_overdue=False) if size else None

    def cleaned(self, log: Log, dirty: DirtyRange) -> None:
        """A pass is over."""
        state = self._states[log]
        assert state.snapshots.newest is not None
        state.cleaned = state.snapshots.newest[0], dirty.uncleanable

    async def _search(self, directory: CleanedDirectory, log: Log, memory_bytes: int) -> _State:
        segments = list(log.segments)
        state = self._states.get(log)
        begin_offset = log.config.stream_begin
        is_known = state is not None and state.begin_offset == begin_offset
        if state is None or not is_known or state.segment.is_gone or state.position > state.segment.size:
            start = directory.checkpoint.cleaned_up_to.get(log.topic_partition, 0)
            first = next((each for each in reversed(segments) if each.base_offset <= start), segments[0])
            snapshots = StreamSnapshots(
                memory_bytes=memory_bytes, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, begin_offset=begin_offset
            )
            cleaned = (-1, 0) if state is None else state.cleaned
            state = self._states[log] = _State(snapshots, begin_offset, first, cleaned=cleaned)
        end_offset = log.stable_end_offset
        for segment in segments:
            if segment.base_offset < state.segment.base_offset:
                continue
            if segment is not state.segment:
                state.segment, state.position = segment, 0
            while state.position < segment.size:
                count = await directory.resources.in_thread(_search_some, directory, state, end_offset)
                if not count:
                    return state
                state.position += count
        is_whole = state.snapshots.newest is None and len(segments) > 1
        if is_whole and directory.checkpoint.cleaned_up_to.get(log.topic_partition, 0) < segments[-1].base_offset:
            await directory.checkpoint.remember(log.topic_partition, segments[-1].base_offset)
        return state


def _search_some(directory: CleanedDirectory, state: _State, end_offset: int) -> int:
    """Look at what comes next of a segment; returns how many bytes that was. BLOCKING."""
    reader = SegmentReader(directory.resources.disk, state.segment, position=state.position)
    return state.snapshots.search(reader.read(), end_offset)
