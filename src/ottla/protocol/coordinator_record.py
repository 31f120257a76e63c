"""The keys and values of coordinator records as the bytes of a record.

Both start with an int16: a key with its record type, a value with its version. What follows is the message. Readers
skip the types they do not know, so that an older broker can read the log of a newer one.
"""

import struct
from typing import TypeVar

from ottla.native.errors import MessageError
from ottla.protocol.message import CoordinatorKey, CoordinatorValue

_INT16 = struct.Struct(">h")
_Key = TypeVar("_Key", bound=CoordinatorKey)
_Value = TypeVar("_Value", bound=CoordinatorValue)


def encode_key(key: CoordinatorKey) -> bytes:
    """The key of a record: its type and the message in version 0, the only one keys have."""
    return _INT16.pack(key.RECORD_TYPE) + key.encode(0)


def encode_value(value: CoordinatorValue, version: int) -> bytes:
    """The value of a record: a version and the message in it."""
    return _INT16.pack(version) + value.encode(version)


def record_type(key: bytes | memoryview) -> int:
    """The record type that a key starts with."""
    if len(key) < _INT16.size:
        raise MessageError("coordinator record key: ends within its type")
    return int(_INT16.unpack_from(key)[0])


def decode_key(key_class: type[_Key], key: bytes | memoryview) -> _Key:
    """Reads a key of a known type."""
    return key_class.decode(0, key, _INT16.size)


def decode_value(value_class: type[_Value], value: bytes | memoryview) -> _Value:
    """Reads a value in the version that it starts with."""
    if len(value) < _INT16.size:
        raise MessageError("coordinator record value: ends within its version")
    return value_class.decode(int(_INT16.unpack_from(value)[0]), value, _INT16.size)
