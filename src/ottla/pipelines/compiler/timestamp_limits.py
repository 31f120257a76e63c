"""Checks record timestamps against the settings of a topic: brokers refuse the whole batch for one outside of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

CLOCKS_APART_MS: Final = 60_000
"""The allowance for the time between check and write, and for another clock."""
_ANY_AGE_MS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampLimits:
    """How far before and after now times may be, in milliseconds."""

    before_max_ms: int = _ANY_AGE_MS
    after_max_ms: int = 3_600_000

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "TimestampLimits | None":
        """The limits of a topic with these settings; None if the broker sets the timestamp."""
        if settings.get("message.timestamp.type") == "LogAppendTime":
            return None
        kafkas = cls()
        return cls(
            int(settings.get("message.timestamp.before.max.ms", kafkas.before_max_ms)),
            int(settings.get("message.timestamp.after.max.ms", kafkas.after_max_ms)),
        )

    def refusal(self, timestamp: Column, topic: str) -> Column:
        """The reason why the topic refuses this timestamp, or null. `timestamp` is a column of timestamps."""
        at, now = f.unix_millis(timestamp), f.unix_millis(f.current_timestamp())

        def said(setting: str, limit_ms: int, side: str) -> Column:
            return f.concat(
                f.lit("timestamp: "),
                timestamp.cast("string"),
                f.lit(f" is more than {limit_ms} ms {side} now, which is as far as topic {topic} takes ({setting})"),
            )

        found = f.when(
            at - now > f.lit(self.after_max_ms), said("message.timestamp.after.max.ms", self.after_max_ms, "after")
        )
        if self.before_max_ms < _ANY_AGE_MS:
            bound = f.lit(max(self.before_max_ms - CLOCKS_APART_MS, 0))
            found = found.when(now - at > bound, said("message.timestamp.before.max.ms", self.before_max_ms, "before"))
        return found


KAFKAS: Final = TimestampLimits()
"""The limits of a topic with default settings."""
