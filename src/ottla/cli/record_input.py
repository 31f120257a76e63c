"""Records out of lines: plain text with or without a key, or JSON."""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.cli.failure import CommandError


class InputRecord(NamedTuple):
    """What a line says of a record; None where it says nothing, and a value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


ParseLine = Callable[[bytes], InputRecord]


class LineSplitter:
    """Cuts chunks of input into lines; the delimiter is any byte string and is not part of a line.

    >>> lines = LineSplitter(b"\\n")
    >>> lines.feed(b"a\\nb"), lines.feed(b"c\\n"), lines.rest()
    ([b'a'], [b'bc'], None)
    """

    __slots__ = ("_delimiter", "_tail")

    def __init__(self, delimiter: bytes) -> None:
        if not delimiter:
            raise CommandError("the delimiter is empty")
        self._delimiter = delimiter
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *lines, self._tail = (self._tail + chunk).split(self._delimiter)
        return lines

    def rest(self) -> bytes | None:
        """At the end of the input: the last line when it has no delimiter."""
        tail, self._tail = self._tail, b""
        return tail or None


def parse_text(*, key_delimiter: bytes | None, tombstones: bool) -> ParseLine:
    """A parser of plain lines.

    With a key delimiter the key is what stands before its first occurrence; a line without it has no key. With
    `tombstones` an empty value is none.
    """

    def parse(line: bytes) -> InputRecord:
        key: bytes | None = None
        value = line
        if key_delimiter is not None:
            before, found, after = line.partition(key_delimiter)
            if found:
                key, value = before, after
        return InputRecord(value=None if tombstones and not value else value, key=key)

    return parse


_FIELDS = frozenset({"key", "value", "key_base64", "value_base64", "headers", "partition", "timestamp"})
_IGNORED_FIELDS = frozenset({"topic", "offset"})
"""Written by `ottla consume --json`, so that its output can be produced again."""


def parse_json(line: bytes) -> InputRecord:
    """One JSON object: `{"key": ..., "value": ..., "headers": ..., "partition": ..., "timestamp": ...}`, all optional.

    Strings are taken as UTF-8, null is none, any other JSON value is taken as compact JSON; bytes that are not UTF-8
    come as `key_base64` and `value_base64`. Headers are an object, or a list of pairs where names repeat; a header's
    value is a string, null, or `{"base64": ...}`. The timestamp is in ms since 1970. Raises CommandError.
    """
    try:
        return _record(json.loads(line))
    except UnicodeEncodeError as error:
        raise CommandError("a string has an unpaired surrogate: \\ud800 to \\udfff must come in pairs") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"not JSON: {error}") from error


def _record(document: Any) -> InputRecord:
    if not isinstance(document, dict):
        raise CommandError("a JSON record is an object with the fields key, value, headers, partition and timestamp")
    unknown = document.keys() - _FIELDS - _IGNORED_FIELDS
    if unknown:
        raise CommandError(f"a JSON record has no field {sorted(unknown)[0]!r}; it has {', '.join(sorted(_FIELDS))}")
    return InputRecord(
        value=_content(document, "value"),
        key=_content(document, "key"),
        headers=_headers(document.get("headers")),
        partition=_integer(document, "partition", 31),
        timestamp_ms=_integer(document, "timestamp", 63),
    )


def _content(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(name + "_base64")
    if encoded is not None:
        return _from_base64(encoded)
    content = document.get(name)
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _headers(document: Any) -> tuple[tuple[str, bytes | None], ...]:
    if document is None:
        return ()
    pairs = list(document.items()) if isinstance(document, dict) else document
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise CommandError("headers are an object, or a list of [name, value] pairs")
    return tuple((str(name).encode().decode(), _header_value(value)) for name, value in pairs)


def _header_value(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _from_base64(value["base64"])
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise CommandError(f"{text!r} is not base64: {error}") from error


def _integer(document: dict[str, Any], name: str, bits: int) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise CommandError(f"{name} must be a whole number, not {value!r}")
    if value is not None and not -(1 << bits) <= value < 1 << bits:
        raise CommandError(f"{name} must fit {bits + 1} bits")
    return value
