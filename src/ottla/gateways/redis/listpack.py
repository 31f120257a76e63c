"""How many bytes Redis would need for the entries of a node: that decides where a node ends, and so what `~` trims.

    node = header 6, [count][deleted][fields n][name ...][0], entries, end 1
    entry = [flags][ms delta][sequence delta] ([fields n])? ([name])? [value] ... [parts]

An element is its encoding and the length of that once more, to be walked backwards (listpack.c of Redis 7.0).
"""

from collections.abc import Sequence
from typing import Final

from ottla.gateways.redis.numbers import find_integer

EMPTY_BYTES: Final = 7
_INTEGER_TEXT_MAX: Final = 20


def _with_back_length(size: int) -> int:
    if size <= 127:
        return size + 1
    if size < 16383:
        return size + 2
    if size < 2097151:
        return size + 3
    if size < 268435455:
        return size + 4
    return size + 5


def integer_bytes(value: int) -> int:
    """The size of an element that is a number.

    >>> integer_bytes(0), integer_bytes(200), integer_bytes(1 << 40)
    (2, 3, 10)
    """
    if 0 <= value <= 127:
        return 2
    if -4096 <= value <= 4095:
        return 3
    if -32768 <= value <= 32767:
        return 4
    if -8388608 <= value <= 8388607:
        return 5
    if -2147483648 <= value <= 2147483647:
        return 6
    return 10


def element_bytes(data: bytes) -> int:
    """The size of an element; one that reads as a number is kept as one."""
    size = len(data)
    if 0 < size <= _INTEGER_TEXT_MAX and (data[0] <= 57):
        value = find_integer(data)
        if value is not None:
            return integer_bytes(value)
    if size < 64:
        return size + 2
    if size < 4096:
        return _with_back_length(size + 2)
    return _with_back_length(size + 5)


def node_bytes(names: Sequence[bytes]) -> int:
    """A node that has no entries yet, whose first one will have fields of these names."""
    return EMPTY_BYTES + 2 + 2 + integer_bytes(len(names)) + sum(map(element_bytes, names)) + 2


def entry_bytes(fields: Sequence[bytes], id_delta: tuple[int, int], *, same_names: bool) -> int:
    """An entry; `fields` are names and values in turn."""
    count = len(fields) // 2
    head = 2 + integer_bytes(_signed(id_delta[0])) + integer_bytes(_signed(id_delta[1]))
    if same_names:
        return head + sum(map(element_bytes, fields[1::2])) + integer_bytes(count + 3)
    return head + integer_bytes(count) + sum(map(element_bytes, fields)) + integer_bytes(2 * count + 4)


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
