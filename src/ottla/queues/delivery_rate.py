"""How many records of a partition a group may be given now: none while it is paused, else what its rate allows."""

from typing import Final

from ottla.queues.share_limits import ShareLimits

PAUSED_LOOK_MS: Final = 250
"""How long after a look that found the group paused the next one is due."""

_UNLIMITED: Final = (1 << 63) - 1


class DeliveryRate:
    """A bucket that fills with `rate_max` records a second and holds those of one second. Pure: time is an argument."""

    __slots__ = ("_at_ms", "_records")

    def __init__(self) -> None:
        self._records: float | None = None
        self._at_ms = 0

    def allowed(self, limits: ShareLimits, now_ms: int) -> int:
        """How many records may be delivered now."""
        if limits.is_paused:
            return 0
        rate = limits.rate_max
        if not rate:
            self._records = None
            return _UNLIMITED
        if self._records is None:
            self._records = rate
        else:
            self._records = min(rate, self._records + rate * max(0, now_ms - self._at_ms) / 1_000)
        self._at_ms = now_ms
        return int(self._records)

    def take(self, count: int) -> None:
        """So many were delivered, of those that `allowed` just allowed."""
        if self._records is not None:
            self._records -= count

    def wait_ms(self, limits: ShareLimits) -> int:
        """How long after `allowed` said 0 to look again."""
        if limits.is_paused or self._records is None or not limits.rate_max:
            return PAUSED_LOOK_MS
        return max(1, int((1 - self._records) * 1_000 / limits.rate_max) + 1)
