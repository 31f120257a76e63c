"""Which partition of a coordinator's topic, and so which broker, a group or a transactional id belongs to."""

import struct


def partition_of_key(key: str, partition_count: int) -> int:
    """Kafka's choice: the absolute value of Java's `String.hashCode`, modulo the partitions.

    Every broker that reads the same topic must choose the same, so this never changes.

    >>> partition_of_key("flights", 50)
    9
    """
    value = _java_hash_code(key)
    return (0 if value == _INT32_MIN else abs(value)) % partition_count


_UTF16_UNIT = struct.Struct("<H")
_INT32_MIN = -(2**31)


def _java_hash_code(text: str) -> int:
    """31 * hash + unit over the UTF-16 units, in 32 bits with sign."""
    data = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for (unit,) in _UTF16_UNIT.iter_unpack(data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
