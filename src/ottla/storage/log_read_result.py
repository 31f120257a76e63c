"""What a read of the log gives."""

from typing import TYPE_CHECKING

from msgspec import Struct

from ottla.runtime.file_slice import FileSlice

if TYPE_CHECKING:
    from ottla.storage.log_segment import LogSegment


class LogReadResult(Struct, frozen=True):
    """Pieces of segment files that together hold batches from the wanted offset on.

    The first batch may begin before the offset that was asked for, the last may be cut off: readers skip the one and
    drop the other, as the protocol asks of them. The files stay open for as long as the slices live.
    """

    slices: tuple[FileSlice, ...]
    total_bytes: int
    last_segment: "LogSegment | None" = None
    """The one that the last piece is of."""


NOTHING_READ = LogReadResult((), 0)
