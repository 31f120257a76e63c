"""What a read of the log gives."""

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from ottla.runtime.file_slice import FileSlice

if TYPE_CHECKING:
    from ottla.storage.log_segment import LogSegment


class LogReadResult(Struct, frozen=True):
    """Pieces of segment files that together hold batches from the wanted offset on.

    The first batch may begin before the offset that was asked for, the last may be cut off: readers skip the one and
    drop the other, as the protocol asks of them. So a piece of a large batch is left out where its beginning is known:
    of batches of 400 KB, 200 KB of every 1 MB would be sent to be dropped. The files stay open for as long as the
    slices live.
    """

    slices: tuple[FileSlice, ...]
    total_bytes: int
    last_segment: "LogSegment | None" = None
    """The one that the last piece is of."""
    left_out_bytes: int = 0
    """Of a batch that did not fit. They are there and could be had: who waits for so many bytes waits no longer."""

    def read(self) -> bytes:
        """What the slices hold. BLOCKING."""
        return b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in self.slices)


NOTHING_READ = LogReadResult((), 0)
