"""What a broker says to the leader of share partitions that it reads, as MessagePack in the bytes of ShareReads.

Take     deliver to these readers, in this order              --> Taken
Settle   what readers said of what they hold                  --> an error code for each
Store    do not wait for more of what was settled             --> nothing
Watch    tell me when there is something new, soon            --> the events
Leave    these readers are gone, and what nobody reads        --> nothing
Begin    have a group begin where it has no state yet        --> Begun, from the group's coordinator
Readers  how many clients of yours read a channel           --> a number, from any broker
Look     a group begins elsewhere, or is gone                 --> nothing, once its readers begin anew

A share partition has a number, which the asking broker chose; an incarnation is one start of that broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ottla.queues.acknowledgements import GAP, RENEW
from ottla.queues.share_state import UNKNOWN_OFFSET

Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Milliseconds = Annotated[int, Meta(ge=0, lt=1 << 48)]
Start = Annotated[int, Meta(ge=UNKNOWN_OFFSET, le=(1 << 63) - 1)]
Index = Annotated[int, Meta(ge=0, lt=1 << 31)]
Runs = list[tuple[Offset, Offset, Index]]
"""First and last offset, and a delivery count."""
Kind = Annotated[int, Meta(ge=GAP, le=RENEW)]
"""How records are settled: see `ottla.queues.acknowledgements`."""
TopicId = Annotated[bytes, Meta(min_length=16, max_length=16)]


class Wanted(Struct, frozen=True, array_like=True):
    """What one reader has room for."""

    reader: str
    max_records: Annotated[int, Meta(ge=1, lt=1 << 31)]
    lock_ms: Milliseconds


class Take(Struct, frozen=True, array_like=True, tag="take"):
    """Deliver records of a share partition, which is loaded if need be."""

    incarnation: int
    number: int
    group_id: str
    topic_id: TopicId
    partition: Index
    max_bytes: Index
    """Of each reader's records, about."""
    wanted: list[Wanted]


class Part(Struct, frozen=True, array_like=True):
    """What one reader is delivered: batches, and which of their records."""

    records: bytes = b""
    runs: Runs = []


class Taken(Struct, frozen=True, array_like=True):
    """What became of a Take: a part for each reader, or why there is none."""

    error: int
    message: str
    parts: list[Part]


class Settlement(Struct, frozen=True, array_like=True):
    """What a reader said of records that it holds. Those that it gives back are delivered again after a delay."""

    number: int
    reader: str
    runs: list[tuple[Offset, Offset, Kind]]
    lock_ms: Milliseconds
    delay_ms: Milliseconds
    until_ms: Milliseconds
    linger_ms: Milliseconds


class Settle(Struct, frozen=True, array_like=True, tag="settle"):
    """What readers said."""

    incarnation: int
    settlements: list[Settlement]


class Store(Struct, frozen=True, array_like=True, tag="store"):
    """Somebody waits for what was settled of these numbers."""

    incarnation: int
    numbers: list[int]


class Watch(Struct, frozen=True, array_like=True, tag="watch"):
    """Tell of events within a time. The last one that was asked is the one that is told."""

    incarnation: int
    wait_ms: Milliseconds
    is_first: bool = False
    """Whether answers before it may have been lost, and what they told."""


class Event(Struct, frozen=True, array_like=True):
    """What has happened to a share partition: it is not to be had here any more, there may be something to deliver, or
    the time of records was up that readers hold: by reader, and as which delivery.
    """

    number: int
    is_lost: bool = False
    timed_out: list[tuple[str, Runs]] = []


class Leave(Struct, frozen=True, array_like=True, tag="leave"):
    """Readers are gone, each by number and name; and of these numbers nobody reads any more."""

    incarnation: int
    readers: list[tuple[int, str]]
    numbers: list[int]


class Readers(Struct, frozen=True, array_like=True, tag="readers"):
    """How many clients of the broker that is asked read a group in a topic."""

    group_id: str
    topic_id: TopicId


class Look(Struct, frozen=True, array_like=True, tag="look"):
    """The state of a group in a topic may be another one, or gone."""

    group_id: str
    topic_id: TopicId


class Begin(Struct, frozen=True, array_like=True, tag="begin"):
    """Where a group is to begin that has no state there yet: topic ids, partitions and offsets."""

    group_id: str
    starts: list[tuple[TopicId, Index, Start]]


class Begun(Struct, frozen=True, array_like=True):
    """An error of the group, and one of each partition."""

    error: int
    message: str | None
    partitions: list[tuple[int, str | None]]


Message = Begin | Look | Readers | Take | Settle | Store | Watch | Leave

encode = msgspec.msgpack.Encoder().encode


def _decoder(kind: Any) -> Callable[[bytes], Any]:
    decode = msgspec.msgpack.Decoder(kind).decode

    def decoded(data: bytes) -> Any:
        try:
            return decode(data)
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from error

    return decoded


_decode = _decoder(Message)
_decode_taken = _decoder(Taken)
_decode_begun = _decoder(Begun)
_decode_count = _decoder(int)
_decode_codes = _decoder(list[int])
_decode_events = _decoder(list[Event])


def decode(data: bytes) -> Message:
    """What another broker asks. Raises msgspec.DecodeError."""
    message: Message = _decode(data)
    return message


def decode_taken(data: bytes) -> Taken:
    """The answer to `Take`. Raises msgspec.DecodeError."""
    taken: Taken = _decode_taken(data)
    return taken


def decode_begun(data: bytes) -> Begun:
    """The answer to `Begin`. Raises msgspec.DecodeError."""
    begun: Begun = _decode_begun(data)
    return begun


def decode_count(data: bytes) -> int:
    """The answer to `Readers`. Raises msgspec.DecodeError."""
    number: int = _decode_count(data)
    return number


def decode_codes(data: bytes) -> list[int]:
    """The answer to `Settle`. Raises msgspec.DecodeError."""
    codes: list[int] = _decode_codes(data)
    return codes


def decode_events(data: bytes) -> list[Event]:
    """The answer to `Watch`. Raises msgspec.DecodeError."""
    events: list[Event] = _decode_events(data)
    return events
