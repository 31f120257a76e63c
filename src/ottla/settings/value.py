"""The value of a setting: as text it travels and is kept, with its type it is used."""

from enum import IntEnum
from typing import Final

SettingValue = bool | int | float | str | tuple[str, ...] | None
"""A typed value; None where a setting has neither a value nor a default."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class SettingType(IntEnum):
    """The type of a value; the numbers are those of DescribeConfigs version 3 (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9
    """A text that is shown to nobody."""


def parse_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list, trimmed; empty text is an empty list."""
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


def format_value(value: SettingValue) -> str | None:
    """A value as text, the way Kafka writes it.

    >>> format_value(True), format_value(("compact", "delete")), format_value(5)
    ('true', 'compact,delete', '5')
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


_BITS: Final = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}


def parse_value(kind: SettingType, text: str) -> SettingValue:
    """The typed value of a text. Raises ValueError, with the reason where it is not just that the type is another."""
    match kind:
        case SettingType.BOOLEAN:
            return _parse_boolean(text)
        case SettingType.LIST:
            return parse_list(text)
        case SettingType.DOUBLE:
            return _parse_double(text)
        case SettingType.STRING | SettingType.PASSWORD:
            return text
        case _:
            return _parse_integer(text, _BITS[kind])


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError


def _parse_integer(text: str, bits: int) -> int:
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or len(text) - len(digits) > 1:
        raise ValueError
    limit = 1 << (bits - 1)
    if len(digits) > 20 or not -limit <= int(text) < limit:
        raise ValueError(f"it must fit in {bits} bits")
    return int(text)


def _parse_double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError from None
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError
    return value
