"""A stream: its entries in nodes, its counters and its groups. Every change is journaled as it is made.

    nodes    [ 5-0 .. 8-3 ][ 9-0 .. 12-7 ][ 13-0 .. ]      the last one grows
    journal  records that are to be appended to the log of the stream, in the order of the changes

`append` and `mark` apply a change and journal it; `load_entry` and `apply_mark` apply what is read from the log again.
What a command needs of entries that are only in the log it asks for before it changes anything (`NodeMissingError`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final
from weakref import WeakSet

from msgspec import Struct

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.adopted_records import Run, add_run
from ottla.gateways.redis.group import UNKNOWN, Group
from ottla.gateways.redis.idempotence import Idempotence
from ottla.gateways.redis.listpack import entry_bytes, node_bytes
from ottla.gateways.redis.node import Node
from ottla.gateways.redis.node_list import NodeList
from ottla.gateways.redis.stream_id import ID_MAX
from ottla.gateways.redis.stream_records import Mark
from ottla.gateways.redis.stream_rows import Row, node_of
from ottla.native import StreamAdds

_SEQUENCE: Final = (1 << 64) - 1
NODE_BYTES_MAX: Final = 1 << 30
_identities: Final = count(1)


class NodeLimits(Struct):
    """When a node is full, as Redis' `stream-node-max-bytes` and `stream-node-max-entries`; 0 for no limit."""

    bytes_max: int = 4096
    entries_max: int = 100


class NodeMissingError(Exception):
    """Entries are needed that are only in the log."""

    def __init__(self, stream: "Stream", index: int) -> None:
        super().__init__("a node of a stream is not in memory")
        self.stream = stream
        self.index = index


