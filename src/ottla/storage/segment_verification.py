"""Whether the files of one segment are right: every batch, and every index entry against the batch it points at.

    .log        [100..107][108..119][120..142] ... [ba     CRC, lengths, offsets that only grow, up to the next segment
    .index      (119, 4310)                                a batch begins at 4310, at offset 119 or before
    .timeindex  (17.., 119)                                no record up to offset 119 is later, and one is as late

Nothing is changed. The walk over the batches ends at the first that is bad; indexes are compared up to there. BLOCKING.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from ottla.native import BatchInfo
from ottla.runtime.disk import Disk
from ottla.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_file_name
from ottla.storage.open_file import OpenFile
from ottla.storage.segment_recovery import walk_segment

INDEX_BYTES_MAX: Final = 256 << 20
"""An index is read whole; no broker writes one that is larger (`segment.index.bytes` is 10 MiB unless it is set)."""

FINDINGS_MAX: Final = 100
"""So many are named of a segment, of each kind: an index may have a million entries."""

EVERYTHING: Final = float("inf")

_PIECE_BYTES: Final = 4 << 20
_ENTRY: Final = {INDEX_SUFFIX: struct.Struct(">ii"), TIME_INDEX_SUFFIX: struct.Struct(">qi")}
_REMEDY: Final = "a start makes the index anew when this file is removed before"


class Finding(Struct, frozen=True):
    """Something about a file: damage, or what a start puts right by itself and nobody loses anything by."""

    file: str
    reason: str
    position: int | None = None
    is_damage: bool = True

    def __str__(self) -> str:
        place = self.file if self.position is None else f"{self.file}, byte {self.position}"
        return f"{place}: {self.reason}"


class VerifiedSegment(Struct, frozen=True):
    """What a segment holds, as far as it is good."""

    batches: int
    end_offset: int
    findings: tuple[Finding, ...]


class SegmentVerification:
    """Looks at one segment, once."""

    __slots__ = (
        "_base_offset",
        "_batches",
        "_directory",
        "_disk",
        "_findings",
        "_index",
        "_latest",
        "_max_timestamp",
        "_next_base",
        "_on_batch",
        "_said",
        "_settled_up_to",
        "_sizes",
        "_times",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        sizes: Mapping[str, int],
        *,
        next_base: int | None,
        settled_up_to: float,
        on_batch: Callable[[BatchInfo], None],
    ) -> None:
        """`sizes` are those of the files in the directory, `next_base` is where the segment behind it begins, None for
        the newest. In the newest only what lies below `settled_up_to` has to be right: the rest may never have come to
        the disk, and a start goes over it.
        """
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._sizes = sizes
        self._next_base = next_base
        self._settled_up_to = settled_up_to if next_base is None else EVERYTHING
        self._on_batch = on_batch
        self._findings: list[Finding] = []
        self._said = {True: 0, False: 0}
        self._batches = 0
        self._max_timestamp = -1
        self._latest = -1  # the timestamp of the last entry of the time index
        self._index = self._times = _Entries(iter(()))

    def run(self) -> VerifiedSegment:
        """Look. Raises OSError when the file of batches cannot be read."""
        name = offset_file_name(self._base_offset, LOG_SUFFIX)
        size = self._sizes[name]
        self._index, self._times = self._entries(INDEX_SUFFIX, size), self._entries(TIME_INDEX_SUFFIX, size)
        file = OpenFile(self._disk, f"{self._directory}/{name}")
        walk = walk_segment(file, size, self._base_offset, 0, self._see)
        left = size - walk.position
        # Its place in parentheses is within what was read at a time.
        reason = (walk.reason or "").partition(" (batch ")[0]
        if walk.reason is None:
            self._see_the_end(walk.end_offset, size)
        elif self._next_base is None and _is_nothing(file, walk.position, size):
            self._note(name, f"{left} bytes are reserved and hold nothing yet", walk.position)
        elif walk.end_offset >= self._settled_up_to:
            self._note(name, f"{left} bytes that are no batch, which the next start cuts: {reason}", walk.position)
        else:
            self._damage(name, f"{reason}; the {left} bytes from here on were not looked at", walk.position)
        return VerifiedSegment(self._batches, walk.end_offset, tuple(self._findings))

    def _see(self, position: int, batch: BatchInfo) -> None:
        if self._next_base is not None and batch.last_offset >= self._next_base:
            log = offset_file_name(self._base_offset, LOG_SUFFIX)
            reason = f"offset {batch.last_offset} belongs into the segment that begins at {self._next_base}"
            self._damage(log, reason, position)
        self._batches += 1
        for entry in self._index.up_to(position):
            if entry.value < position:
                self._doubt(INDEX_SUFFIX, entry, f"no batch begins at byte {entry.value} of the log")
            elif entry.offset < batch.base_offset:
                reason = (
                    f"offset {entry.offset} lies before byte {position} of the log, at which {batch.base_offset} does"
                )
                self._doubt(INDEX_SUFFIX, entry, reason)
        self._see_times(batch.base_offset - 1)
        self._max_timestamp = max(self._max_timestamp, batch.max_timestamp)
        self._see_times(batch.last_offset)
        self._on_batch(batch)

    def _see_times(self, offset: int) -> None:
        for entry in self._times.up_to(offset):
            self._latest = entry.value
            if entry.value != self._max_timestamp:
                reason = f"the latest record up to offset {entry.offset} is of {self._max_timestamp}, not {entry.value}"
                self._doubt(TIME_INDEX_SUFFIX, entry, reason)

    def _see_the_end(self, end_offset: int, size: int) -> None:
        for entry in self._index.up_to(EVERYTHING):
            self._doubt(INDEX_SUFFIX, entry, f"the log has {size} bytes and no batch at byte {entry.value}")
        for entry in self._times.up_to(EVERYTHING):
            self._doubt(TIME_INDEX_SUFFIX, entry, f"the segment ends at offset {end_offset}, before {entry.offset}")
        name = offset_file_name(self._base_offset, TIME_INDEX_SUFFIX)
        if self._next_base is not None and name in self._sizes and self._latest < self._max_timestamp:
            reason = f"its last entry is of {self._latest}, the latest record of {self._max_timestamp}"
            self._damage(name, f"{reason}; {_REMEDY}")

    def _entries(self, suffix: str, log_size: int) -> "_Entries":
        """What an index says, without the entries that are out of order."""
        name = offset_file_name(self._base_offset, suffix)
        size = self._sizes.get(name)
        nothing = _Entries(iter(()))
        if size is None:
            if log_size and self._next_base is not None:
                self._note(name, "is missing; the next start makes it")
            return nothing
        if size > INDEX_BYTES_MAX:
            self._damage(name, f"{size} bytes are more than an index ever has; it was not read")
            return nothing
        try:
            data = self._disk.read_bytes(f"{self._directory}/{name}")
        except OSError as error:
            self._damage(name, f"cannot be read: {error.strerror}")
            return nothing
        entry_bytes = _ENTRY[suffix].size
        whole = len(data) - len(data) % entry_bytes
        if whole < len(data):
            torn = IndexEntry(whole, whole, int(self._settled_up_to) if self._is_unsettled else -1, 0)
            self._doubt(suffix, torn, "the file ends inside an entry")
        if self._next_base is None:
            # Kafka gives the indexes of the newest segment their full size at once.
            while whole and not any(data[whole - entry_bytes : whole]):
                whole -= entry_bytes
        return _Entries(self._in_order(suffix, data[:whole]))

    def _in_order(self, suffix: str, data: bytes) -> "Iterator[IndexEntry]":
        is_time = suffix == TIME_INDEX_SUFFIX
        entry_format = _ENTRY[suffix]
        before = (-1, -1)
        for number, found in enumerate(entry_format.iter_unpack(data)):
            at = number * entry_format.size
            value, relative_offset = found if is_time else (found[1], found[0])
            offset = self._base_offset + relative_offset
            entry = IndexEntry(offset if is_time else value, at, offset, value)
            # Offsets, positions and times grow; but two times may be of one offset.
            if value <= before[0] or relative_offset < before[1] or (relative_offset == before[1] and not is_time):
                self._doubt(suffix, entry, "the entry goes back behind the one before it")
                continue
            before = value, relative_offset
            yield entry

    @property
    def _is_unsettled(self) -> bool:
        return self._settled_up_to < EVERYTHING

    def _doubt(self, suffix: str, entry: "IndexEntry", reason: str) -> None:
        """Something is wrong with an entry: damage, unless it is about what a start makes anew."""
        name = offset_file_name(self._base_offset, suffix)
        if self._is_unsettled and entry.offset >= self._settled_up_to:
            self._note(name, f"{reason}; the next start makes it anew", entry.at)
        else:
            self._damage(name, f"{reason}; {_REMEDY}", entry.at)

    def _damage(self, file: str, reason: str, position: int | None = None) -> None:
        self._say(Finding(file, reason, position))

    def _note(self, file: str, reason: str, position: int | None = None) -> None:
        self._say(Finding(file, reason, position, is_damage=False))

    def _say(self, finding: Finding) -> None:
        said = self._said[finding.is_damage] = self._said[finding.is_damage] + 1
        if said <= FINDINGS_MAX:
            self._findings.append(finding)
        elif said == FINDINGS_MAX + 1:
            more = "there is more of this, which is not listed"
            self._findings.append(Finding(finding.file, more, is_damage=finding.is_damage))


class IndexEntry(NamedTuple):
    """An entry, by what it is compared: the position it points at, or the offset of a time. `at` is its own place."""

    key: int
    at: int
    offset: int
    value: int


class _Entries:
    """The entries of an index, looked at once, in their order."""

    __slots__ = ("_entries", "_next")

    def __init__(self, entries: Iterator[IndexEntry]) -> None:
        self._entries = entries
        self._next = next(entries, None)

    def up_to(self, key: float) -> Iterator[IndexEntry]:
        """Those that come next and are not beyond `key`."""
        while self._next is not None and self._next.key <= key:
            entry, self._next = self._next, next(self._entries, None)
            yield entry


def _is_nothing(file: OpenFile, position: int, size: int) -> bool:
    """Whether only zeros follow."""
    while position < size:
        piece = file.pread(min(_PIECE_BYTES, size - position), position)
        if not piece or piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True
