"""The nodes of a cluster in ZooKeeper, below the node that its location names, and what is in them.

    /cluster/id                   {"version":"1","id":"4L6g3nShT-eMCtK--X86sw"}
    /cluster/secret               what the brokers know and nobody else
    /brokers/ids/N                ephemeral: broker N, its epoch, its data directory, its registration
    /brokers/epoch                the newest broker epoch
    /controller                   ephemeral, of the session that was elected
    /controller_epoch             the newest controller epoch
    /metadata/layout              of what is below /metadata
    /metadata/written_by          the first release that wrote this layout; it stays as it is in every layout
    /metadata/controller          who won the newest election
    /metadata/end                 the end offset of the log: a write is seen when it moved
    /metadata/log/OFFSET          the records of one append, named by the first one's offset
    /metadata/log/OFFSET-1, ...   the rest of a large one, in pieces; written before OFFSET is
    /metadata/snapshot            the offset at which the log goes on after the snapshot, and the snapshot's name
    /metadata/snapshots/NAME/0... its pieces

Names that Kafka has are Kafka's. Numbers in names have 20 digits. A node holds at most half of ZooKeeper's default for
a request (`jute.maxbuffer`, 1 MB), so that a transaction has room for it.
"""

import base64
import binascii
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ottla.metadata.store.interface import NO_BROKER, StoreError

LAYOUT_VERSION: Final = 1
LAYOUT_BEING_FILLED: Final = 0
"""While metadata is moved there from elsewhere."""
PIECE_BYTES: Final = 512 << 10

CLUSTER_ID: Final = "/cluster/id"
CLUSTER_SECRET: Final = "/cluster/secret"  # noqa: S105
BROKER_IDS: Final = "/brokers/ids"
BROKER_EPOCH: Final = "/brokers/epoch"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
LAYOUT: Final = "/metadata/layout"
WRITTEN_BY: Final = "/metadata/written_by"
ELECTION: Final = "/metadata/controller"
END: Final = "/metadata/end"
LOG: Final = "/metadata/log"
SNAPSHOT: Final = "/metadata/snapshot"
SNAPSHOTS: Final = "/metadata/snapshots"

_HEAD: Final = struct.Struct(">BqQ16sI")
"""Version, controller epoch, number of records, who wrote it, number of pieces with this one."""
_LENGTH: Final = struct.Struct(">I")
_VERSION: Final = 0


class BrokerNode(Struct, frozen=True):
    """What `/brokers/ids/N` holds. `writer` is a token of the attempt to register."""

    broker_id: int
    epoch: int
    directory: bytes | None
    registration: bytes
    writer: str

    def encode(self) -> bytes:
        """A JSON object, the registration as text in it when it is text."""
        directory = None if self.directory is None else _text(self.directory)
        said = {"version": 1, "epoch": self.epoch, "directory": directory, "writer": self.writer}
        return json.dumps({**said, "registration": _text(self.registration)}).encode()


