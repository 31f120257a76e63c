"""Numbers as Redis reads them from arguments."""

import re
from typing import Final

from ottla.gateways.redis.error import NOT_AN_INTEGER, RedisError

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,19}").fullmatch


def find_integer(text: bytes) -> int | None:
    """A 64-bit integer in its one form: no plus, no space, no zero in front; None for anything else.

    >>> find_integer(b"12"), find_integer(b"012"), find_integer(b"-0")
    (12, None, None)
    """
    if _INTEGER(text) is None:
        return None
    value = int(text)
    return value if INT64_MIN <= value <= INT64_MAX else None


def integer(text: bytes, error: str = NOT_AN_INTEGER) -> int:
    """A 64-bit integer. Raises RedisError."""
    value = find_integer(text)
    if value is None:
        raise RedisError(error)
    return value


def timeout_ms(text: bytes) -> int:
    """The argument of BLOCK. Raises RedisError."""
    value = integer(text, "ERR timeout is not an integer or out of range")
    if value < 0:
        raise RedisError("ERR timeout is negative")
    return value
