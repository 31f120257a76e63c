"""When each broker was last heard of, and which of them has been silent for too long (`broker.session.timeout.ms`).

No clock of its own: time comes in, in milliseconds of a clock that never goes back.

>>> tracker = HeartbeatTracker(session_timeout_ms=9_000)
>>> tracker.heard(1, now_ms=0, metadata_offset=5)
>>> tracker.heard(2, now_ms=4_000, metadata_offset=7)
>>> tracker.next_check_ms(), tracker.overdue(9_000), tracker.overdue(9_001)
(9001, [], [1])
"""

from collections.abc import Iterable
from typing import NamedTuple


class _Heard(NamedTuple):
    at_ms: int
    metadata_offset: int


class HeartbeatTracker:
    """The brokers that are not fenced, and what they said last. Those that are fenced are not in it."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, _Heard] = {}

    def restart(self, broker_ids: Iterable[int], now_ms: int) -> None:
        """Give these brokers, and no others, a whole session time from now: who decides is new, or was away itself."""
        known = self._brokers
        self._brokers = {
            each: _Heard(now_ms, known[each].metadata_offset if each in known else -1) for each in broker_ids
        }

    def heard(self, broker_id: int, now_ms: int, metadata_offset: int) -> None:
        """A broker said that it lives, and how far it has read the metadata."""
        self._brokers.pop(broker_id, None)  # to the end: the first is the one that was silent for longest
        self._brokers[broker_id] = _Heard(now_ms, metadata_offset)

    def forget(self, broker_id: int) -> None:
        """A broker was fenced, or is gone."""
        self._brokers.pop(broker_id, None)

    def overdue(self, now_ms: int) -> list[int]:
        """The brokers that were silent for longer than the session time, longest first."""
        found = []
        for broker_id, heard in self._brokers.items():
            if now_ms - heard.at_ms <= self._session_timeout_ms:
                break
            found.append(broker_id)
        return found

    def next_check_ms(self) -> int | None:
        """When the first of them will have been silent for too long; None when there is none."""
        for heard in self._brokers.values():
            return heard.at_ms + self._session_timeout_ms + 1
        return None

    def silent_ms(self, broker_id: int, now_ms: int) -> int:
        """For how long nothing was heard of a broker that is not fenced."""
        return now_ms - self._brokers[broker_id].at_ms

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """How far those of these brokers that are known here have all read the metadata; None when none is."""
        return min((self._brokers[each].metadata_offset for each in broker_ids if each in self._brokers), default=None)
