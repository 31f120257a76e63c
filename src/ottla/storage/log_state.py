"""What loading a log finds on disk."""

from msgspec import Struct

from ottla.storage.leader_epoch_cache import LeaderEpochCache
from ottla.storage.log_segment import LogSegment
from ottla.storage.producer_state_manager import ProducerStateManager
from ottla.storage.segment_appender import SegmentAppender


class LogState(Struct):
    """Segments, oldest first and at least one, the appender of the last of them, and what belongs to them.

    All of it is in the files; `log_end_offset` is the next offset to assign, `snapshot_offset` that of the
    producer snapshot that was used, -1 for none.
    """

    segments: list[LogSegment]
    appender: SegmentAppender
    log_start_offset: int
    log_end_offset: int
    leader_epochs: LeaderEpochCache
    producers: ProducerStateManager
    snapshot_offset: int
