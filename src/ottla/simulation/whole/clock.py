"""The clocks of a host: the monotonic one is that of the loop, the wall clock may jump."""

from typing import Final

from ottla.simulation.whole.event_loop import SimulatedLoop

BEGIN_MS: Final = 1_700_000_000_000
"""When every simulation begins, in milliseconds since 1970."""


class HostClock:
    """Satisfies `ottla.runtime.clock.Clock`. `ahead_ms` is how far the wall clock is wrong."""

    __slots__ = ("_loop", "ahead_ms")

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970-01-01 UTC."""
        return BEGIN_MS + self.ahead_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> int:
        """Milliseconds since the simulation began."""
        return int(self._loop.time() * 1000)
