"""Which dead letters are meant."""

import re
from collections.abc import Mapping

from msgspec import Struct

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.headers import Letter, is_letter

OffsetRange = tuple[int, int]
"""From the first offset up to the one that is not meant any more."""


class Filter(Struct, frozen=True):
    """Letters that meet all of it; what is None, or empty, lets all through."""

    pipeline: str | None = None
    step: str | None = None
    error_class: str | None = None
    reason: re.Pattern[str] | None = None
    """Found anywhere in the reason."""
    origin_topic: str | None = None
    origin_partitions: frozenset[int] | None = None
    since_ms: int | None = None
    """Refused then or later, ms since 1970."""
    until_ms: int | None = None
    """Refused before then."""
    offsets: Mapping[int, OffsetRange] = {}
    """By partition of the topic of letters; with any, other partitions are not meant."""

    def takes(self, record: ConsumerRecord, letter: Letter) -> bool:
        """Whether the filter selects a record of the topic."""
        if not is_letter(letter):
            return False
        exact = ((self.pipeline, letter.pipeline), (self.step, letter.step), (self.error_class, letter.error_class))
        if any(wanted is not None and wanted != said for wanted, said in exact):
            return False
        if self.reason is not None and not self.reason.search(letter.reason or ""):
            return False
        if self.origin_topic is not None and letter.topic != self.origin_topic:
            return False
        if self.origin_partitions is not None and letter.partition not in self.origin_partitions:
            return False
        return self._takes_place(record)

    def _takes_place(self, record: ConsumerRecord) -> bool:
        if self.since_ms is not None and record.timestamp_ms < self.since_ms:
            return False
        if self.until_ms is not None and record.timestamp_ms >= self.until_ms:
            return False
        if not self.offsets:
            return True
        first, last = self.offsets.get(record.partition, (0, 0))
        return first <= record.offset < last
