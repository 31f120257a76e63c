"""What became of an append."""

from msgspec import Struct


class LogAppendInfo(Struct, frozen=True):
    """Offsets of the first and the last record, and the times, in milliseconds.

    `log_append_time_ms` is -1 when producers set the time. `duplicate` says that an idempotent producer sent the
    records again: the offsets are those of the first time and nothing was written.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    max_timestamp: int
    duplicate: bool = False
