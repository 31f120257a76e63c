"""How many reads wait for the disk to find where their records begin, over all gateways."""

from typing import Final

LOOKED_UP_MAX: Final = 25_000
"""Partitions at a time; a read beyond is done in one go, on the event loop."""


class LookUps:
    """Counts partitions whose look-ups wait for the disk. Belongs to the event loop."""

    __slots__ = ("count", "count_max")

    def __init__(self, count_max: int = LOOKED_UP_MAX) -> None:
        self.count_max = count_max
        self.count = 0
        """Partitions that wait now."""

    def begin(self, count: int) -> bool:
        """Count so many more, and `end` follows; False where they are too many, and nothing has happened."""
        if self.count + count > self.count_max:
            return False
        self.count += count
        return True

    def end(self, count: int) -> None:
        """So many have been looked up."""
        self.count -= count
