"""Puts a compacted segment in the place of those it was made of, whatever crashes on the way.

    made       00100.log.cleaned          00100.log  00200.log          a crash: the new files are removed
    chosen     00100.log.swap             00100.log  00200.log          a crash: the swap is completed at the start
    swapped    00100.log                  00200.log.deleted             a crash: what is marked as deleted is removed

The names are Apache Kafka's. `.log` is renamed after the indexes, so whoever finds `.log.swap` has all of the segment.
Everything here is BLOCKING.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.runtime.disk import Disk
from ottla.storage.batch_scan import scan_batches
from ottla.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
)
from ottla.storage.log_segment import LogSegment
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_file import OpenFile

MADE_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)
"""What a compacted segment consists of, the file of batches last. There is a transaction index if one of the segments
it is made of had one."""


def cleaned_path(segment: LogSegment, suffix: str) -> str:
    """Where a file of a segment in the making is."""
    return segment.path(suffix) + CLEANED_SUFFIX


def swap_path(segment: LogSegment, suffix: str) -> str:
    """Where a file of a segment is that is about to be swapped in."""
    return segment.path(suffix) + SWAP_SUFFIX


def discard(disk: Disk, segment: LogSegment) -> None:
    """Remove the files of a segment that is not to be swapped in. Raises OSError."""
    for suffix in reversed(MADE_SUFFIXES):
        disk.remove(swap_path(segment, suffix))
        disk.remove(cleaned_path(segment, suffix))


def choose(disk: Disk, segment: LogSegment) -> None:
    """Make the files of a segment durable and their choice final. Raises OSError."""
    made = [suffix for suffix in MADE_SUFFIXES if disk.exists(cleaned_path(segment, suffix))]
    for suffix in made:
        disk.sync_file(cleaned_path(segment, suffix))
    for suffix in made:
        disk.rename(cleaned_path(segment, suffix), swap_path(segment, suffix), durable=False)
    disk.sync_dir(segment.directory)


def swap(disk: Disk, old: Sequence[LogSegment], new: LogSegment, besides: Sequence[str] = ()) -> list[str]:
    """Mark the files of `old`, and those `besides`, as deleted and give `new` its names; returns what to remove later.

    Raises OSError.
    """
    deleted = []
    for path in (*(segment.path(suffix) for segment in old for suffix in SEGMENT_SUFFIXES), *besides):
        if disk.exists(path):
            disk.rename(path, path + DELETED_SUFFIX, durable=False)
            deleted.append(path + DELETED_SUFFIX)
    for suffix in MADE_SUFFIXES:
        if disk.exists(swap_path(new, suffix)):
            disk.rename(swap_path(new, suffix), new.path(suffix), durable=False)
    disk.sync_dir(new.directory)
    return deleted


def settle(disk: Disk, directory: str, names: Iterable[str]) -> bool:
    """Complete the swaps that a crash interrupted and remove what was only being made; whether there was anything.

    `names` are the files of the log's directory. Raises OSError.
    """
    names = set(names)
    unfinished = {name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))}
    if not unfinished:
        return False
    for name in sorted(unfinished):
        base_offset = _base_of(name, LOG_SUFFIX + SWAP_SUFFIX)
        if base_offset is not None:
            _complete(disk, directory, base_offset, names)
    for name in unfinished:
        disk.remove(f"{directory}/{name}")
    disk.sync_dir(directory)
    return True


def _complete(disk: Disk, directory: str, base_offset: int, names: set[str]) -> None:
    new = LogSegment(directory, base_offset)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
        if offset_file_name(base_offset, suffix) + SWAP_SUFFIX in names:
            disk.rename(swap_path(new, suffix), new.path(suffix), durable=False)
    for other in _replaced(names, base_offset, _end_offset(disk, new)):
        for suffix in SEGMENT_SUFFIXES:
            disk.remove(LogSegment(directory, other).path(suffix))
    disk.rename(swap_path(new, LOG_SUFFIX), new.path(LOG_SUFFIX), durable=False)


def _replaced(names: set[str], base_offset: int, end_offset: int) -> list[int]:
    """The base offsets of the other segments that begin within a swapped one."""
    found = (_base_of(name, LOG_SUFFIX) for name in names)
    return [other for other in found if other is not None and base_offset < other < end_offset]


def _end_offset(disk: Disk, segment: LogSegment) -> int:
    """The offset after the last batch of a segment that is about to be swapped in; its indexes have their names."""
    path = swap_path(segment, LOG_SUFFIX)
    index = OffsetIndex(segment.base_offset, disk.read_bytes(segment.path(INDEX_SUFFIX)))
    start = index[-1].position if len(index) else 0
    end_offset = segment.base_offset
    for batch in scan_batches(OpenFile(disk, path), start, disk.size(path)):
        end_offset = batch.last_offset + 1
    return end_offset


def _base_of(name: str, suffix: str) -> int | None:
    """The base offset in the name of a file of this kind; None for another."""
    if not name.endswith(suffix):
        return None
    parsed = parse_offset_file_name(name.removesuffix(suffix) + LOG_SUFFIX)
    return None if parsed is None else parsed[0]
