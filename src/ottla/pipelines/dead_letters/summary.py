"""Summaries of topics of letters: counts by step and reason, with times."""

from msgspec import Struct

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.headers import Letter

REASON_CHARS = 120
"""Letters are counted together if this many characters of their reasons are equal: the rest may quote values."""
GROUPS_MAX = 1_000
"""The maximum number of reasons of a topic that are counted apart, so that memory is bounded."""
OTHERS = "(other reasons)"


class Reason(Struct):
    """The letters of one step with one reason."""

    topic: str
    pipeline: str | None
    step: str | None
    error_class: str | None
    reason: str | None
    letters: int = 0
    left: int = 0
    """The number of letters that were not sent back."""
    first_ms: int | None = None
    """The time of the first refusal, ms since 1970."""
    last_ms: int | None = None


class Summary:
    """Counts letters by topic, pipeline, step and reason."""

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str | None, str | None, str | None, str | None], Reason] = {}
        self.no_letters: dict[str, int] = {}
        """Records that are no letters, by topic."""

    def add(self, record: ConsumerRecord, letter: Letter, *, is_done: bool) -> None:
        """Count a letter."""
        reason = None if letter.reason is None else letter.reason[:REASON_CHARS]
        place = (record.topic, letter.pipeline, letter.step, letter.error_class, reason)
        if place not in self._reasons and len(self._reasons) >= GROUPS_MAX:
            place = (record.topic, None, None, None, OTHERS)
        found = self._reasons.setdefault(place, Reason(*place))
        found.letters += 1
        found.left += not is_done
        at = record.timestamp_ms
        found.first_ms = at if found.first_ms is None else min(found.first_ms, at)
        found.last_ms = at if found.last_ms is None else max(found.last_ms, at)

    def skip(self, record: ConsumerRecord) -> None:
        """Counts a record that is not a dead letter."""
        self.no_letters[record.topic] = self.no_letters.get(record.topic, 0) + 1

    def reasons(self) -> list[Reason]:
        """All reasons by topic, the most frequent first."""
        return sorted(
            self._reasons.values(), key=lambda each: (each.topic, -each.letters, each.step or "", each.reason or "")
        )
