"""Memory that is free inside the process and could be the system's again."""

from collections.abc import Callable
from typing import Final


def system_trim() -> None:
    """Give free memory of the C heap back to the system, where the C library has a call for it.

    glibc keeps what was freed below something that is still used, so a peak of connections would be paid for ever.
    """
    import ctypes  # late: a start has no need of it

    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    malloc_trim.argtypes = [ctypes.c_size_t]
    malloc_trim(0)


LOAD_MIN: Final = 256
"""Loads below this leave too little behind to look for it."""


class FreeMemory:
    """Gives memory back after a peak: when the load has fallen to half of its highest since the last time."""

    __slots__ = ("_peak", "_trim")

    def __init__(self, trim: Callable[[], None]) -> None:
        self._trim = trim
        self._peak = 0

    def look(self, load: int) -> bool:
        """Take note of the load (connections, say) and give memory back if it is time. Whether it was."""
        if load >= self._peak:
            self._peak = load
            return False
        if self._peak < LOAD_MIN or load > self._peak // 2:
            return False
        self._peak = load
        self._trim()
        return True
