"""The file beside the log of a stream that says what lies where, so that a start reads the end of the log only.

    stream.index    [ size int32 | CRC-32 | part ][ size | CRC-32 | part ] ...

A part holds what changed since the one before: nodes, which of them are gone, and all counters and groups; and up to
which offset of the log that is so. The file is a cache: a part that is torn ends it, one that does not go with the log
leaves the log to be read as a whole.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.node_list import NodeList
from ottla.gateways.redis.stream_id import ID_MAX, id_bytes
from ottla.gateways.redis.stream_rows import Row, encoded, node_of

if TYPE_CHECKING:
    from ottla.gateways.redis.node import Node
    from ottla.gateways.redis.stream import Stream

FILE_NAME: Final = "stream.index"
_HEAD: Final = struct.Struct(">II")


class Part(Struct, frozen=True, array_like=True):
    """What a stream was when its log ended at `end_offset`, which had been written in a leader epoch."""

    end_offset: int
    leader_epoch: int
    first_id: bytes
    """Nodes below it are gone."""
    gone: list[bytes]
    """The first ids of other nodes that are gone."""
    rows: list[Row]
    marks: list[bytes]
    garbage: int = 0


class _NewPart(Part, frozen=True, array_like=True):
    rows: list[msgspec.Raw]  # type: ignore[assignment]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Part).decode


def part_of(
    stream: Stream, end_offset: int, leader_epoch: int, nodes: Sequence[Node] | None, groups: Iterable[records.Record]
) -> bytes:
    """The part that says these nodes of a stream, or all, as it is in the file. They are on disk. `groups` are the
    records of all counters and groups.
    """
    first_id = stream.nodes[0].first_id if stream.nodes else stream.last_id + 1
    rows = stream.nodes.encoded_rows(encoded) if nodes is None else list(map(encoded, nodes))
    part = _NewPart(
        end_offset,
        leader_epoch,
        id_bytes(min(first_id, ID_MAX)),
        [id_bytes(each) for each in stream.gone],
        [msgspec.Raw(row) for row in rows],
        [record[2] for record in groups],
        stream.garbage,
    )
    data = _encode(part)
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def read_parts(data: bytes) -> tuple[Part, NodeList, bool] | None:
    """The last good part of a file, all nodes, and whether nothing lies behind it; None for no part at all."""
    nodes = NodeList(set())
    last: Part | None = None
    at, view = 0, memoryview(data)
    while at + _HEAD.size <= len(data):
        size, checksum = _HEAD.unpack_from(data, at)
        body = view[at + _HEAD.size : at + _HEAD.size + size]
        if len(body) < size or zlib.crc32(body) != checksum:
            break
        try:
            part = _decode(body)
        except msgspec.DecodeError:
            break
        last = part
        for first_id in part.gone:  # one that begins at the same id may have come after it
            nodes.discard(int.from_bytes(first_id, "big"))
        nodes.merge_rows(sorted(part.rows), node_of)
        at += _HEAD.size + size
    if last is None:
        return None
    nodes.compact()
    floor = int.from_bytes(last.first_id, "big")
    nodes.drop_first(nodes.end_of(floor - 1) if floor else 0)
    return last, nodes, at == len(data)


def restore(stream: Stream, part: Part, nodes: NodeList) -> Iterator[None]:
    """Make of an empty stream the one that was, bit by bit. Raises msgspec.DecodeError."""
    stream.load_nodes(nodes)
    for mark in part.marks:
        stream.apply_mark(records.decode_mark(mark))
        yield
    stream.garbage = part.garbage
