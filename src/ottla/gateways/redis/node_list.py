"""The nodes of a stream by their ids: a stream of ten million entries has some hundred thousand.

    columns   first id | last id | offset | live | deleted | size       52 bytes a node
    live      {first id: Node}      nodes that change, or of which there is more to say than the columns can
    used      {first id: Node}      all nodes that somebody has in hand, so that each is one object

A node becomes an object when it is asked for, and is one for as long as somebody keeps it. Who is about to change one
takes it (`take`), and it stays until it is settled: then it is in the columns again, if it fits.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, overload
from weakref import WeakValueDictionary

from ottla.gateways.redis.node import Node

_SEQUENCE: Final = (1 << 64) - 1
_SIZE_MAX: Final = (1 << 32) - 1
_NO_FLOOR: Final = bytes(16)
_GONE: Final = -2
"""The offset of a node that is gone."""
_ID: Final = struct.Struct(">QQ")
_SPARE_MIN: Final = 4096
"""So many nodes at the front that are gone are let go of, once they are half of all."""
_BLOCK: Final = 1024
"""So many nodes are counted at a time."""
_SINGLY_MAX: Final = 4
"""So many nodes that are gone are taken out of the columns one by one; each time what lies behind them moves."""
_COLUMN_NAMES: Final = (
    "_first_ms",
    "_first_sequences",
    "_last_ms",
    "_last_sequences",
    "_offsets",
    "_counts",
    "_deleted",
    "_sizes",
)
_COLUMNS: Final = frozenset(
    {"first_id", "last_id", "offset", "count", "deleted", "size", "written_id", "entries", "grows"}
)
_FORGOTTEN: Final = frozenset({"__weakref__", "home", "journal_index", "names", "row"})
_DEFAULTS: Final = tuple(
    (name, getattr(Node(0), name)) for name in Node.__slots__ if name not in _COLUMNS and name not in _FORGOTTEN
)
"""What else there is to a node, as it is of most."""

_ROW: Final = struct.Struct(">3sQQ2sQQBIBIBIBQ2s16sB2s")
_ROW_BEGINS: Final = b"\x99\xc4\x10"
_ID_BEGINS: Final = b"\xc4\x10"
_UINT32: Final = 0xCE
_UINT64: Final = 0xCF
_NO_ARRAY: Final = 0x90
_NO_BYTES: Final = b"\xc4\x00"

RowLike = Sequence[Any]
"""First and last id in 16 bytes, live and deleted entries, size, offset, floor in 16 bytes, and whatever else there is:
empty for most."""


class NodeList(Sequence[Node]):
    """Belongs to one stream. Ids ascend."""

    __slots__ = (
        "_changed",
        "_counts",
        "_deleted",
        "_first_ms",
        "_first_sequences",
        "_last_ms",
        "_last_sequences",
        "_live",
        "_offsets",
        "_sizes",
        "_start",
        "_used",
    )

    def __init__(self, changed: set[Node]) -> None:
        """`changed` are nodes that are not to be settled yet."""
        self._changed = changed
        self._first_ms = array("Q")
        self._first_sequences = array("Q")
        self._last_ms = array("Q")
        self._last_sequences = array("Q")
        self._offsets = array("q")
        self._counts = array("I")  # 0 for nodes that live, as their sizes
        self._deleted = array("I")
        self._sizes = array("I")
        self._start = 0  # of what is there, in the columns
        self._live: dict[int, Node] = {}
        self._used: WeakValueDictionary[int, Node] = WeakValueDictionary()

    @property
    def _columns(self) -> tuple["array[int]", ...]:
        return tuple(getattr(self, name) for name in _COLUMN_NAMES)

    # --- asking -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._first_ms) - self._start

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        size = len(self._first_ms) - self._start
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(size))]
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError(index)
        at = index + self._start
        first_id = self._first_ms[at] << 64 | self._first_sequences[at]
        node = self._live.get(first_id) or self._used.get(first_id)
        if node is None:
            node = self._made(at, first_id)
        if index == size - 1 and first_id not in self._live:  # what is added goes into it
            self._keep(at, node)
        return node

    def __iter__(self) -> Iterator[Node]:
        index = 0
        while index < len(self):
            yield self[index]
            index += 1

    def _made(self, at: int, first_id: int) -> Node:
        node = Node(first_id, self._offsets[at])
        node.last_id = node.written_id = self._last_ms[at] << 64 | self._last_sequences[at]
        node.count, node.deleted, node.size = self._counts[at], self._deleted[at], self._sizes[at]
        node.entries = None
        node.home = self
        self._used[first_id] = node
        return node

    def end_of(self, entry_id: int) -> int:
        """How many nodes begin at an id or before it."""
        first_ms, ms = self._first_ms, entry_id >> 64
        low = bisect_left(first_ms, ms, self._start)
        high = bisect_right(first_ms, ms, low)
        return bisect_right(self._first_sequences, entry_id & _SEQUENCE, low, high) - self._start

    def size_bytes(self, unknown: int) -> int:
        """The sizes of all nodes; `unknown` for one whose size is not known."""
        sizes, live = self._sizes[self._start :], self._live.values()
        return sum(sizes) + (sizes.count(0) - len(live)) * unknown + sum(node.size or unknown for node in live)

    def entries_from(self, index: int) -> int:
        """The live entries of the nodes from one on."""
        if index >= len(self):
            return 0
        first_id = self._first_at(index)
        count = sum(self._counts[index + self._start :])
        return count + sum(node.count for node in self._live.values() if node.first_id >= first_id)

    def whole_within(self, most: int, end: int | None = None) -> tuple[int, int]:
        """How many nodes from the first on have at most so many entries together, or somewhat fewer nodes; and how many
        entries these have. With `end`, only nodes before this one count.
        """
        index = total = 0
        size = len(self) if end is None else end
        while index + _BLOCK <= size:
            begin = self._start + index
            block = self._counts[begin : begin + _BLOCK]
            count = sum(block)
            if 0 in block:
                alive = (at for at, each in enumerate(block, index) if not each)
                count += sum(self._live[self._first_at(at)].count for at in alive)
            if total + count > most:
                break
            total += count
            index += _BLOCK
        return index, total

    # --- changing ---------------------------------------------------------------------------------------------------

    def append(self, node: Node) -> None:
        """A node behind all others."""
        first_id = node.first_id
        self._first_ms.append(first_id >> 64)
        self._first_sequences.append(first_id & _SEQUENCE)
        for column in self._columns[2:]:
            column.append(0)
        self._live[first_id] = self._used[first_id] = node
        node.home = self

    def take(self, index: int) -> Node:
        """A node that is about to change."""
        node = self[index]
        if node.first_id not in self._live:
            self._keep(index % len(self) + self._start, node)
        return node

    def _keep(self, at: int, node: Node) -> None:
        self._live[node.first_id] = node
        self._sizes[at] = self._counts[at] = 0

    def remove_all(self, nodes: Iterable[Node]) -> None:
        """Nodes are gone."""
        places = sorted(self.end_of(node.first_id) - 1 for node in nodes)
        front = 0
        while front < len(places) and places[front] == front:
            front += 1
        inner = [at + self._start for at in places[front:]]
        for at in inner:
            self._forget(self._first_ms[at] << 64 | self._first_sequences[at])
        if len(inner) <= _SINGLY_MAX:
            for at in reversed(inner):
                for column in self._columns:
                    del column[at]
        else:
            for name in _COLUMN_NAMES:
                setattr(self, name, _without(getattr(self, name), inner))
        self.drop_first(front)

    def drop_first(self, count: int) -> None:
        """So many nodes at the beginning are gone."""
        start = self._start
        if count < _BLOCK:
            for at in range(start, start + count):
                self._forget(self._first_ms[at] << 64 | self._first_sequences[at])
        else:
            last_id = self._first_at(count - 1)
            for first_id in [each for each in {*self._live, *self._used} if each <= last_id]:
                self._forget(first_id)
        self._start = start = start + count
        if start >= _SPARE_MIN and 2 * start >= len(self._first_ms):
            for column in self._columns:
                del column[:start]
            self._start = 0

    def _forget(self, first_id: int) -> None:
        self._live.pop(first_id, None)
        node = self._used.pop(first_id, None)
        if node is not None:
            node.home = None

    def settle(self, node: Node) -> None:
        """A node changes no more for now: it need not be an object, if all that is said of it fits."""
        if (
            node.entries is not None
            or not node.is_written
            or node.grows
            or node.size > _SIZE_MAX
            or node in self._changed
            or any(getattr(node, name) != default for name, default in _DEFAULTS)
        ):
            return
        index = self.end_of(node.first_id) - 1
        at = index + self._start
        if node.home is not self or index == len(self) - 1:
            return
        self._last_ms[at], self._last_sequences[at] = node.last_id >> 64, node.last_id & _SEQUENCE
        self._offsets[at], self._counts[at], self._deleted[at] = node.offset, node.count, node.deleted
        self._sizes[at] = node.size
        self._live.pop(node.first_id, None)

    def settle_all(self, nodes: Iterable[Node]) -> None:
        """`settle` for each."""
        for node in nodes:
            self.settle(node)

    # --- rows of an index -------------------------------------------------------------------------------------------

    def encoded_rows(self, encoded: Callable[[Node], bytes]) -> list[bytes]:
        """The rows of all nodes in MessagePack; `encoded` gives those of nodes that live."""
        rows = list(map(_encoded_row, *(column[self._start :] for column in self._columns)))
        for first_id, node in self._live.items():
            rows[self.end_of(first_id) - 1] = encoded(node)
        return rows

    @property
    def live(self) -> list[Node]:
        """The nodes of which there is more to say, or that may change."""
        return list(self._live.values())

    @property
    def least_offset(self) -> int:
        """Of all nodes, none of which has been changed."""
        return min(self._offsets[self._start :], default=sys.maxsize)

    def serve(self, changed: set[Node]) -> None:
        """Be the nodes of a stream, of which these are not to be settled."""
        self._changed = changed

    def merge_rows(self, rows: Sequence[RowLike], node_of: Callable[[Any], Node]) -> None:
        """Nodes that are on disk, by their ids: new ones, or what has become of those with the same first id. `node_of`
        makes one of which there is more to say.
        """
        begin, last_id = 0, self._first_at(len(self) - 1) if self else -1
        while begin < len(rows) and (first_id := int.from_bytes(rows[begin][0], "big")) <= last_id:
            at = self.end_of(first_id) - 1 + self._start
            if at < self._start or self._first_at(at - self._start) != first_id:
                at += 1
                for column in self._columns:
                    column.insert(at, 0)
            self._forget(first_id)
            self._set(at, rows[begin])
            begin += 1
        rest = rows[begin:]
        firsts, lasts = (_numbers(map(itemgetter(column), rest)) for column in (0, 1))
        self._first_ms += firsts[::2]
        self._first_sequences += firsts[1::2]
        self._last_ms += lasts[::2]
        self._last_sequences += lasts[1::2]
        self._counts.extend(map(itemgetter(2), rest))
        self._deleted.extend(map(itemgetter(3), rest))
        self._sizes.extend(min(row[4], _SIZE_MAX) for row in rest)
        self._offsets.extend(map(itemgetter(5), rest))
        for row in rows:
            if row[6] != _NO_FLOOR or row[4] > _SIZE_MAX or any(row[7:]):
                node = node_of(row)
                self._keep(self.end_of(node.first_id) - 1 + self._start, node)
                self._used[node.first_id] = node
                node.home = self

    def _set(self, at: int, row: RowLike) -> None:
        numbers = (*_ID.unpack(row[0]), *_ID.unpack(row[1]), row[5], row[2], row[3], min(row[4], _SIZE_MAX))
        for column, number in zip(self._columns, numbers, strict=True):
            column[at] = number

    def _first_at(self, index: int) -> int:
        at = index + self._start
        return self._first_ms[at] << 64 | self._first_sequences[at]

    def discard(self, first_id: int) -> None:
        """A node that begins at an id, if there is one, is gone as soon as `compact` is called."""
        index = self.end_of(first_id) - 1
        if index >= 0 and self._first_at(index) == first_id:
            self._offsets[index + self._start] = _GONE
            self._forget(first_id)

    def compact(self) -> None:
        """Let go of nodes that are gone."""
        offsets = self._offsets
        if not offsets.count(_GONE):
            return
        kept = [at for at in range(self._start, len(offsets)) if offsets[at] != _GONE]
        for column in self._columns:
            column[:] = array(column.typecode, [column[at] for at in kept])
        self._start = 0


def _without(column: "array[int]", places: Sequence[int]) -> "array[int]":
    """A column without some places, which ascend."""
    kept, size = array(column.typecode), column.itemsize
    data, begin = memoryview(column).cast("B"), 0
    for at in (*places, len(column)):
        kept.frombytes(data[begin * size : at * size])
        begin = at + 1
    return kept


def _numbers(ids: Iterable[bytes]) -> "array[int]":
    """The halves of ids."""
    numbers = array("Q", b"".join(ids))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _encoded_row(*row: int) -> bytes:
    """The row of a node of which there is no more to say."""
    first_ms, first_sequence, last_ms, last_sequence, offset, count, deleted, size = row
    ids = _ROW_BEGINS, first_ms, first_sequence, _ID_BEGINS, last_ms, last_sequence
    numbers = _UINT32, count, _UINT32, deleted, _UINT32, size, _UINT64, offset
    return _ROW.pack(*ids, *numbers, _ID_BEGINS, _NO_FLOOR, _NO_ARRAY, _NO_BYTES)
