"""The transaction indexes of a log at its start: checked, and made again where they are damaged or may lack entries.

An entry is written after the batch with its marker, and nobody waits for it. Entries of markers below the recovery
point are on disk, as it moves no further before they are; those above are made again from the batches, together with
the producers: a transaction may have begun segments before its marker.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

from ottla.runtime.disk import Disk
from ottla.storage.file_names import TRANSACTION_INDEX_SUFFIX
from ottla.storage.log_segment import LogSegment
from ottla.storage.transaction_index import AbortedTransaction, CorruptTransactionIndexError, TransactionIndex

logger: Final = logging.getLogger(__name__)


class TransactionIndexLoading:
    """Puts the transaction indexes of one log right. BLOCKING, in one thread."""

    __slots__ = ("_damaged", "_disk", "_end_offset", "_found", "_segments", "_trusted_up_to", "rebuild_from")

    def __init__(self, disk: Disk, segments: Sequence[LogSegment], end_offset: int, trusted_up_to: int) -> None:
        """Reads the indexes of `segments`, which end at `end_offset`; above `trusted_up_to` they may lack entries, and
        have some of markers that are not there. Raises OSError.
        """
        self._disk = disk
        self._segments = segments
        self._end_offset = end_offset
        self._trusted_up_to = trusted_up_to
        self.rebuild_from = end_offset
        """From which marker on entries are to be made again; the log's end when none are."""
        self._damaged = set[LogSegment]()
        self._found = [self._content(segment) for segment in segments]
        for (segment, end), found in zip(self._with_ends(), self._found, strict=True):
            self._check(segment, end, found)

    def rebuild_from_trusted(self) -> None:
        """There are markers above `trusted_up_to`."""
        self.rebuild_from = min(self.rebuild_from, self._trusted_up_to)

    def complete(self, aborted: Sequence[AbortedTransaction], unsynced: set[str]) -> TransactionIndex | None:
        """Write what differs; `aborted` has the transactions that markers from `rebuild_from` on abort, and maybe more.

        Returns the index of the newest segment, which may grow; None when it has none. The file of that one, if it is
        written, comes to `unsynced`. Raises OSError.
        """
        again = [each for each in aborted if each.last_offset >= self.rebuild_from]
        newest = self._segments[-1]
        content = b""
        for (segment, end), found in zip(self._with_ends(), self._found, strict=True):
            relied_on_up_to = min(self._trusted_up_to, self.rebuild_from)
            content = b"" if segment in self._damaged else TransactionIndex(found).up_to(relied_on_up_to)
            content += b"".join(each.encode() for each in again if segment.base_offset <= each.last_offset < end)
            if content != found:
                self._write(segment, content, unsynced if segment is newest else None)
            segment.has_aborted = bool(content)
        return TransactionIndex(content, growing=True) if content else None

    def _with_ends(self) -> Iterator[tuple[LogSegment, int]]:
        ends = chain((segment.base_offset for segment in self._segments[1:]), (self._end_offset,))
        return zip(self._segments, ends, strict=True)

    def _check(self, segment: LogSegment, end_offset: int, found: bytes) -> None:
        """Have the entries made again that cannot be right, and all after them."""
        is_whole = end_offset <= self._trusted_up_to
        try:
            relied_on = found if is_whole else TransactionIndex(found).up_to(self._trusted_up_to)
            TransactionIndex(relied_on).require_sound(segment.base_offset, end_offset)
        except CorruptTransactionIndexError as error:
            logger.warning("rebuilding %s: %s", segment.path(TRANSACTION_INDEX_SUFFIX), error)
            self._damaged.add(segment)
            self.rebuild_from = min(self.rebuild_from, segment.base_offset)

    def _content(self, segment: LogSegment) -> bytes:
        if segment.has_aborted:
            with suppress(FileNotFoundError):
                return self._disk.read_bytes(segment.path(TRANSACTION_INDEX_SUFFIX))
        return b""

    def _write(self, segment: LogSegment, content: bytes, unsynced: set[str] | None) -> None:
        path = segment.path(TRANSACTION_INDEX_SUFFIX)
        if not content:
            self._disk.remove(path)
        elif unsynced is None:
            self._disk.write_atomic(path, content)
        else:
            self._disk.write(path, content)
            unsynced.add(path)