def decode_broker(broker_id: int, data: bytes) -> BrokerNode:
    """The reverse of `BrokerNode.encode`. Raises StoreError."""
    try:
        said = json.loads(data)
        directory = None if said["directory"] is None else _bytes(said["directory"])
        return BrokerNode(broker_id, int(said["epoch"]), directory, _bytes(said["registration"]), said["writer"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{BROKER_IDS}/{broker_id} was not written by this software: {error!r}") from error


def _text(data: bytes) -> str:
    try:
        return "t:" + data.decode()
    except UnicodeDecodeError:
        return "b:" + base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    kind, _, rest = text.partition(":")
    try:
        return base64.b64decode(rest, validate=True) if kind == "b" else rest.encode()
    except binascii.Error as error:
        raise ValueError(str(error)) from error


class ElectionNode(Struct, frozen=True):
    """Who won the newest election, and with which epoch: `/controller_epoch` alone does not say whose it is.

    `writer` is a token of the attempt.
    """

    broker_id: int = NO_BROKER
    broker_epoch: int = -1
    epoch: int = 0
    writer: str = ""

    def encode(self) -> bytes:
        """A JSON object, with the names that Kafka has in `/controller`."""
        elected = {"brokerid": self.broker_id, "brokerepoch": self.broker_epoch, "epoch": self.epoch}
        return json.dumps({"version": 1, **elected, "writer": self.writer}).encode()


def decode_election(data: bytes) -> ElectionNode:
    """The reverse of `ElectionNode.encode`. Raises StoreError."""
    try:
        said = json.loads(data)
        return ElectionNode(int(said["brokerid"]), int(said["brokerepoch"]), int(said["epoch"]), said["writer"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{ELECTION} was not written by this software: {error!r}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    """As Kafka writes it."""
    return json.dumps({"version": "1", "id": cluster_id}).encode()


def decode_cluster_id(data: bytes) -> str:
    """The reverse of `encode_cluster_id`. Raises StoreError."""
    try:
        return str(json.loads(data)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{CLUSTER_ID} does not hold a cluster id: {error!r}") from error


def encode_number(number: int) -> bytes:
    """A number as text."""
    return str(number).encode()


def decode_number(data: bytes) -> int:
    """The reverse of `encode_number`. Raises StoreError."""
    try:
        return int(data)
    except ValueError as error:
        raise StoreError(f"a number was expected in ZooKeeper, not {data[:80]!r}") from error


class SnapshotPointer(Struct, frozen=True):
    """Where the snapshot is. A name of "" means that there is none: the log starts at its first record."""

    start_offset: int = 0
    name: str = ""
    pieces: int = 0

    def encode(self) -> bytes:
        """A JSON object."""
        return json.dumps({"start": self.start_offset, "name": self.name, "pieces": self.pieces}).encode()


def decode_pointer(data: bytes) -> SnapshotPointer:
    """The reverse of `SnapshotPointer.encode`. Raises StoreError."""
    try:
        said = json.loads(data)
        return SnapshotPointer(int(said["start"]), said["name"], int(said["pieces"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{SNAPSHOT} was not written by this software: {error!r}") from error


class RecordBatch(Struct, frozen=True):
    """What was appended at once."""

    writer: bytes
    pieces: int
    record_count: int


def log_path(offset: int, piece: int = 0) -> str:
    """The node of an append, or of a piece of it."""
    return f"{LOG}/{offset:020}" if not piece else f"{LOG}/{offset:020}-{piece}"


def log_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the appends among the nodes of the log, sorted."""
    return sorted(int(name) for name in names if name.isdecimal())


def encode_batch(records: Sequence[bytes], controller_epoch: int, writer: bytes) -> list[bytes]:
    """Records in pieces, the first of which says how many there are. `writer` has 16 bytes."""
    size = _HEAD.size + sum(_LENGTH.size + len(record) for record in records)
    pieces = max(1, -(-size // PIECE_BYTES))
    parts = [_HEAD.pack(_VERSION, controller_epoch, len(records), writer, pieces)]
    for record in records:
        parts += (_LENGTH.pack(len(record)), record)
    data = b"".join(parts)
    return [data[position : position + PIECE_BYTES] for position in range(0, pieces * PIECE_BYTES, PIECE_BYTES)]


def batch_of(first_piece: bytes) -> RecordBatch:
    """What the first piece says of the whole. Raises StoreError."""
    try:
        version, _, count, writer, pieces = _HEAD.unpack_from(first_piece)
    except struct.error as error:
        raise StoreError(f"a node of the metadata log is broken: {error}") from error
    if version != _VERSION:
        raise StoreError(f"a node of the metadata log has layout {version}, this release knows {_VERSION}")
    return RecordBatch(writer, pieces, count)


def decode_records(data: bytes) -> list[bytes]:
    """The records of all pieces put together. Raises StoreError."""
    batch = batch_of(data)
    records = []
    position = _HEAD.size
    try:
        for _ in range(batch.record_count):
            (length,) = _LENGTH.unpack_from(data, position)
            position += _LENGTH.size
            records.append(data[position : position + length])
            position += length
    except struct.error as error:
        raise StoreError(f"a node of the metadata log is broken: {error}") from error
    if position != len(data):
        raise StoreError(f"a node of the metadata log has {len(data)} bytes, {position} are of its records")
    return records
