"""Which segments are too old, too much, or before the log start."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.storage.log_config import LogConfig


class SegmentFacts(NamedTuple):
    """What decides about a segment; `largest_timestamp` is when it was last written to when its records have no time,
    and -1, which gives it no age, when that is not known either."""

    size: int
    end_offset: int
    largest_timestamp: int


def count_expired(segments: Sequence[SegmentFacts], log_start_offset: int, now_ms: int, config: LogConfig) -> int:
    """How many of the oldest segments are to be deleted. `segments` is oldest first.

    By the log start whatever the policy; by `retention.ms` and `retention.bytes` with the policy "delete". Never out of
    order: the first one that stays keeps all after it.
    """
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    deletes = "delete" in config.cleanup_policy
    for count, segment in enumerate(segments):
        age_ms = now_ms - segment.largest_timestamp if segment.largest_timestamp >= 0 else -1
        too_old = deletes and 0 <= config.retention_ms < age_ms
        too_much = deletes and config.retention_bytes >= 0 and excess >= segment.size
        if not (too_old or too_much or segment.end_offset <= log_start_offset):
            return count
        excess -= segment.size
    return len(segments)