class Stream:
    """Belongs to the event loop."""

    __slots__ = (
        "_first_id",
        "_journaled",
        "adopted_to",
        "changed",
        "database",
        "entries_added",
        "expires_ms",
        "garbage",
        "gone",
        "groups",
        "idempotence",
        "identity",
        "is_anew",
        "is_dropped",
        "journal",
        "key",
        "last_id",
        "length",
        "limits",
        "log",
        "max_deleted_id",
        "modified",
        "news",
        "nodes",
        "on_journal",
        "spans",
        "touch",
        "unwritten",
        "version",
    )

    def __init__(self, limits: NodeLimits, on_journal: Callable[["Stream"], None]) -> None:
        """`on_journal` is called when the journal gets its first record."""
        self.limits = limits
        self.on_journal = on_journal
        self.journal: list[records.Journaled] = []
        self._journaled = 0  # records in it
        self.changed: set[Node] = set()
        """Nodes that are not in the index as they are (`ottla.gateways.redis.stream_index`)."""
        self.gone: list[int] = []
        """The first ids of nodes that are gone and may be in the index."""
        self.is_anew = False
        """Whether all nodes that are in the index are gone: it is to be written as a whole."""
        self.garbage = 0
        """How many records of the log are of no use once there is a snapshot behind them."""
        self.unwritten: list[Node] = []
        """Nodes that have entries in the journal, in their order."""
        self.log: Any = None
        """Where its records go (`ottla.gateways.redis.stream_log`)."""
        self.adopted_to = 0
        """Below it is decided which records of other writers are entries."""
        self.database = 0
        self.key: bytes | None = None
        """None while there is no such key."""
        self.identity = next(_identities)
        """Another one for every stream of this process."""
        self.is_dropped = False
        """Whether its topic is about to be deleted."""
        self.version = 0
        """Rises with every change."""
        self.modified = 0
        """Rises with every change that WATCH sees: of entries, and of when the key goes. Groups change without it."""
        self.news = 0
        """Rises with every change that clients may wait for."""
        self.touch: Callable[[Node], None] = lambda node: None
        """Told of nodes whose entries are used."""
        self.spans: WeakSet[Any] = WeakSet()
        """What long replies read of its log (`ottla.gateways.redis.long_reply`), while they are sent."""
        self._clear()

    def _clear(self) -> None:
        self.nodes = NodeList(self.changed)
        self._first_id: int | None = 0
        self.length = 0
        self.last_id = 0
        self.max_deleted_id = 0
        self.entries_added = 0
        self.expires_ms: int | None = None
        self.groups: dict[bytes, Group] = {}
        self.idempotence = Idempotence()

    # --- what is asked ----------------------------------------------------------------------------------------------

    @property
    def first_id(self) -> int:
        """The id of the first entry, 0 for none. Raises NodeMissingError."""
        if self._first_id is None:
            self._first_id = next((entry_id for entry_id, _ in self.range(0, ID_MAX)), 0)
        return self._first_id

    @property
    def last_valid_id(self) -> int:
        """The id of the last entry, 0 for none. Raises NodeMissingError."""
        return next((entry_id for entry_id, _ in self.reverse_range(0, ID_MAX)), 0)

    def has_after(self, entry_id: int) -> bool:
        """Whether there is an entry above an id. Raises NodeMissingError."""
        if not self.length or self.last_id <= entry_id:
            return False
        return self._index_of(self.last_id) is not None or self.last_valid_id > entry_id

    def range(self, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        """The entries of an interval of ids. Raises NodeMissingError."""
        nodes = self.nodes
        index = max(0, nodes.end_of(first) - 1)
        while index < len(nodes) and nodes[index].first_id <= last:
            node = nodes[index]
            entries = self._entries(index)
            if node.first_id >= first and node.last_id <= last:
                yield from entries.items()
            else:
                ids = list(entries)
                for entry_id in ids[bisect_left(ids, first) : bisect_right(ids, last)]:
                    yield entry_id, entries[entry_id]
            index += 1

    def reverse_range(self, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        """The entries of an interval of ids, the last first. Raises NodeMissingError."""
        index = self.nodes.end_of(last) - 1
        while index >= 0 and self.nodes[index].last_id >= first:
            for entry_id, fields in reversed(self._entries(index).items()):
                if entry_id < first:
                    return
                if entry_id <= last:
                    yield entry_id, fields
            index -= 1

    def indexes_of(self, first: int, last: int, *, is_reverse: bool) -> Sequence[int]:
        """The nodes in which entries of an interval of ids may be, by their indexes."""
        begin = max(0, self.nodes.end_of(first) - 1)
        end = self.nodes.end_of(last)
        while begin < end and self.nodes[begin].last_id < first:
            begin += 1
        return range(end - 1, begin - 1, -1) if is_reverse else range(begin, end)

    def entries_at(self, index: int) -> dict[int, list[bytes]]:
        """The entries of a node. Raises NodeMissingError."""
        return self._entries(index)

    def get(self, entry_id: int) -> list[bytes] | None:
        """The fields of an entry, None if there is none. Raises NodeMissingError."""
        index = self._index_of(entry_id)
        return None if index is None else self._entries(index).get(entry_id)

    def has(self, entry_id: int) -> bool:
        """Whether an entry that was added once is still there."""
        return self._index_of(entry_id) is not None

    def is_adopted(self, entry_id: int) -> bool:
        """Whether an entry that is there is a record of another writer."""
        index = self._index_of(entry_id)
        return index is not None and self.nodes[index].is_adopted

    def has_tombstone(self, first: int) -> bool:
        """Whether the last entry that XDEL deleted is at an id or behind it."""
        return self.length > 0 and 0 < self.max_deleted_id >= first

    def has_gap_behind(self, last_id: int) -> bool:
        """Whether entries behind one may be gone. Raises NodeMissingError."""
        return last_id < self.first_id or self.has_tombstone(last_id)

    def distance_to(self, entry_id: int) -> int:
        """How many entries were ever added up to an id, UNKNOWN where that cannot be told. Raises NodeMissingError."""
        if not self.entries_added:
            return 0
        if not self.length and entry_id <= self.last_id:
            return self.entries_added
        if entry_id == self.last_id:
            return self.entries_added
        if entry_id > self.last_id:
            return UNKNOWN
        first_id = self.first_id
        if not self.max_deleted_id or self.max_deleted_id < first_id:
            if entry_id < first_id:
                return self.entries_added - self.length
            if entry_id == first_id:
                return self.entries_added - self.length + 1
        return UNKNOWN

    def lag(self, group: Group) -> int | None:
        """How many entries a group has not read, None where that cannot be told. Raises NodeMissingError."""
        if not self.length:
            return 0
        if max(group.last_id, self.max_deleted_id) < self.first_id:
            return self.length
        if group.entries_read != UNKNOWN and not self.has_tombstone(group.last_id):
            return self.entries_added - group.entries_read
        read = self.distance_to(group.last_id)
        return None if read == UNKNOWN else self.entries_added - read

    def count_after(self, entry_id: int) -> int:
        """How many entries lie above an id; of a node that is not in memory all are counted."""
        behind = self.nodes.end_of(entry_id)
        count = self.nodes.entries_from(behind)
        if not behind or self.nodes[behind - 1].last_id <= entry_id:
            return count
        node = self.nodes[behind - 1]
        return count + (node.count if node.entries is None else sum(each > entry_id for each in node.entries))

    def plan_trim_length(self, length_max: int, limit: int, *, approximate: bool) -> tuple[int, int, int]:
        """What XTRIM MAXLEN removes: the number of entries, the first id that stays, and how many entries of that
        one's node go. Raises NodeMissingError.
        """
        most = max(0, self.length - length_max)
        index, removed = self.nodes.whole_within(min(most, limit) if limit else most)
        length = self.length - removed
        while index < len(self.nodes) and length > length_max:
            count = self.nodes[index].count
            if limit and removed + count > limit:
                break
            if length - count >= length_max:
                length -= count
                removed += count
                index += 1
                continue
            if approximate:
                break
            part = length - length_max
            floor = list(self._entries(index))[part]
            return removed + part, floor, part
        return removed, self._floor(index), 0

    def plan_trim_id(self, id_min: int, limit: int, *, approximate: bool) -> tuple[int, int, int]:
        """What XTRIM MINID removes, as `plan_trim_length`."""
        below = max(0, self.nodes.end_of(id_min) - 1)
        index, removed = self.nodes.whole_within(limit or self.length, below)
        while index < len(self.nodes):
            node = self.nodes[index]
            if limit and removed + node.count > limit:
                break
            if node.last_id < id_min:
                removed += node.count
                index += 1
                continue
            if approximate or node.first_id >= id_min:
                break
            part = sum(entry_id < id_min for entry_id in self._entries(index))
            return removed + part, id_min, part
        return removed, self._floor(index), 0

    def _floor(self, index: int) -> int:
        return self.nodes[index].first_id if index < len(self.nodes) else self.last_id + 1

    def _index_of(self, entry_id: int) -> int | None:
        index = self.nodes.end_of(entry_id) - 1
        if index < 0:
            return None
        node = self.nodes[index]
        return None if entry_id > node.last_id or node.has_removed(entry_id) else index

    def _entries(self, index: int) -> dict[int, list[bytes]]:
        node = self.nodes[index]
        if node.entries is None:
            raise NodeMissingError(self, index)
        self.touch(node)
        return node.entries

    # --- changes ----------------------------------------------------------------------------------------------------

    def require_tail(self) -> None:
        """Raises NodeMissingError where the entries of the last node are not in memory: nothing can be added then."""
        if self.nodes and self.nodes[-1].entries is None and not self.nodes[-1].is_adopted:
            raise NodeMissingError(self, len(self.nodes) - 1)

    def append(self, entry_id: int, fields: list[bytes], now_ms: int) -> None:
        """Add an entry, whose id is above all others."""
        begins = self._apply_append(entry_id, fields)
        node = self.nodes[-1]
        if begins:
            node.journal_index = self._journaled
            self.touch(node)
        self._note_unwritten(node)
        self.journal_record(records.entry(entry_id, fields, now_ms, begins_node=begins))

    def append_all(self, adds: StreamAdds, now_ms: int) -> bytes | None:
        """Add entries whose ids are made here; returns the replies, None and adds nothing where there are not enough
        ids. Raises NodeMissingError.
        """
        limits, node = self.limits, self.nodes[-1] if self.nodes else None
        if node is not None and node.entries is None and not node.is_adopted:
            raise NodeMissingError(self, len(self.nodes) - 1)
        tail = (
            None
            if node is None or node.is_adopted
            else (node.first_id, node.size, node.count + node.deleted, node.names)
        )
        made = adds.assign(self.last_id, now_ms, tail, self._node_bytes_max, max(0, limits.entries_max))
        if made is None:
            return None
        replies, growths = made
        count = 0
        if not self.length:
            self._first_id = next(iter(growths[0][6]))
        for begins, first_id, last_id, added, size, names, entries in growths:
            if begins or node is None:
                node = self._grow(first_id, names, node)
                node.journal_index = self._journaled + count
                node.entries = entries
            else:
                assert node.entries is not None
                node.entries.update(entries)
            node.size, node.last_id, node.row = size, last_id, None
            node.count += added
            count += added
            if begins:
                self.touch(node)
            self._note_unwritten(node)
        self.length += count
        self.entries_added += count
        self.last_id = node.last_id if node is not None else 0
        self.version += count
        self.modified += 1
        self.journal_record(adds, count)
        return replies

    def _note_unwritten(self, node: Node) -> None:
        node.row = None
        if not self.unwritten or self.unwritten[-1] is not node:
            self.unwritten.append(node)
            self.changed.add(node)

    def mark(self, now_ms: int, mark: Mark) -> None:
        """Make a change other than an entry, and journal it."""
        self.apply_mark(mark)
        self.journal_record(records.mark(mark, now_ms))

    def take_journal(self) -> list[records.Journaled]:
        """What is journaled, and is no more."""
        journal, self.journal = self.journal, []
        self._journaled = 0
        return journal

    def journal_record(self, record: records.Journaled, count: int = 1) -> None:
        """A record is to be appended to the log, or those of a run of entries."""
        self.journal.append(record)
        self._journaled += count
        if len(self.journal) == 1:
            self.on_journal(self)

    def _apply_append(self, entry_id: int, fields: list[bytes]) -> bool:
        """Add an entry; returns whether it begins a node."""
        nodes = self.nodes
        node = nodes[-1] if nodes else None
        names = fields[::2]
        if node is None or node.is_adopted or self._is_full(node, fields):
            begins = is_same = True
            node = self._grow(entry_id, names, node)
        else:
            begins, is_same = False, names == node.names
        first = node.first_id
        delta = (entry_id >> 64) - (first >> 64), (entry_id & _SEQUENCE) - (first & _SEQUENCE)
        node.size += entry_bytes(fields, delta, same_names=is_same)
        node.count += 1
        node.last_id = entry_id
        assert node.entries is not None
        node.entries[entry_id] = fields
        if not self.length:
            self._first_id = entry_id
        self.length += 1
        self.entries_added += 1
        self.last_id = entry_id
        self.version += 1
        self.modified += 1
        return begins

    def _grow(self, entry_id: int, names: list[bytes], before: Node | None) -> Node:
        """A new node, behind one that is full."""
        node = Node(entry_id)
        node.size = node_bytes(names)
        node.names = names
        if before is not None:
            before.grows = False
            if before.names == names:
                node.names = before.names
        node.grows = True
        self.nodes.append(node)
        return node

    def _is_full(self, node: Node, fields: list[bytes]) -> bool:
        if node.size + sum(map(len, fields)) >= self._node_bytes_max:
            return True
        return 0 < self.limits.entries_max <= node.count + node.deleted

    @property
    def _node_bytes_max(self) -> int:
        most = self.limits.bytes_max
        return most if 0 < most <= NODE_BYTES_MAX else NODE_BYTES_MAX

    def apply_mark(self, mark: Mark) -> None:
        """Make a change other than an entry."""
        self.version += 1
        self.garbage += 1
        mark.apply(self)

    # What marks do; see `ottla.gateways.redis.stream_records`.

    def remove(self, ids: Sequence[int], max_deleted_id: int) -> None:
        """Entries that are there are deleted."""
        self.modified += 1
        emptied: list[Node] = []
        for entry_id in ids:
            index = self._index_of(entry_id)
            if index is None:
                continue  # it lay before the start of the log that was read
            node = self.nodes.take(index)
            if not node.count:
                continue
            node.remove(entry_id)
            if not node.count:
                emptied.append(node)
            else:
                self.changed.add(node)
            self.length -= 1
            self.garbage += 1
            if entry_id == self._first_id:
                self._first_id = None
        if emptied:
            self.changed.difference_update(emptied)
            self.gone += [node.first_id for node in emptied]
            self.nodes.remove_all(emptied)
        self.max_deleted_id = max(self.max_deleted_id, max_deleted_id)
        if not self.length:
            self._first_id = 0

    def trim(self, floor: int, part: int) -> None:
        """Entries below an id are deleted, `part` of them in a node that stays."""
        before = self.length
        index, below = self.nodes.whole_within(before, max(0, self.nodes.end_of(floor) - 1))
        if index:
            self.length -= below
            last_id = self.nodes[index - 1].last_id
            self.changed.difference_update([node for node in self.changed if node.first_id <= last_id])
        while index < len(self.nodes) and self.nodes[index].last_id < floor:
            self.length -= self.nodes[index].count
            self.changed.discard(self.nodes[index])
            index += 1
        self.nodes.drop_first(index)
        if part and self.nodes and self.nodes[0].first_id < floor:
            node = self.nodes.take(0)
            node.cut(floor, part)
            self.changed.add(node)
            self.length -= part
        self.garbage += before - self.length
        self.modified += before != self.length
        self._first_id = None if self.length else 0

    def begin(self, database: int, key: bytes) -> None:
        """It is the value of a key from now on."""
        self.modified += 1
        self.database, self.key = database, key

    def end(self) -> None:
        """The key is deleted."""
        self.key = None
        self.modified += 1
        self.garbage += self.length
        self._forget_nodes()
        self._clear()

    def _forget_nodes(self) -> None:
        """All nodes are gone: that takes the same time however many they are."""
        if self.nodes:
            self.gone.clear()
            self.is_anew = True
        self.changed.clear()

    def load_entry(self, entry_id: int, offset: int, *, begins: bool) -> None:
        """For loading: the record of an entry, in the order of the log."""
        nodes = self.nodes
        if begins or not nodes or nodes[-1].is_adopted:
            node = Node(entry_id, offset)
            node.entries = None
            nodes.append(node)
        node = nodes[-1]
        self.changed.add(node)
        node.count += 1
        node.last_id = node.written_id = entry_id
        if not self.length:
            self._first_id = entry_id
        self.length += 1
        self.entries_added += 1
        self.last_id = entry_id

    def clear_nodes(self) -> None:
        """For loading: there are no entries, and others follow."""
        self._forget_nodes()
        self.nodes = NodeList(self.changed)
        self.length, self._first_id = 0, 0

    def adopt(self, run: Run, size: int, *, begins: bool) -> None:
        """Records of another writer are entries, whose ids are above all others; `size` is how many bytes they have."""
        self.modified += 1
        nodes = self.nodes
        if begins or not nodes or not nodes[-1].is_adopted:
            if nodes:
                nodes[-1].grows = False
            node = Node(run.first_id, run.offset)
            node.entries = None
            nodes.append(node)
        node = nodes[-1]
        node.row = None
        node.runs = add_run(node.runs, run)
        node.size += size
        node.count += run.record_count
        node.last_id = node.written_id = run.last_id
        self.changed.add(node)
        if not self.length:
            self._first_id = run.first_id
        self.length += run.record_count
        self.entries_added += run.record_count
        self.last_id = run.last_id

    def load_rows(self, rows: Sequence[Row]) -> None:
        """For loading: nodes that are on disk, by their ids, behind all others."""
        self.nodes.merge_rows(rows, node_of)
        self.length += sum(row[2] for row in rows)
        self._first_id = None

    def load_nodes(self, nodes: NodeList) -> None:
        """For loading: these are its nodes, all of them on disk."""
        self.length = nodes.entries_from(0)
        nodes.serve(self.changed)
        self.nodes = nodes
        self._first_id = None
