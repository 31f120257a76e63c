"""Records that other protocols wrote to the topic of a stream, and how they are entries of it.

batch of another writer   offsets 7 .. 9                its first record has no header `redis`
mark `Adopted`            7, 3 records, first id 5-0    they are the entries 5-0, 5-1, 5-2, where the mark stands
entry                     value, key, header.NAME       the fields; a value that is null is empty
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ottla.gateways.redis.stream_id import ID_BYTES
from ottla.model.stream_record import HEADER
from ottla.native import BatchInfo, decode_at, decode_records, walk_batches
from ottla.native.errors import KernelError

BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""A batch that is larger once it is decompressed is not read."""
NODE_BYTES: Final = 64 * 1024
"""A node has about so many bytes of records of other writers at most."""
VALUE: Final = b"value"
KEY: Final = b"key"
HEADER_PREFIX: Final = b"header."
_RUN: Final = struct.Struct(f">QQ{ID_BYTES}s")

Record = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, timestamp, key, value and headers."""


class Run(NamedTuple):
    """Neighbouring records that are entries with neighbouring ids."""

    offset: int
    record_count: int
    first_id: int

    @property
    def last_id(self) -> int:
        """The id of its last entry."""
        return self.first_id + self.record_count - 1


def runs_of(data: bytes) -> Iterator[Run]:
    """The runs of a node, as `add_run` packs them."""
    for offset, count, first_id in _RUN.iter_unpack(data):
        yield Run(offset, count, int.from_bytes(first_id, "big"))


def add_run(data: bytes, run: Run) -> bytes:
    """The runs of a node with one more, which is joined to the last one if it continues it."""
    if data:
        *_, last = runs_of(data[-_RUN.size :])
        if (last.offset + last.record_count, last.first_id + last.record_count) == (run.offset, run.first_id):
            data, run = data[: -_RUN.size], Run(last.offset, last.record_count + run.record_count, last.first_id)
    return data + _RUN.pack(run.offset, run.record_count, run.first_id.to_bytes(ID_BYTES, "big"))


def fields_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> list[bytes]:
    """The fields of a record as an entry, names and values in turn.

    >>> fields_of(b"k", None, [("trace", b"7")])
    [b'value', b'', b'key', b'k', b'header.trace', b'7']
    """
    fields = [VALUE, value or b""]
    if key is not None:
        fields += KEY, key
    for name, content in headers:
        fields += HEADER_PREFIX + name.encode(), content or b""
    return fields


class Foreign(NamedTuple):
    """A batch of another writer; whether its transaction is committed is not looked at."""

    batch: BatchInfo
    spans: list[tuple[int, int]]
    """First offset and number of its records that are neighbours: one span, but where a log was compacted."""


class Batches(NamedTuple):
    """Whole batches of the log of a stream, sorted by their writers."""

    all: list[BatchInfo]
    foreign: list[Foreign]
    unreadable: frozenset[int]
    """The base offsets of compressed batches that cannot be read: they hold no entries."""


def sort_batches(data: bytes, begin_offset: int = 0) -> Batches:
    """For a thread: the batches of a part of a log; all below an offset are of other writers. Raises KernelError for
    what is no log.
    """
    batches, _, error = walk_batches(data, check_crc=False)
    if error is not None and not batches:
        raise error
    full = [batch for batch in batches if not batch.is_control and batch.record_count]
    firsts, unreadable = _first_records(data, full)
    foreign = [
        Foreign(batch, _spans(data, batch))
        for batch in full
        if batch.base_offset in firsts
        and (batch.base_offset < begin_offset or not is_of_stream(firsts[batch.base_offset][4]))
    ]
    return Batches(batches, foreign, frozenset(unreadable))


def is_of_stream(headers: Any) -> bool:
    """Whether a record was written by the stream itself."""
    return any(name == HEADER and value for name, value in headers)


def _first_records(data: bytes, batches: list[BatchInfo]) -> tuple[dict[int, Record], list[int]]:
    """The first record of each batch, by the base offset of that, and the batches that cannot be read."""
    offsets = [batch.base_offset for batch in batches]
    found: dict[int, Record] = {}
    unreadable: list[int] = []
    with suppress(KernelError):  # each by itself then
        found = {each[0]: each for each in decode_at(data, offsets, max_decompressed_bytes=BATCH_BYTES_MAX)}
    for batch in batches:
        if batch.base_offset not in found:
            try:
                records = _decoded(data, batch)  # the cleaner may have removed the first one that was
            except KernelError:
                if not batch.codec:
                    raise
                unreadable.append(batch.base_offset)
            else:
                if records:
                    found[batch.base_offset] = records[0]
    return found, unreadable


def _spans(data: bytes, batch: BatchInfo) -> list[tuple[int, int]]:
    if batch.record_count == batch.last_offset_delta + 1:
        return [(batch.base_offset, batch.record_count)]
    spans: list[tuple[int, int]] = []
    for offset, *_ in _decoded(data, batch):
        if spans and sum(spans[-1]) == offset:
            spans[-1] = spans[-1][0], spans[-1][1] + 1
        else:
            spans.append((offset, 1))
    return spans


def _part(data: bytes, batch: BatchInfo) -> bytes:
    return data[batch.position : batch.position + batch.size]


def _decoded(data: bytes, batch: BatchInfo) -> list[Record]:
    return decode_records(_part(data, batch), max_decompressed_bytes=BATCH_BYTES_MAX)


def own_records(data: bytes, batches: Batches, start_offset: int) -> list[Record]:
    """For a thread: the records that the stream itself has written, from an offset on. Raises KernelError."""
    if batches.foreign or batches.unreadable:
        others = batches.unreadable.union(each.batch.base_offset for each in batches.foreign)
        data = b"".join(_part(data, batch) for batch in batches.all if batch.base_offset not in others)
    return decode_records(data, max_decompressed_bytes=BATCH_BYTES_MAX, start_offset=start_offset)


def read_fields(data: bytes, offsets: Sequence[int]) -> dict[int, list[bytes]]:
    """For a thread: the fields of the records at some offsets, which ascend. Raises KernelError."""
    records = decode_at(data, offsets, max_decompressed_bytes=BATCH_BYTES_MAX)
    return {offset: fields_of(key, value, headers) for offset, _, key, value, headers in records}
