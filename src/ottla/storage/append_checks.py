"""What a topic's settings say about batches a client wants to append."""

from collections.abc import Sequence
from typing import Final

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import BatchInfo
from ottla.storage.log_config import LogConfig, TimestampType

NO_TIMESTAMP: Final = -1
"""What a producer sends that gives its records no time."""


def check_appendable(batches: Sequence[BatchInfo], now_ms: int, config: LogConfig) -> None:
    """Check sizes and times. Raises ApiError MESSAGE_TOO_LARGE or INVALID_TIMESTAMP.

    The first and the greatest timestamp of a batch stand for all of its records: the records are not opened.
    """
    producers_set_the_time = config.message_timestamp_type is TimestampType.CREATE_TIME
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    for batch in batches:
        if batch.size > config.max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {batch.size} bytes is larger than max.message.bytes, {config.max_message_bytes}",
            )
        if not producers_set_the_time:
            continue
        for timestamp in (batch.max_timestamp, batch.base_timestamp):
            if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
                raise ApiError(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"timestamp {timestamp} is not within message.timestamp.before.max.ms and "
                    f"message.timestamp.after.max.ms of {now_ms}",
                )
        if batch.log_append_time:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                "a producer must not say that its timestamps are the broker's (LogAppendTime)",
            )
