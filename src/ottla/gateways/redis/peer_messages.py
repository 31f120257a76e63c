"""What brokers say to each other for their Redis clients, as MessagePack in the bytes of RedisCommands.

Run      commands of one client, to the broker that leads their keys     --> Ran
Versions of keys, which WATCH remembers                                  --> the versions
Watch    tell me when one of these keys has changed                      --> which have already
Changed  they have                                                       --> nothing
GroupAsked where a group is, or that it begins elsewhere                 --> GroupTold
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

REPLY: Final = 0
BLOCKED: Final = 1


class Watched(Struct, frozen=True, array_like=True):
    """A key, and the version of its stream that was seen; empty for no such key."""

    database: int
    key: bytes
    version: bytes


class Outcome(Struct, frozen=True, array_like=True):
    """What became of a command: `data` is the reply, or it waits, and is to be run again with these arguments when one
    of the keys is changed.
    """

    kind: int
    data: bytes = b""
    arguments: list[bytes] = []
    timeout_ms: int = 0
    keys: list[Watched] = []


class Client(Struct, frozen=True, array_like=True):
    """Who asks: a principal, as the broker knows it that the client is connected to."""

    type: str
    name: str
    host: str


class Run(Struct, frozen=True, array_like=True, tag="run"):
    """Commands of a client, one after the other; those of EXEC together, if nothing that is watched has changed."""

    client: Client
    database: int
    protocol: int
    commands: list[list[bytes]]
    is_transaction: bool = False
    watched: list[Watched] = []
    goes_on: bool = False
    """Whether commands behind one that waits are run too."""


class Ran(Struct, frozen=True, array_like=True):
    """What became of commands: of fewer than were asked for where one waits, or its key is led elsewhere."""

    outcomes: list[Outcome]
    database: int
    protocol: int
    is_lost: bool = False
    """Whether changes were not written, or it is not known."""


class Versions(Struct, frozen=True, array_like=True, tag="versions"):
    """Which versions these keys have; `version` means nothing in it."""

    keys: list[Watched]


class Watch(Struct, frozen=True, array_like=True, tag="watch"):
    """A broker wants to hear of it when one of these keys changes, once, soon."""

    keys: list[Watched]


class Changed(Struct, frozen=True, array_like=True, tag="changed"):
    """Keys that a broker wanted to hear of have changed."""

    keys: list[Watched]


class Reach(Struct, frozen=True, array_like=True, tag="reach"):
    """Answer once the metadata up to an offset are known."""

    end_offset: int


class GroupAsked(Struct, frozen=True, array_like=True, tag="group"):
    """What a group of a stream is asked for as a share group: see `ottla.gateways.redis.stream_groups`."""

    verb: str
    group: bytes
    topic_id: bytes
    offset: int


class GroupTold(Struct, frozen=True, array_like=True):
    """What became of that, and where the group is."""

    error: int
    message: str
    leader_epoch: int
    start_offset: int
    complete_count: int


Message = Run | Versions | Watch | Changed | Reach | GroupAsked

encode = msgspec.msgpack.Encoder().encode
_decode: Any = msgspec.msgpack.Decoder(Message).decode
_decode_ran = msgspec.msgpack.Decoder(Ran).decode
_decode_told = msgspec.msgpack.Decoder(GroupTold).decode
_decode_watched = msgspec.msgpack.Decoder(list[Watched]).decode


def decode(data: bytes) -> Message:
    """What another broker asks. Raises msgspec.DecodeError."""
    message: Message = _decode(data)
    return message


def decode_ran(data: bytes) -> Ran:
    """The answer to `Run`. Raises msgspec.DecodeError."""
    return _decode_ran(data)


def decode_watched(data: bytes) -> list[Watched]:
    """The answer to `Versions` or `Watch`. Raises msgspec.DecodeError."""
    return _decode_watched(data)


def decode_group_told(data: bytes) -> GroupTold:
    """The answer to `GroupAsked`. Raises msgspec.DecodeError."""
    return _decode_told(data)


def topic_id_of(asked: GroupAsked) -> UUID:
    """The topic of a group that is asked for. Raises ValueError."""
    return UUID(bytes=asked.topic_id)
