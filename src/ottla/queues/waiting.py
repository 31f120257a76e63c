"""What waits in a delay topic, found out by reading it: for people. The broker has an index for that."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.queues.delay import BEFORE_ALL, BadDelayError, Progress, due_ms, is_cancel, place_of


class Waiting(NamedTuple):
    """A record that waits; it is due at `due_ms`, None when it says no time that could be."""

    due_ms: int | None
    partition: int
    offset: int
    key: bytes | None
    value_bytes: int


class WaitingReader:
    """Takes the committed records of a partition in order, from the first that may wait on."""

    def __init__(self, partition: int, progress: Progress, default_delay_ms: int, *, key: bytes | None = None) -> None:
        """With a key it keeps only what concerns this one, in little memory; else it keeps all that may wait."""
        self._key = key
        self._partition = partition
        self._progress = progress.with_default_delay(default_delay_ms)
        self._found: list[tuple[int, Waiting]] = []
        self._cancelled: dict[bytes, int] = {}

    def take(
        self,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """Take the next record."""
        if self._key is not None and key != self._key:
            return
        due: int | None
        try:
            if is_cancel(key, headers):
                assert key is not None, "or it would be a letter"
                self._cancelled[key] = max(self._cancelled.get(key, -1), place_of(offset, headers))
                return
            due = due_ms(timestamp_ms, headers, self._progress.delay_at(offset))
        except BadDelayError:
            due = None
        if not self._progress.has_moved(BEFORE_ALL if due is None else due, offset):
            waiting = Waiting(due, self._partition, offset, key, len(value or b""))
            self._found.append((place_of(offset, headers), waiting))

    def waiting(self) -> list[Waiting]:
        """Those that wait, in the order of their offsets."""
        cancelled = self._cancelled
        return [each for place, each in self._found if each.key is None or cancelled.get(each.key, -1) <= place]
