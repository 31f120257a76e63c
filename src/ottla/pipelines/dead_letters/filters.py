"""Selects dead letters."""

import re
from collections.abc import Mapping

from msgspec import Struct

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.headers import Letter, is_letter
from ottla.pipelines.dead_letters.where import Where

OffsetRange = tuple[int, int]
"""The first offset, and the end, which is excluded."""


class Filter(Struct, frozen=True):
    """Selects letters that match all conditions; None, or empty, matches all."""

    pipeline: str | None = None
    step: str | None = None
    error_class: str | None = None
    reason: re.Pattern[str] | None = None
    """A regular expression that is searched in the reason."""
    origin_topic: str | None = None
    origin_partitions: frozenset[int] | None = None
    since_ms: int | None = None
    """Refused at this time or later, ms since 1970."""
    until_ms: int | None = None
    """Refused before this time, ms since 1970."""
    offsets: Mapping[int, OffsetRange] = {}
    """Offsets by partition of the topic of letters; if set, other partitions do not match."""
    where: Where | None = None

    def takes(self, record: ConsumerRecord, letter: Letter) -> bool:
        """Whether the filter selects a record of the topic."""
        if not is_letter(letter):
            return False
        if self.pipeline is not None and self.pipeline != letter.pipeline:
            return False
        if self.step is not None and self.step != letter.step:
            return False
        if self.error_class is not None and self.error_class != letter.error_class:
            return False
        if self.reason is not None and not self.reason.search(letter.reason or ""):
            return False
        if self.origin_topic is not None and letter.topic != self.origin_topic:
            return False
        if self.origin_partitions is not None and letter.partition not in self.origin_partitions:
            return False
        return self._takes_place(record) and (self.where is None or self.where.takes(record, letter))

    def _takes_place(self, record: ConsumerRecord) -> bool:
        if self.since_ms is not None and record.timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and record.timestamp_ms >= self.until_ms:
            return False
        if not self.offsets:
            return True
        first, last = self.offsets.get(record.partition, (0, 0))
        return first <= record.offset < last
