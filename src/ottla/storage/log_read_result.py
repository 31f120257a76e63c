"""What a read of the log gives."""

from msgspec import Struct

from ottla.runtime.file_slice import FileSlice


class LogReadResult(Struct, frozen=True):
    """Pieces of segment files that together hold batches from the wanted offset on.

    The first batch may begin before the offset that was asked for, the last may be cut off: readers skip the one and
    drop the other, as the protocol asks of them. The files stay open for as long as the slices live.
    """

    slices: tuple[FileSlice, ...]
    total_bytes: int


NOTHING_READ = LogReadResult((), 0)
