"""The records of a stream in its topic.

    entry    header `redis` = kind, id in 16 bytes      value = MessagePack array: name, value, name, value, ...
    mark     header `redis` = kind                      value = MessagePack array: what changed

Kinds: E an entry, N one that begins a node, M a mark. Records of other writers have no such header; they become entries
by a mark (`Adopted`).
A mark says what is so after it, so that reading a log again gives the stream that was.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ottla.gateways.redis.adopted_records import Run
from ottla.gateways.redis.group import Group, Pending
from ottla.gateways.redis.stream_id import ID_BYTES, ID_MAX, id_bytes
from ottla.gateways.redis.stream_rows import Row
from ottla.model.stream_record import HEADER, MARK
from ottla.native import StreamAdds

if TYPE_CHECKING:
    from ottla.gateways.redis.stream import Stream

ENTRY: Final = b"E"
NODE: Final = b"N"

Record = tuple[int, bytes | None, bytes, tuple[tuple[str, bytes], ...]]
"""Timestamp, key, value and headers, as batches are built of."""

Journaled = Record | StreamAdds
"""What a journal has at one place: a record, or those of a run of entries."""

AdoptedRow = tuple[int, int, bytes, int, bool]
"""Neighbouring records of other writers: offset and number, the id of the first, their bytes, and whether they begin a
node."""

HELD_MAX: Final = 1_000
"""Pending entries of one record of a snapshot."""

KeptConsumer = tuple[bytes, int, int]
"""Name, and when it was seen and active."""

_encode = msgspec.msgpack.Encoder().encode
_decode_fields = msgspec.msgpack.Decoder(list[bytes]).decode
decode_fields = _decode_fields
encode_fields = _encode


class Mark(Struct, frozen=True, array_like=True, tag=True):
    """A change of a stream other than an entry. Ids in it are of 16 bytes."""

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        raise NotImplementedError


class Began(Mark, frozen=True, tag="began"):
    """The stream is the value of a key; `replaced` is the topic of the stream that was."""

    database: int
    key: bytes
    replaced: str = ""

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.begin(self.database, self.key)


class Ended(Mark, frozen=True, tag="ended"):
    """The key is deleted."""

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.end()


class Dropped(Mark, frozen=True, tag="dropped"):
    """No key has the topic, and none gets it again: it is about to be deleted."""

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.is_dropped = True


class Deleted(Mark, frozen=True, tag="deleted"):
    """Entries are deleted one by one."""

    ids: list[bytes]
    max_deleted_id: bytes

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.remove([_id(each) for each in self.ids], _id(self.max_deleted_id))


class Trimmed(Mark, frozen=True, tag="trimmed"):
    """Entries below an id (in 17 bytes) are deleted, `part` of them in a node that stays."""

    floor: bytes
    part: int

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.trim(_id(self.floor), self.part)


class Set(Mark, frozen=True, tag="set"):
    """Counters are set."""

    last_id: bytes
    max_deleted_id: bytes
    entries_added: int

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.last_id = _id(self.last_id)
        stream.max_deleted_id = _id(self.max_deleted_id)
        stream.entries_added = self.entries_added


class Expires(Mark, frozen=True, tag="expires"):
    """The key goes at a time, or not any more."""

    at_ms: int | None

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.expires_ms = self.at_ms
        stream.modified += 1


class GroupSet(Mark, frozen=True, tag="group"):
    """A group is made, or begins elsewhere."""

    name: bytes
    last_id: bytes
    entries_read: int

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        group = stream.groups.get(self.name)
        if group is None:
            stream.groups[self.name] = Group(self.name, _id(self.last_id), self.entries_read)
        else:
            group.last_id, group.entries_read = _id(self.last_id), self.entries_read


class GroupDestroyed(Mark, frozen=True, tag="destroyed"):
    """A group is gone."""

    name: bytes

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        del stream.groups[self.name]


class ConsumerSeen(Mark, frozen=True, tag="consumer"):
    """A consumer is made, or has asked."""

    group: bytes
    consumer: bytes
    seen_ms: int

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.groups[self.group].add_consumer(self.consumer, self.seen_ms).seen_ms = self.seen_ms


class ConsumerDeleted(Mark, frozen=True, tag="left"):
    """A consumer is gone, and what it had is pending no more."""

    group: bytes
    consumer: bytes

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.groups[self.group].remove_consumer(self.consumer)


class Assigned(Mark, frozen=True, tag="assigned"):
    """Entries are pending, and a consumer has them; None for nobody. `counts` is one for all, or one for each.

    With `until_ms`, the consumer is a worker and has them until then; or nobody has them, and no worker gets them
    before.
    """

    group: bytes
    consumer: bytes | None
    now_ms: int
    delivered_ms: int
    ids: list[bytes]
    counts: list[int]
    until_ms: int = 0

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        group = stream.groups[self.group]
        consumer = None
        if self.consumer is not None:
            consumer = group.add_consumer(self.consumer, self.now_ms, is_worker=self.until_ms > 0)
            consumer.seen_ms = consumer.active_ms = self.now_ms
        counts = self.counts if len(self.counts) == len(self.ids) else self.counts * len(self.ids)
        group.assign_all([_id(each) for each in self.ids], consumer, self.delivered_ms, counts, self.until_ms)


class Released(Mark, frozen=True, tag="released"):
    """Entries are pending no more."""

    group: bytes
    ids: list[bytes]

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        group = stream.groups[self.group]
        group.release_all([_id(each) for each in self.ids])


class KeptGroup(Struct, frozen=True, array_like=True):
    """A group in a snapshot; `consumers` are names with the times at which they were seen and active, `workers` those
    that are workers.
    """

    name: bytes
    last_id: bytes
    entries_read: int
    consumers: list[KeptConsumer]
    workers: list[bytes] = []


class Kept(Mark, frozen=True, tag="kept"):
    """All counters and groups of a stream: what was said of them before may be forgotten. `Held` follow."""

    database: int
    key: bytes
    last_id: bytes
    max_deleted_id: bytes
    entries_added: int
    expires_ms: int | None
    idempotence: tuple[int, int]
    groups: list[KeptGroup]
    adopted_to: int = 0

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.begin(self.database, self.key)
        stream.last_id, stream.max_deleted_id = _id(self.last_id), _id(self.max_deleted_id)
        stream.entries_added, stream.expires_ms = self.entries_added, self.expires_ms
        stream.idempotence.configure(*self.idempotence)
        stream.idempotence.forget()
        stream.adopted_to = max(stream.adopted_to, self.adopted_to)
        stream.groups = {}
        for kept in self.groups:
            group = stream.groups[kept.name] = Group(kept.name, _id(kept.last_id), kept.entries_read)
            for name, seen_ms, active_ms in kept.consumers:
                consumer = group.add_consumer(name, seen_ms, is_worker=name in kept.workers)
                consumer.active_ms = active_ms


class KeptConsumers(Mark, frozen=True, tag="consumers"):
    """Consumers of a group in a snapshot, some of them."""

    group: bytes
    consumers: list[KeptConsumer]

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        group = stream.groups[self.group]
        for name, seen_ms, active_ms in self.consumers:
            group.add_consumer(name, seen_ms).active_ms = active_ms


class Held(Mark, frozen=True, tag="held"):
    """What is pending in a group, in part: id, consumer or None, time of delivery, count. `until_ms` has the rows with
    such a time, by id.
    """

    group: bytes
    rows: list[tuple[bytes, bytes | None, int, int]]
    until_ms: dict[bytes, int] = {}

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        group = stream.groups[self.group]
        for entry_id, name, delivered_ms, count in self.rows:
            consumer = None if name is None else group.consumers[name]
            group.assign(_id(entry_id), consumer, delivered_ms, count, self.until_ms.get(entry_id, 0))


class Snapshot(Mark, frozen=True, tag="snapshot"):
    """All of a stream follows in so many marks: what lies before may be forgotten, but for the entries that the nodes
    among them have. `names` are those of the fields of the last node's first entry. `cleans` says whether the log is
    worth being cleaned. Without parts it says that the rest of the snapshot before it was not written.
    """

    parts: int
    names: list[bytes]
    cleans: bool

    def apply(self, stream: "Stream") -> None:
        """Make the change: there is none before all parts are there (`ottla.gateways.redis.stream_snapshot`)."""


class NodeRows(Mark, frozen=True, tag="nodes"):
    """Some of the nodes of a snapshot, in the order of ids."""

    rows: list[Row]

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.load_rows(self.rows)


class Recalled(Mark, frozen=True, tag="recalled"):
    """What is remembered of a producer, in part: its id, the entry, and when that was added."""

    producer: bytes
    rows: list[tuple[bytes, bytes, int]]

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        for idempotent_id, entry_id, added_ms in self.rows:
            stream.idempotence.restore((self.producer, idempotent_id), _id(entry_id), added_ms)


class Remembered(Mark, frozen=True, tag="idempotent"):
    """An entry was added by a producer, which has an id of its own for it."""

    producer: bytes
    idempotent_id: bytes
    entry_id: bytes
    now_ms: int

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.idempotence.add((self.producer, self.idempotent_id), _id(self.entry_id), self.now_ms)


class Configured(Mark, frozen=True, tag="configured"):
    """How long ids of producers are remembered, in seconds, and how many of each."""

    duration_s: int
    size: int

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        stream.idempotence.configure(self.duration_s, self.size)


class Adopted(Mark, frozen=True, tag="adopted"):
    """Records of other writers are entries from now on; whatever else such writers have below an offset never is."""

    end_offset: int
    rows: list[AdoptedRow]

    def apply(self, stream: "Stream") -> None:
        """Make the change."""
        for offset, count, first_id, size, begins in self.rows:
            stream.adopt(Run(offset, count, _id(first_id)), size, begins=begins)
        stream.adopted_to = max(stream.adopted_to, self.end_offset)


AnyMark = (
    Began
    | Ended
    | Dropped
    | Deleted
    | Trimmed
    | Set
    | Expires
    | GroupSet
    | GroupDestroyed
    | ConsumerSeen
    | ConsumerDeleted
    | Assigned
    | Released
    | Remembered
    | Configured
    | Kept
    | KeptConsumers
    | Held
    | Snapshot
    | NodeRows
    | Recalled
    | Adopted
)
_decode_mark: Any = msgspec.msgpack.Decoder(AnyMark).decode


def entry(entry_id: int, fields: list[bytes], now_ms: int, *, begins_node: bool) -> Record:
    """The record of an entry."""
    kind = NODE if begins_node else ENTRY
    return now_ms, None, _encode(fields), ((HEADER, kind + id_bytes(entry_id)),)


def mark(change: Mark, now_ms: int) -> Record:
    """The record of a change."""
    return now_ms, None, _encode(change), ((HEADER, MARK),)


def snapshot(stream: "Stream", now_ms: int) -> list[Mark]:
    """The marks that say all of a stream but its entries, and change nothing."""
    marks: list[Mark] = [kept(stream, {})]
    for group in stream.groups.values():
        pending = list(group.pending_from(0, ID_MAX))
        marks += [held(group, pending[at : at + HELD_MAX]) for at in range(0, len(pending), HELD_MAX)]
    return marks + recalled(stream, now_ms)


def kept(stream: "Stream", former: Mapping[bytes, list[KeptConsumer]]) -> Kept:
    """Counters and groups of a stream; `former` are consumers of groups that are gone, and are said to be there."""
    known = stream.idempotence
    groups = [
        KeptGroup(
            group.name,
            id_bytes(group.last_id),
            group.entries_read,
            [
                *((each.name, each.seen_ms, each.active_ms) for each in group.consumers.values()),
                *former.get(group.name, ()),
            ],
            [each.name for each in group.consumers.values() if each.is_worker],
        )
        for group in stream.groups.values()
    ]
    return Kept(
        stream.database,
        stream.key or b"",
        id_bytes(stream.last_id),
        id_bytes(stream.max_deleted_id),
        stream.entries_added,
        stream.expires_ms,
        (known.duration_s, known.size),
        groups,
        stream.adopted_to,
    )


def held(group: Group, pending: Sequence[tuple[int, Pending]]) -> Held:
    """Some of what is pending in a group."""
    rows = [
        (id_bytes(at), None if each.consumer is None else each.consumer.name, each.delivered_ms, each.count)
        for at, each in pending
    ]
    return Held(group.name, rows, {id_bytes(at): each.until_ms for at, each in pending if each.until_ms})


def recalled(stream: "Stream", now_ms: int) -> list[Mark]:
    """What is remembered of producers."""
    marks: list[Mark] = []
    for producer, rows in stream.idempotence.recall(now_ms).items():
        ids = [(each, id_bytes(entry_id), added_ms) for each, entry_id, added_ms in rows]
        marks += [Recalled(producer, ids[at : at + HELD_MAX]) for at in range(0, len(ids), HELD_MAX)]
    return marks


def encoded_rows(rows: list[bytes], now_ms: int) -> Record:
    """The record of `NodeRows`, the rows of which are encoded already."""
    return now_ms, None, _encode(("nodes", [msgspec.Raw(row) for row in rows])), ((HEADER, MARK),)


def kind_of(headers: Any) -> bytes | None:
    """The `redis` header of a record, None for a record of another writer."""
    for name, value in headers:
        if name == HEADER and value:
            data: bytes = value
            return data
    return None


def entry_id_of(header: bytes) -> int | None:
    """The id of an entry by its header; None for a mark."""
    if len(header) != 1 + ID_BYTES:
        return None
    return int.from_bytes(header[1:], "big")


def decode_mark(value: bytes) -> Mark:
    """A change. Raises msgspec.DecodeError for bytes that are none."""
    change: Mark = _decode_mark(value)
    return change


def _id(data: bytes) -> int:
    return int.from_bytes(data, "big")
