r"""The `key=value` files that Kafka's tools read: `server.properties` and the like.

The syntax is that of `java.util.Properties.load`:

    # a comment, as is ! at the start of a line
    log.dirs = /var/lib/ottla
    listeners PLAINTEXT://:9092
    log.cleanup.policy = compact,\
                         delete
    greeting = caf\u00e9

A key ends at the first unescaped `=`, `:` or blank; a backslash at the end of a line joins it with the next, whose
leading blanks are dropped; `\t \n \r \f` and `\uXXXX` are characters, any other backslash is dropped. A key that
occurs twice has its last value.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.model.errors import InvalidInputError

_BLANKS: Final = " \t\f"
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A value and the number of the line where it begins, from 1."""

    value: str
    line: int


class BadLine(NamedTuple):
    """A line that cannot be read, by its number from 1, and why."""

    line: int
    reason: str


def read_properties(text: str) -> tuple[dict[str, Property], list[BadLine]]:
    """The settings of a properties file, in their order, and the lines that cannot be read."""
    settings: dict[str, Property] = {}
    bad = []
    for number, line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        try:
            settings[_unescape(raw_key)] = Property(_unescape(raw_value).rstrip(_BLANKS), number)
        except ValueError as error:
            bad.append(BadLine(number, str(error)))
    return settings, bad


def parse_properties(text: str) -> dict[str, str]:
    """The settings of a properties file, in their order. Raises InvalidInputError for a broken `\\uXXXX`."""
    settings, bad = read_properties(text)
    if bad:
        raise InvalidInputError(f"line {bad[0].line}: {bad[0].reason}")
    return {name: each.value for name, each in settings.items()}


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined and comments left out, each with the number of its first line."""
    pending = ""
    start = 0
    for number, physical in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = physical.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        pending += line
        if _ends_in_escape(pending):
            pending = pending[:-1]
            continue
        yield start, pending
        pending = ""
    if pending:
        yield start, pending


def _ends_in_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANKS)
    if value and value[0] in "=:":
        value = value[1:].lstrip(_BLANKS)
    return line[:end], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    characters = []
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character != "\\":
            characters.append(character)
            continue
        if index == len(text):
            break
        escaped = text[index]
        index += 1
        if escaped == "u":
            digits = text[index : index + 4]
            if len(digits) != 4 or not _HEX_DIGITS.issuperset(digits):
                raise ValueError("a \\u must be followed by four hexadecimal digits")
            characters.append(chr(int(digits, 16)))
            index += 4
        else:
            characters.append(_ESCAPES.get(escaped, escaped))
    return _joined("".join(characters))


def _joined(text: str) -> str:
    """Java's characters have 16 bits: what does not fit them is written as two `\\uXXXX`, a pair that means one."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("a \\u names half of a character that takes two") from None
