"""Memory that is free inside the process and could be the system's again."""

import ctypes
from collections.abc import Callable
from typing import Final


def system_trim() -> Callable[[], None] | None:
    """What gives free memory of the C heap back to the system; None where the C library has no such call.

    glibc keeps what was freed below something that is still used, so a peak of connections would be paid for ever.
    """
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    malloc_trim.argtypes = [ctypes.c_size_t]

    def trim() -> None:
        malloc_trim(0)

    return trim


LOAD_MIN: Final = 256
"""Loads below this leave too little behind to look for it."""


class FreeMemory:
    """Gives memory back after a peak: when the load has fallen to half of its highest since the last time."""

    __slots__ = ("_peak", "_trim")

    def __init__(self, trim: Callable[[], None] | None) -> None:
        self._trim = trim
        self._peak = 0

    def look(self, load: int) -> bool:
        """Take note of the load (connections, say) and give memory back if it is time. Whether it was."""
        if load >= self._peak:
            self._peak = load
            return False
        if self._trim is None or self._peak < LOAD_MIN or load > self._peak // 2:
            return False
        self._peak = load
        self._trim()
        return True
