"""Entry ids: two unsigned 64-bit numbers, milliseconds and sequence, kept as one number of 128 bits.

1526919030474-55    ->    1526919030474 << 64 | 55
"""

import re
from typing import Final, NamedTuple

from ottla.gateways.redis.error import INVALID_ID, RedisError
from ottla.native import parse_entry_ids

SEQUENCE_BITS: Final = 64
SEQUENCE_MAX: Final = (1 << 64) - 1
ID_MIN: Final = 0
ID_MAX: Final = (1 << 128) - 1
ID_BYTES: Final = 16
_TEXT_MAX: Final = 127
_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*\+?[0-9]+").fullmatch


class GivenId(NamedTuple):
    """The id of XADD; without a sequence (`5-*`) the next one of that millisecond is meant."""

    value: int
    has_sequence: bool


def id_text(value: int) -> bytes:
    """How an id is written.

    >>> id_text(5 << 64 | 1)
    b'5-1'
    """
    return b"%d-%d" % (value >> 64, value & SEQUENCE_MAX)


def id_bytes(value: int) -> bytes:
    """An id in 16 bytes, which sort as ids do."""
    return value.to_bytes(ID_BYTES, "big")


def floor_bytes(value: int) -> bytes:
    """An id, or the number behind the largest id, in 17 bytes."""
    return value.to_bytes(ID_BYTES + 1, "big")


def parse_id(text: bytes, missing_sequence: int = 0) -> int:
    """An id, where `-` and `+` are none. Raises RedisError.

    >>> parse_id(b"5") == 5 << 64
    True
    """
    if text in (b"-", b"+"):
        raise RedisError(INVALID_ID)
    return parse_any_id(text, missing_sequence)


def parse_ids(texts: list[bytes]) -> list[int]:
    """Some ids, each as `parse_id`. Raises RedisError."""
    ids = parse_entry_ids(texts)
    return [parse_id(each) for each in texts] if ids is None else ids


def parse_any_id(text: bytes, missing_sequence: int = 0) -> int:
    """An id, or `-` and `+` for the smallest and the largest. Raises RedisError."""
    if text == b"-":
        return ID_MIN
    if text == b"+":
        return ID_MAX
    milliseconds, dash, sequence = _cut(text)
    return _number(milliseconds) << 64 | (_number(sequence) if dash else missing_sequence)


def parse_given_id(text: bytes) -> GivenId:
    """The id of XADD, which is not `*`. Raises RedisError."""
    milliseconds, dash, sequence = _cut(text)
    if dash and sequence == b"*":
        return GivenId(_number(milliseconds) << 64, False)
    return GivenId(parse_id(text), True)


def parse_start(text: bytes) -> int:
    """The first id of an interval, `(` excludes it. Raises RedisError."""
    if len(text) > 1 and text[:1] == b"(":
        value = parse_id(text[1:])
        if value == ID_MAX:
            raise RedisError("ERR invalid start ID for the interval")
        return value + 1
    return parse_any_id(text)


def parse_end(text: bytes) -> int:
    """The last id of an interval, `(` excludes it. Raises RedisError."""
    if len(text) > 1 and text[:1] == b"(":
        value = parse_id(text[1:], SEQUENCE_MAX)
        if value == ID_MIN:
            raise RedisError("ERR invalid end ID for the interval")
        return value - 1
    return parse_any_id(text, SEQUENCE_MAX)


def _cut(text: bytes) -> tuple[bytes, bytes, bytes]:
    if len(text) > _TEXT_MAX:
        raise RedisError(INVALID_ID)
    return text.partition(b"-")


def _number(text: bytes) -> int:
    if _NUMBER(text) is None:
        raise RedisError(INVALID_ID)
    value = int(text)
    if value > SEQUENCE_MAX:
        raise RedisError(INVALID_ID)
    return value
