"""Replies in RESP2 and RESP3 (redis.io, Redis serialization protocol specification).

What a command returns                     RESP2                       RESP3
bytes, int, list, tuple                    $ : *                       the same
None, NULL_ARRAY                           $-1, *-1                    _
dict                                       * of names and values       %
Simple, Failure                            + -                         the same
Verbatim                                   $                           =
Raw                                        as it is                    the same
"""

from typing import Any, Final

RESP2: Final = 2
RESP3: Final = 3


class Simple:
    """A line such as OK."""

    __slots__ = ("data",)

    def __init__(self, text: bytes) -> None:
        self.data = b"+%s\r\n" % text


class Failure:
    """An error within an array, as EXEC has them."""

    __slots__ = ("data",)

    def __init__(self, line: bytes) -> None:
        self.data = b"-%s\r\n" % line


class Verbatim:
    """A text for people."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


class Pairs:
    """Keys with values: a map in RESP3, an array of arrays of two in RESP2, as XREAD answers."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[Any, Any]]) -> None:
        self.items = items


class Raw:
    """A part of a reply that is encoded, in pieces."""

    __slots__ = ("pieces",)

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces


class NullArray:
    """An array that is not there."""

    __slots__ = ()


NULL_ARRAY: Final = NullArray()
OK: Final = Simple(b"OK")
QUEUED: Final = Simple(b"QUEUED")
PONG: Final = Simple(b"PONG")

Reply = Any
"""What a command returns; see above."""


def bulk(data: bytes) -> bytes:
    """A bulk string."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def bulks_of(data: bytes) -> list[bytes]:
    """The bulk strings of an array of them.

    >>> bulks_of(b"*2\\r\\n$1\\r\\na\\r\\n$2\\r\\nbc\\r\\n")
    [b'a', b'bc']
    """
    found = []
    at = data.index(b"\r\n") + 2
    while at < len(data):
        stop = data.index(b"\r\n", at)
        end = stop + 2 + int(data[at + 1 : stop])
        found.append(data[stop + 2 : end])
        at = end + 2
    return found


def error(line: bytes) -> bytes:
    """An error."""
    return b"-%s\r\n" % line


def entry(id_text: bytes, fields: list[bytes]) -> bytes:
    """An entry of a stream."""
    parts = [b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(id_text), id_text, len(fields))]
    parts += [b"$%d\r\n%b\r\n" % (len(each), each) for each in fields]
    return b"".join(parts)


def encode(reply: Reply, protocol: int) -> bytes:
    """The bytes of a reply."""
    kind = type(reply)
    if kind is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if kind is int:
        return b":%d\r\n" % reply
    if kind is Simple or kind is Failure:
        data: bytes = reply.data
        return data
    return b"".join(encoded_parts(reply, protocol))


def encoded_parts(reply: Reply, protocol: int) -> list[bytes]:
    """The bytes of a reply, in parts: to put a large one together takes long."""
    parts: list[bytes] = []
    _add(reply, protocol, parts)
    return parts


def _add(reply: Reply, protocol: int, parts: list[bytes]) -> None:
    match reply:
        case bytes():
            parts.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
        case int():
            parts.append(b":%d\r\n" % reply)
        case list() | tuple():
            parts.append(b"*%d\r\n" % len(reply))
            for each in reply:
                _add(each, protocol, parts)
        case None:
            parts.append(b"_\r\n" if protocol == RESP3 else b"$-1\r\n")
        case NullArray():
            parts.append(b"_\r\n" if protocol == RESP3 else b"*-1\r\n")
        case dict():
            _add_pairs(list(reply.items()), protocol, parts, is_nested=False)
        case Pairs(items=items):
            _add_pairs(items, protocol, parts, is_nested=True)
        case Raw(pieces=pieces):
            parts += pieces
        case Verbatim(text=text):
            parts.append(b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text) if protocol == RESP3 else bulk(text))
        case _:
            parts.append(reply.data)


def _add_pairs(items: list[tuple[Any, Any]], protocol: int, parts: list[bytes], *, is_nested: bool) -> None:
    """A map, which RESP2 has as one array of all, or as one of arrays of two."""
    if protocol == RESP3:
        parts.append(b"%%%d\r\n" % len(items))
    else:
        parts.append(b"*%d\r\n" % (len(items) if is_nested else 2 * len(items)))
    for name, value in items:
        if is_nested and protocol == RESP2:
            parts.append(b"*2\r\n")
        _add(name, protocol, parts)
        _add(value, protocol, parts)
