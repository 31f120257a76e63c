"""A record of a delay topic that is due."""

from typing import Final, NamedTuple

_OVERHEAD: Final = 64


class WaitingRecord(NamedTuple):
    """As `ottla.native.DelayIndex` gives it."""

    due_ms: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    place: int
    """The offset that it counts as where records are cancelled."""

    @property
    def size(self) -> int:
        """About how many bytes it takes in a batch."""
        headers = sum(len(name) + len(value or b"") + _OVERHEAD for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + _OVERHEAD
