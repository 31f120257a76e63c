"""What expressions can ask of a letter."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.pipelines.dead_letters.headers import Letter

JSON_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger value has no JSON fields."""

_NOT_LOOKED_AT: Final = object()


class FieldKind(Enum):
    """What a field is compared with."""

    TEXT = "a text in single quotes"
    NUMBER = "a number"
    TIME = "a time in single quotes, or milliseconds since 1970"
    AGE = "a length of time such as 2h"
    ANY = "a text in single quotes, a number, true or false"


class Subject:
    """A letter that an expression is evaluated for. Its value is parsed at most once."""

    __slots__ = ("_json", "letter", "now_ms", "record")

    def __init__(self, record: ConsumerRecord, letter: Letter, now_ms: int) -> None:
        self.record = record
        self.letter = letter
        self.now_ms = now_ms
        self._json: Any = _NOT_LOOKED_AT

    def json(self) -> Any:
        """The value as JSON; None if it is none."""
        if self._json is _NOT_LOOKED_AT:
            self._json = _parsed(self.record.value)
        return self._json


Read = Callable[[Subject], Any]
"""What a field is; None if it is not known."""


class Field(NamedTuple):
    """A field and what it is compared with."""

    kind: FieldKind
    read: Read


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def _parsed(value: bytes | None) -> Any:
    if value is None or len(value) > JSON_BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


FIELDS: Final[dict[str, Field]] = {
    "reason": Field(FieldKind.TEXT, lambda subject: subject.letter.reason),
    "error": Field(FieldKind.TEXT, lambda subject: subject.letter.error_class),
    "group": Field(FieldKind.TEXT, lambda subject: subject.letter.pipeline),
    "pipeline": Field(FieldKind.TEXT, lambda subject: subject.letter.pipeline),
    "step": Field(FieldKind.TEXT, lambda subject: subject.letter.step),
    "topic": Field(FieldKind.TEXT, lambda subject: subject.letter.topic),
    "partition": Field(FieldKind.NUMBER, lambda subject: subject.letter.partition),
    "offset": Field(FieldKind.NUMBER, lambda subject: subject.letter.offset),
    "attempts": Field(FieldKind.NUMBER, lambda subject: subject.letter.attempt),
    "replays": Field(FieldKind.NUMBER, lambda subject: subject.letter.replays),
    "time": Field(FieldKind.TIME, lambda subject: subject.record.timestamp_ms),
    "age": Field(FieldKind.AGE, lambda subject: subject.now_ms - subject.record.timestamp_ms),
    "record_time": Field(FieldKind.TIME, lambda subject: subject.letter.timestamp_ms),
    "key": Field(FieldKind.TEXT, lambda subject: _text(subject.record.key)),
    "value": Field(FieldKind.TEXT, lambda subject: _text(subject.record.value)),
}
"""Topic, partition and offset are those that the record came from; `time` and `age` are of the refusal."""


def header(name: str) -> Field:
    """The last header of a name, as text."""

    def read(subject: Subject) -> str | None:
        return next((_text(content) for each, content in reversed(subject.record.headers) if each == name), None)

    return Field(FieldKind.TEXT, read)


def json_field(path: Sequence[str | int]) -> Field:
    """A field within a value that is JSON, by names and indexes. Objects and lists count as not known."""
    steps = tuple(path)

    def read(subject: Subject) -> str | int | float | bool | None:
        found = subject.json()
        for step in steps:
            if isinstance(step, str):
                found = found.get(step) if isinstance(found, dict) else None
            else:
                found = found[step] if isinstance(found, list) and step < len(found) else None
        return found if isinstance(found, str | int | float | bool) else None

    return Field(FieldKind.ANY, read)
