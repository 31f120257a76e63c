"""Which part of a log may be compacted, and whether it is worth it.

log start      first dirty            uncleanable                        log end
    [  clean      |  dirty                |  too young, undecided, newest  ]
       seen by an earlier pass               min.compaction.lag.ms, LSO, active segment

dirty ratio = dirty bytes / (clean bytes + dirty bytes). A log is worth a pass from `min.cleanable.dirty.ratio` on, or
once a dirty record is older than `max.compaction.lag.ms` (KIP-354).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.storage.log_config import LogConfig


class CompactionFacts(NamedTuple):
    """What decides about a segment. Times in milliseconds, -1 where the records have none."""

    base_offset: int
    size: int
    largest_timestamp: int
    first_timestamp: int
    """That of the first batch; -1 as well when it was not looked at."""


class DirtyRange(NamedTuple):
    """The offsets from `first_dirty` up to `uncleanable`, which is the base offset of a segment."""

    first_dirty: int
    uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of what a pass would read, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_a_pass(self, ratio_min: float) -> bool:
        """Whether it is to be compacted now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > ratio_min)


def dirty_range(
    segments: Sequence[CompactionFacts],
    *,
    cleaned_up_to: int | None,
    log_start_offset: int,
    stable_end_offset: int,
    now_ms: int,
    config: LogConfig,
) -> DirtyRange:
    """The dirty range of a log of these segments, oldest first, the last of which grows.

    `cleaned_up_to` is where the last pass ended, None before the first. Below `stable_end_offset` everything is
    committed, its transactions decided, and on disk.
    """
    first_dirty = log_start_offset
    if cleaned_up_to is not None and log_start_offset <= cleaned_up_to <= segments[-1].base_offset:
        first_dirty = cleaned_up_to
    uncleanable = segments[-1].base_offset
    for segment, following in pairwise(segments):
        is_young = (
            config.min_compaction_lag_ms > 0 and segment.largest_timestamp > now_ms - config.min_compaction_lag_ms
        )
        if following.base_offset > stable_end_offset or (is_young and following.base_offset > first_dirty):
            uncleanable = segment.base_offset
            break
    uncleanable = max(uncleanable, first_dirty)
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    for segment, following in pairwise(segments):
        if following.base_offset <= first_dirty:
            clean_bytes += segment.size
        elif first_dirty < uncleanable and segment.base_offset < uncleanable:
            # Where `first_dirty` lies in a segment that is uncleanable, as after DeleteRecords, there is nothing to do.
            dirty_bytes += segment.size
            age_ms = now_ms - segment.first_timestamp if segment.first_timestamp >= 0 else -1
            is_overdue = is_overdue or age_ms > config.max_compaction_lag_ms
    return DirtyRange(first_dirty, uncleanable, clean_bytes, dirty_bytes, is_overdue)
