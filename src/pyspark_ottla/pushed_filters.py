"""Filters on topic, partition, offset and timestamp that Spark hands to a batch read, which then reads less.

Filters on topic, partition and offset are applied here completely. A filter on timestamp sets the start of the read:
the first record with that time or later. Records are not in the order of their timestamps, so Spark still checks each
one, and a filter for times before a limit saves nothing.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.client.consuming.offsets import NO_OFFSET
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_range import OffsetRange
from pyspark_ottla.position import look_up

_PLACES = ("topic", "partition", "offset")
_OFFSET_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class PushedFilters:
    """The ranges of a log that pass the pushed filters."""

    topics: set[Any] | None = None
    partitions: set[Any] | None = None
    first: int = 0
    end: int = _OFFSET_MAX
    since_ms: int | None = None

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Narrow the ranges to the filters. Returns those that must be applied to each record."""
        return [each for each in filters if not self._take(each)]

    def narrow(self, client: LogReader, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The parts of these ranges that can pass the filters."""
        left = [
            OffsetRange(each.topic_partition, max(each.start, self.first), min(each.end, self.end))
            for each in ranges
            if _has(self.topics, each.topic_partition.topic) and _has(self.partitions, each.topic_partition.partition)
        ]
        left = [each for each in left if each.count > 0]
        if self.since_ms is None:
            return left
        found = look_up(client, dict.fromkeys((each.topic_partition for each in left), self.since_ms))
        return [since for each in left if (since := _since(each, found)).count > 0]

    def _take(self, each: Filter) -> bool:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        name = ".".join(attribute)
        if name == "timestamp":
            return self._since(each)
        if name not in _PLACES:
            return False
        if isinstance(each, IsNotNull):
            return True
        wanted = _wanted(each)
        if wanted is not None and all(value is not None for value in wanted):
            if name == "topic":
                self.topics = set(wanted) if self.topics is None else self.topics & set(wanted)
                return True
            if name == "partition":
                self.partitions = set(wanted) if self.partitions is None else self.partitions & set(wanted)
                return True
            if len(wanted) == 1:
                [offset] = wanted
                return self._between(offset, offset + 1)
            # What lies between several offsets is read, and Spark takes those that were meant.
            self._between(min(wanted), max(wanted) + 1)
            return False
        return name == "offset" and self._bound(each)

    def _bound(self, each: Filter) -> bool:
        if getattr(each, "value", None) is None:
            return False
        if isinstance(each, GreaterThanOrEqual):
            return self._between(each.value, _OFFSET_MAX)
        if isinstance(each, GreaterThan):
            return self._between(each.value + 1, _OFFSET_MAX)
        if isinstance(each, LessThan):
            return self._between(0, each.value)
        if isinstance(each, LessThanOrEqual):
            return self._between(0, each.value + 1)
        return False

    def _between(self, first: int, end: int) -> bool:
        self.first, self.end = max(self.first, first), min(self.end, end)
        return True

    def _since(self, each: Filter) -> bool:
        if isinstance(each, IsNotNull):
            return True
        if isinstance(each, (GreaterThan, GreaterThanOrEqual, EqualTo)):
            value = each.value
            # One without a time zone is of a column that is not ours.
            if isinstance(value, datetime) and value.tzinfo is not None:
                since_ms = max((value - _EPOCH) // timedelta(milliseconds=1), 0)
                self.since_ms = since_ms if self.since_ms is None else max(self.since_ms, since_ms)
        return False


def _wanted(each: Filter) -> tuple[Any, ...] | None:
    if isinstance(each, (EqualTo, EqualNullSafe)):
        return (each.value,)
    return tuple(each.value) if isinstance(each, In) and each.value else None


def _has(wanted: Collection[Any] | None, one: Any) -> bool:
    return wanted is None or one in wanted


def _since(each: OffsetRange, found: dict[TopicPartition, int]) -> OffsetRange:
    offset = found[each.topic_partition]
    # Nothing is that young: what comes while the read goes on lies behind its end.
    start = each.end if offset == NO_OFFSET else max(each.start, offset)
    return OffsetRange(each.topic_partition, start, each.end)
