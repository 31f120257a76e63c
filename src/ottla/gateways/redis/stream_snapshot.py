"""Snapshots in the log of a stream: with one, marks before it and entries that are gone may be removed from the log.

    .. Deleted  entry  Deleted | Snapshot 3  Kept  NodeRows  Held | entry  Deleted ..
       needed no more            all of the stream, in 3 parts      changes since

The cleaner keeps of what lies before a snapshot the entries that its nodes have. It may have passed over a part of that
only, so replaying what is left gives anything: a snapshot takes the place of it, once all its parts are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.pending_rows import PendingRows
from ottla.gateways.redis.stream_rows import encoded_row

if TYPE_CHECKING:
    from ottla.gateways.redis.group import Group
    from ottla.gateways.redis.stream import Stream

GARBAGE_MIN: Final = 10_000
"""A log is cleaned of so many useless records at least, and of as many as there are entries."""
ROWS_MAX: Final = 5_000
"""Nodes of one record of a snapshot."""
PART_BYTES_MAX: Final = 1024 * 1024
"""So much of such a record, if there is more than one node."""
ROW_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a node without limits, of which very many entries are deleted. There is no snapshot then."""
SLICE: Final = 500
"""So many nodes are encoded at a time."""


def is_worth_cleaning(stream: Stream, end_offset: int) -> bool:
    """Whether at least half of the records is of no use, from the first that is needed to where the log ends: what lies
    before goes without being cleaned.
    """
    window = end_offset - stream.nodes[0].offset if stream.nodes else 0
    return min(stream.garbage, window - stream.length) >= max(GARBAGE_MIN, stream.length)


class Prepared:
    """What of a snapshot is encoded ahead, bit by bit. `end` is to be called in any case."""

    def __init__(self, stream: Stream, now_ms: int) -> None:
        self._stream = stream
        self._now_ms = now_ms
        self._pending: dict[Group, PendingRows] = {}

    def slices(self, lowest_offset: int) -> Iterator[None]:
        """Encode nodes that live and what is pending, a slice at a time, so that `write` has little left. What comes or
        goes meanwhile does no harm.
        """
        nodes = self._stream.nodes.live
        for at in range(0, len(nodes), SLICE):
            for node in nodes[at : at + SLICE]:
                encoded_row(node, lowest_offset)
            yield
        yield from self.pending_slices()

    def pending_slices(self) -> Iterator[None]:
        """Of these what is pending."""
        for group in list(self._stream.groups.values()):
            rows = self._pending[group] = PendingRows(group, self._now_ms)
            yield from rows.slices()

    def groups(self) -> list[records.Record]:
        """All counters and groups, as they are now."""
        stream, now_ms = self._stream, self._now_ms
        gone: dict[bytes, list[records.KeptConsumer]] = {}
        held: list[records.Record] = []
        for group in stream.groups.values():
            rows = self._pending.get(group)
            if rows is None:
                rows = PendingRows(group, now_ms)
                for _ in rows.slices():
                    pass
            gone[group.name] = rows.finish()
            held += rows.records
        recalled = [records.mark(each, now_ms) for each in records.recalled(stream, now_ms)]
        return [records.mark(records.kept(stream, gone), now_ms), *held, *recalled]

    def end(self) -> None:
        """Nothing more is noted."""
        for rows in self._pending.values():
            rows.end()


def write(stream: Stream, prepared: Prepared, now_ms: int, lowest_offset: int, *, cleans: bool) -> bool:
    """Journal a snapshot, with which the log is to be cleaned or not; returns whether it can be written.

    Entries that are not on disk yet lie at `lowest_offset` or behind it.
    """
    rows = stream.nodes.encoded_rows(lambda node: encoded_row(node, lowest_offset))
    for node in stream.nodes.live:
        node.row = None  # until the next snapshot it would only take memory
    if any(len(row) > ROW_BYTES_MAX for row in rows):
        return False
    groups = prepared.groups()
    parts = list(_parts_of(rows))
    names = stream.nodes[-1].names if stream.nodes else []
    stream.journal_record(records.mark(records.Snapshot(len(groups) + len(parts), names, cleans), now_ms))
    for part in parts:
        stream.journal_record(records.encoded_rows(part, now_ms))
    for record in groups:
        stream.journal_record(record)
    if cleans:
        stream.garbage = 0
    return True


def _parts_of(rows: list[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for row in rows:
        if part and (size + len(row) > PART_BYTES_MAX or len(part) == ROWS_MAX):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row)
    if part:
        yield part


class SnapshotReader:
    """Gathers the parts of snapshots while a log is read."""

    __slots__ = ("_head", "_parts", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._head: records.Snapshot | None = None
        self._parts: list[records.Mark] = []

    def begin(self, head: records.Snapshot) -> None:
        """A snapshot begins; one without parts says that the one before has no more."""
        self._head, self._parts = head if head.parts else None, []

    @property
    def is_reading(self) -> bool:
        """Whether the next mark is one of its parts."""
        return self._head is not None

    def give_up(self) -> None:
        """Another record than a part follows: the rest was not written, and the snapshot counts for nothing."""
        self._head, self._parts = None, []

    def take(self, part: records.Mark) -> None:
        """The next part. With the last one the snapshot is whole, and `slices` has to follow."""
        self._parts.append(part)

    @property
    def is_whole(self) -> bool:
        """Whether all parts are there."""
        return self._head is not None and len(self._parts) >= self._head.parts

    def slices(self) -> Iterator[None]:
        """Make of the stream what the parts say, bit by bit."""
        head = self._head
        assert head is not None
        self._stream.clear_nodes()
        for each in self._parts:
            each.apply(self._stream)
            yield
        if self._stream.nodes:
            self._stream.nodes[-1].names = head.names
        if head.cleans:
            self._stream.garbage = 0
        self.give_up()
