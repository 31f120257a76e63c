"""What records ask of their delivery, read from the batches that they lie in, off the event loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.native import DeliveryHints

if TYPE_CHECKING:
    from ottla.runtime.tasks import Tasks

HINTS_MAX: Final = 10_000
"""Records that are looked at together, 32 bytes each. Who needs those behind reads on."""

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024

NO_HINTS: Final = DeliveryHints(b"", 0, 1, max_decompressed_bytes=0)


class Wanted(NamedTuple):
    """What is looked for: keys, priorities below a number, times to live."""

    keys: bool = False
    lanes: int = 0
    ttl: bool = False


class HintReader:
    """Of one share partition. Keeps what it read last, as a reader of few records comes to the same batch again."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._last = NO_HINTS
        self._wanted = Wanted()

    async def read(self, data: bytes, offset: int, wanted: Wanted) -> DeliveryHints:
        """The hints from an offset on, which lies in the batches of `data`."""
        last = self._last
        if wanted != self._wanted or not last.start_offset <= offset < last.end_offset:
            read = partial(
                DeliveryHints,
                data,
                offset,
                HINTS_MAX,
                keys=wanted.keys,
                lanes=wanted.lanes,
                ttl=wanted.ttl,
                max_decompressed_bytes=DECOMPRESSED_BYTES_MAX,
            )
            last = await self._tasks.in_thread(read)
            self._last, self._wanted = last, wanted
        return last
