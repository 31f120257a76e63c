"""Where the latest batches of the active segment lie, so that readers at the tail need no look at the disk."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

_BATCHES_MAX: Final = 1024


class RecentBatches:
    """The base offsets and positions of up to about a thousand batches, the latest of one segment.

    offsets    [700, 750, 751, 790]
    positions  [0, 16000, 16100, 40000]    and the end, 61000: the batch of 760 lies at 16100
    """

    __slots__ = ("_offsets", "_positions", "end_position")

    def __init__(self, end_position: int) -> None:
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self.end_position = end_position

    def add(self, base_offset: int, size: int) -> None:
        """A batch of `size` bytes was appended."""
        offsets = self._offsets
        offsets.append(base_offset)
        self._positions.append(self.end_position)
        self.end_position += size
        if len(offsets) > 2 * _BATCHES_MAX:
            del offsets[:_BATCHES_MAX]
            del self._positions[:_BATCHES_MAX]

    def extend(self, base_offsets: Sequence[int], positions: Sequence[int], end_position: int) -> None:
        """These batches were appended one after the other, up to `end_position`."""
        offsets = self._offsets
        offsets += base_offsets
        self._positions += positions
        self.end_position = end_position
        if len(offsets) > 2 * _BATCHES_MAX:
            del offsets[:-_BATCHES_MAX]
            del self._positions[:-_BATCHES_MAX]

    def containing(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the batch that contains `offset`; None when it is older than what is remembered."""
        index = bisect_right(self._offsets, offset)
        if index == 0:
            return None
        position = self._positions[index - 1]
        end = self._positions[index] if index < len(self._positions) else self.end_position
        return position, end - position

    def position_from(self, offset: int) -> int | None:
        """Where the first batch that starts at or after `offset` lies, or the end; None when that is not remembered."""
        offsets = self._offsets
        if not offsets or offset < offsets[0]:
            return None
        index = bisect_left(offsets, offset)
        return self._positions[index] if index < len(offsets) else self.end_position

    def position_at(self, position: int) -> int | None:
        """Where the last batch begins that begins at or before `position`; None when that is not remembered."""
        index = bisect_right(self._positions, position)
        return self._positions[index - 1] if index else None

    def offset_from(self, position: int) -> int | None:
        """The offset of the first batch at or after `position`; None when there is none, or it is not remembered."""
        positions = self._positions
        if not positions or position < positions[0]:
            return None
        index = bisect_left(positions, position)
        return self._offsets[index] if index < len(positions) else None
