"""The value of a setting: as text it travels and is kept, with its type it is used.

Text is read as Kafka reads it, so that what a tool could set there can be set here: blanks around it do not count
(those up to U+0020, as Java's `trim` has it), a number may have a plus sign, leading zeros and the decimal digits of
any script, and a fraction is written as in a Java program (`0.5`, `5e-1`, `.5d`, `0x1p-1`).
"""

import re
from decimal import Decimal
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


_BLANKS: Final = "".join(map(chr, range(0x21)))


def trimmed(text: str) -> str:
    """Without the blanks around it.

    >>> trimmed(" compact\\n"), trimmed("\\u00a05")
    ('compact', '\\xa05')
    """
    return text.strip(_BLANKS)


def parse_list(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list, trimmed; empty text is an empty list."""
    stripped = trimmed(text)
    return tuple(trimmed(item) for item in stripped.split(",")) if stripped else ()


def format_value(value: SettingValue) -> str | None:
    """A value as text, the way Kafka writes it.

    >>> format_value(True), format_value(("compact", "delete")), format_value(5), format_value(0.0001)
    ('true', 'compact,delete', '5', '1.0E-4')
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _format_double(value)
        case _:
            return str(value)


DIGITS_MAX: Final = 1_000
"""Characters of a number: leading zeros are taken, but not without end."""

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
    if not digits.isdecimal() or len(text) - len(digits) > 1:
        raise ValueError
    limit = 1 << (bits - 1)
    if len(digits) > DIGITS_MAX or not -limit <= int(text) < limit:
        raise ValueError(f"it must fit in {bits} bits")
    return int(text)


_DOUBLE: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)[fd]?", re.ASCII | re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"([+-]?0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)p[+-]?\d+)[fd]?", re.ASCII | re.IGNORECASE)
"""What `Double.parseDouble` takes, but for words: https://docs.oracle.com/javase/specs, FloatingPointLiteral."""


def _parse_double(text: str) -> float:
    if len(text) > DIGITS_MAX:
        raise ValueError("it has too many digits")
    number = _DOUBLE.fullmatch(text)
    value = float("inf")
    if number is not None:
        value = float(number[1])
    else:
        number = _HEXADECIMAL.fullmatch(text)
        if number is None:
            raise ValueError
        try:
            value = float.fromhex(number[1])
        except OverflowError:
            raise ValueError("it is too large") from None
    if value in (float("inf"), float("-inf")):
        raise ValueError("it is too large")
    return value


def _format_double(value: float) -> str:
    """As `Double.toString` writes it: plain from 0.001 to 9999999, else with an exponent."""
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{exponent + len(digits) - 1}"
