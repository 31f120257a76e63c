"""Checks records against the settings of a topic: a broker refuses the whole transaction for one that violates them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from ottla.pipelines.compiler.timestamp_limits import TimestampLimits

RECORD_OVERHEAD_BYTES: Final = 100
"""The size of a batch of one record, without its key, value and headers."""
_HEADER_OVERHEAD_BYTES: Final = 10


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of a topic for its records."""

    timestamps: TimestampLimits | None = TimestampLimits()  # noqa: RUF009
    """The limits of timestamps; None if the broker sets the timestamp."""
    bytes_max: int = 1_048_588
    keys_required: bool = False
    headers: bool = True
    """Whether headers are checked."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TopicLimits":
        """The limits of a topic with these settings."""
        policies = {each.strip() for each in settings.get("cleanup.policy", "").split(",")}
        bytes_max = int(settings.get("max.message.bytes", cls().bytes_max))
        return cls(TimestampLimits.of(settings), bytes_max, "compact" in policies)

    def of_columns(self, *, headers: bool, timestamp: bool) -> "TopicLimits":
        """Those that matter to records with these columns. What is not asked costs nothing, and Spark compiles
        a question about the time of each micro-batch anew.
        """
        return replace(self, headers=headers, timestamps=self.timestamps if timestamp else None)

    def compressed(self) -> "TopicLimits":
        """The limits with room for the overhead of codecs on incompressible data."""
        return replace(self, bytes_max=max(self.bytes_max - self.bytes_max // 1024 - 64, 1))

    def refusal(self, record: Column, topic: str) -> Column:
        """Why the topic does not take a record, a struct with key, value, headers and timestamp; null where it does."""
        size = size_of(record)
        reasons = [
            f.when(
                size > self.bytes_max,
                f.concat(
                    f.lit("value: the record has "),
                    size.cast("string"),
                    f.lit(f" bytes, and topic {topic} takes {self.bytes_max} (max.message.bytes)"),
                ),
            ),
        ]
        if self.headers:
            nameless = f.exists(record["headers"], lambda each: each.isNull() | each["key"].isNull())
            garbled = f.exists(record["headers"], lambda each: ~f.is_valid_utf8(each["key"]))
            reasons.append(f.when(nameless, f.lit("headers: the name of one is null")))
            reasons.append(f.when(garbled, f.lit("headers: the name of one is not UTF-8")))
        if self.keys_required:
            said = f"key: it is null, and topic {topic} is compacted (cleanup.policy)"
            reasons.append(f.when(record["key"].isNull(), f.lit(said)))
        if self.timestamps is not None:
            reasons.append(self.timestamps.refusal(record["timestamp"], topic))
        return f.coalesce(*reasons)


def size_of(record: Column) -> Column:
    """The maximum size in bytes of an uncompressed batch with only this record."""

    def length(column: Column) -> Column:
        return f.coalesce(f.octet_length(column), f.lit(0)).cast("bigint")

    def add(total: Column, header: Column) -> Column:
        return total + length(header["key"]) + length(header["value"]) + _HEADER_OVERHEAD_BYTES

    start = f.lit(RECORD_OVERHEAD_BYTES).cast("bigint")
    headers = f.coalesce(f.aggregate(record["headers"], start, add), start)
    return headers + length(record["key"]) + length(record["value"])


KAFKAS: Final = TopicLimits()
"""The limits of a topic with default settings."""
