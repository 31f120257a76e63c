r"""How consumed records are written: as values, as JSON lines, or in a format of the user's own.

A format is text with these tokens, as in kcat; escapes `\n \r \t \0 \xNN` are known as well:

    %v %s  value             %V %S  its length in bytes, -1 for none      %R  the length as 4 bytes, big-endian
    %k     key               %K     its length in bytes, -1 for none
    %t     topic             %p     partition              %o     offset
    %T     timestamp in ms   %h     headers, name=value, separated by commas
    %%     a percent sign
"""

import base64
import json
from collections.abc import Callable
from typing import Any

from ottla.cli.escapes import unescape
from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.share_record import ShareRecord

Record = ConsumerRecord | ShareRecord
FormatRecord = Callable[[Record], bytes]


def compile_format(text: str, *, null: bytes = b"") -> FormatRecord:
    """A function that writes records in this format. `null` stands for keys and values that are none.

    Raises CommandError, a usage error, for a token that does not exist.
    """
    parts: list[FormatRecord] = []
    for index, piece in enumerate(_split(text)):
        parts.append(_token(piece, null) if index % 2 else _constant(unescape(piece)))

    def write(record: Record) -> bytes:
        return b"".join([part(record) for part in parts])

    return write


def plain_format(*, key_delimiter: bytes | None, delimiter: bytes, null: bytes = b"") -> FormatRecord:
    """Values, each with its key before it if there is a key delimiter, and a delimiter after it."""
    if key_delimiter is None:
        return lambda record: (null if record.value is None else record.value) + delimiter

    def write(record: Record) -> bytes:
        key = null if record.key is None else record.key
        value = null if record.value is None else record.value
        return b"".join((key, key_delimiter, value, delimiter))

    return write


def json_line(record: Record) -> bytes:
    """One JSON object and a newline; `ottla produce --json` reads it. Bytes that are not UTF-8 come as base64."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "headers": [[name, _header_value(value)] for name, value in record.headers],
    }
    if isinstance(record, ShareRecord):
        document["delivery_count"] = record.delivery_count
    for name, content in (("key", record.key), ("value", record.value)):
        try:
            document[name] = content.decode() if content is not None else None
        except UnicodeDecodeError:
            document[name + "_base64"] = _base64(content)
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _split(text: str) -> list[str]:
    """Text and tokens in turns, beginning with text."""
    pieces = [""]
    index = 0
    while index < len(text):
        if text[index] != "%":
            pieces[-1] += text[index]
            index += 1
            continue
        pieces += [text[index : index + 2], ""]
        index += 2
    return pieces


def _constant(content: bytes) -> FormatRecord:
    return lambda record: content


def _token(token: str, null: bytes) -> FormatRecord:
    written = _TOKENS.get(token)
    if written is None:
        raise CommandError(f"{token!r} is not a format token; see `ottla consume --help`", ExitCode.USAGE)
    if token in _MAY_BE_NULL:
        return lambda record: null if (content := written(record)) is None else content
    return lambda record: written(record) or b""


def _length(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (value if value is not None else b"NULL") for name, value in record.headers)


def _header_value(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": _base64(value)}


def _base64(content: bytes | None) -> str:
    return base64.b64encode(content or b"").decode()


_MAY_BE_NULL = frozenset({"%v", "%s", "%k"})
_TOKENS: dict[str, Callable[[Record], bytes | None]] = {
    "%v": lambda record: record.value,
    "%s": lambda record: record.value,
    "%k": lambda record: record.key,
    "%V": lambda record: b"%d" % _length(record.value),
    "%S": lambda record: b"%d" % _length(record.value),
    "%K": lambda record: b"%d" % _length(record.key),
    "%R": lambda record: _length(record.value).to_bytes(4, "big", signed=True),
    "%t": lambda record: record.topic.encode(),
    "%p": lambda record: b"%d" % record.partition,
    "%o": lambda record: b"%d" % record.offset,
    "%T": lambda record: b"%d" % record.timestamp_ms,
    "%h": _headers,
    "%%": lambda record: b"%",
}
