"""A node: neighbouring entries of a stream, as many as Redis keeps together. Approximate trimming removes whole ones.
The entries of a node are either the stream's own records, or records of other writers.

node     | first id ........ last id |     live and deleted entries, their size in Redis, where they begin in the log
entries  {id: fields}                      of the live ones; None while they are only in the log
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.gateways.redis.node_list import NodeList

NOT_WRITTEN: Final = -1


class Node:
    """Belongs to one stream. What it says of entries it says without having them."""

    __slots__ = (
        "__weakref__",
        "count",
        "deleted",
        "entries",
        "first_id",
        "floor",
        "grows",
        "home",
        "journal_index",
        "last_id",
        "names",
        "offset",
        "removed",
        "row",
        "runs",
        "size",
        "written_id",
    )

    def __init__(self, first_id: int, offset: int = NOT_WRITTEN) -> None:
        self.first_id = first_id
        self.last_id = first_id
        """Of the last entry, be it deleted or not."""
        self.count = 0
        """Live entries."""
        self.deleted = 0
        """Entries that are deleted and still counted."""
        self.size = 0
        """Bytes that Redis would need; 0 while it is not known."""
        self.names: list[bytes] = []
        """The names of the fields of its first entry."""
        self.offset = offset
        """Of the record of its first entry."""
        self.journal_index = 0
        """Where its first entry stands in the journal, while that is not written."""
        self.grows = False
        """Whether it is the last node, which entries are added to."""
        self.written_id = NOT_WRITTEN
        """The last of its entries that is known to be on disk."""
        self.floor = 0
        """Entries below it are trimmed."""
        self.removed: set[int] | None = None
        """Entries that are deleted one by one."""
        self.entries: dict[int, list[bytes]] | None = {}
        self.row: bytes | None = None
        """Its row in a snapshot (`ottla.gateways.redis.stream_rows`), as long as it does not change."""
        self.home: NodeList | None = None
        """The nodes of the stream that it is one of."""
        self.runs = b""
        """Where its entries lie, if they are records of other writers (`ottla.gateways.redis.adopted_records`)."""

    @property
    def is_adopted(self) -> bool:
        """Whether its entries are records of other writers."""
        return bool(self.runs)

    @property
    def is_written(self) -> bool:
        """Whether all its entries can be read from the log."""
        return self.offset >= 0 and self.written_id == self.last_id

    def has_removed(self, entry_id: int) -> bool:
        """Whether an entry that lies in the log is no longer one."""
        return entry_id < self.floor or (self.removed is not None and entry_id in self.removed)

    def forget_entries(self) -> None:
        """Its entries are only in the log from now on."""
        self.entries = None
        if self.home is not None:
            self.home.settle(self)

    def remove(self, entry_id: int) -> None:
        """An entry that is there is deleted."""
        self.row = None
        self.count -= 1
        self.deleted += 1
        if self.removed is None:
            self.removed = set()
        self.removed.add(entry_id)
        if self.entries is not None:
            self.entries.pop(entry_id, None)

    def cut(self, floor: int, count: int) -> None:
        """The `count` live entries below an id are trimmed."""
        self.row = None
        self.count -= count
        self.deleted += count
        self.floor = floor
        if self.entries is not None:
            self.entries = {entry_id: fields for entry_id, fields in self.entries.items() if entry_id >= floor}
