"""A node of a stream as a row: in the file beside the log, and in the snapshots of the log itself."""

from __future__ import annotations

from typing import Final

import msgspec

from ottla.gateways.redis.node import Node
from ottla.gateways.redis.stream_id import id_bytes

Row = tuple[bytes, bytes, int, int, int, int, bytes, tuple[bytes, ...], bytes]
"""A node: first and last id, live and deleted entries, size, offset, floor, the entries that are deleted singly, and
where records of other writers lie."""

_encode: Final = msgspec.msgpack.Encoder().encode


def row_of(node: Node, lowest_offset: int = 0) -> Row:
    """The row of a node. Entries that are not on disk yet lie at `lowest_offset` or behind it."""
    return (
        id_bytes(node.first_id),
        id_bytes(node.last_id),
        node.count,
        node.deleted,
        node.size,
        node.offset if node.offset >= 0 else lowest_offset,
        id_bytes(node.floor),
        tuple(id_bytes(each) for each in node.removed or ()),
        node.runs,
    )


def node_of(row: Row) -> Node:
    """The node of a row; its entries are in the log."""
    node = Node(int.from_bytes(row[0], "big"), row[5])
    node.last_id = node.written_id = int.from_bytes(row[1], "big")
    node.count, node.deleted, node.size = row[2:5]
    node.floor = int.from_bytes(row[6], "big")
    node.removed = {int.from_bytes(each, "big") for each in row[7]} or None
    node.runs = row[8]
    node.entries = None
    return node


def encoded(node: Node, lowest_offset: int = 0) -> bytes:
    """The row of a node in MessagePack."""
    return _encode(row_of(node, lowest_offset))


def encoded_row(node: Node, lowest_offset: int) -> bytes:
    """The row of a node in MessagePack, kept with it until it changes."""
    if node.row is None:
        row = encoded(node, lowest_offset)
        if not node.is_written:
            return row
        node.row = row
    return node.row
