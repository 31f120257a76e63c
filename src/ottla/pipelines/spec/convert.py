"""Converts a tree of values to the structs of the model, and reports each mistake with its place.

The types of a struct's fields say what is allowed. What is wrong does not end the reading: a value that cannot be taken
is `UNUSABLE`, a struct with one is too, and its neighbours are read on.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from ottla.pipelines.spec.document import Node
from ottla.pipelines.spec.mistake import Mistake, Position
from ottla.pipelines.spec.quantity import parse_duration, parse_size

UNUSABLE: Final = object()
"""A value that could not be read; its mistake is reported."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

_QUANTITIES: Mapping[str, tuple[Callable[[str], int], str, str]] = {
    "duration": (parse_duration, "a duration", "write it like 30 seconds, 6 hours or 1 day"),
    "size": (parse_size, "a size", "write it like 64 KB, 128 MB or 1 GB"),
}
_WORDS = {str: "a string", int: "a whole number", bool: "true or false", float: "a number"}


class Converter:
    """Converts nodes to values of the model, and collects mistakes."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []

    def error(self, at: Position, message: str, hint: str = "") -> Any:
        """Reports a mistake. Returns UNUSABLE."""
        self.mistakes.append(Mistake(self.file, at.line, at.column, message, hint))
        return UNUSABLE

    def warn(self, at: Position, message: str, hint: str = "") -> None:
        """Reports a probable mistake."""
        self.mistakes.append(Mistake(self.file, at.line, at.column, message, hint, "warning"))

    def struct(
        self,
        kind: type[_Struct],
        node: Node,
        what: str,
        *,
        given: Mapping[str, Any] | None = None,
        beside: Sequence[str] = (),
    ) -> Any:
        """A struct from a table, or UNUSABLE.

        `given` are fields (by the names of Python) that the file does not say here; `beside` are keys that the caller
        reads itself.
        """
        if not isinstance(node.value, dict):
            return self.error(node.at, f"{what} must be a table, not {node.kind()}")
        given = given or {}
        fields = {each.encode_name: each for each in msgspec.structs.fields(kind) if each.name not in given}
        fields = {key: each for key, each in fields.items() if _is_written(each.type)}
        self.unknown_keys(node, [*fields, *beside], what)
        values = dict(given)
        for key, each in fields.items():
            if key in node.value:
                values[each.name] = self.value(each.type, node.value[key], f"{key} of {what}")
            elif each.required:
                values[each.name] = self.error(node.at, f"{what} has no {key}", f"it must say {key} = ...")
        if any(value is UNUSABLE for value in values.values()):
            return UNUSABLE
        return kind(**values)

    def unknown_keys(self, node: Node, known: Sequence[str], what: str) -> None:
        """Reports every unknown key of a table, with the closest known one."""
        for key in node.value.keys() - set(known):
            self.error(node.keys[key], f"unknown key {key} in {what}", meant(key, known))

    def value(self, kind: Any, node: Node, what: str) -> Any:
        """A value of a type of the model, or UNUSABLE."""
        if get_origin(kind) in (types.UnionType, Union):
            kinds = [each for each in get_args(kind) if each is not type(None)]
            if len(kinds) > 1:
                return self.row(node, what)
            (kind,) = kinds
        if get_origin(kind) is Annotated:
            return self._quantity(get_args(kind)[1].extra["written"], node, what)
        if get_origin(kind) is Literal:
            return self._choice(get_args(kind), node, what)
        if get_origin(kind) is tuple:
            return self._items(get_args(kind)[0], node, what)
        if get_origin(kind) is dict:
            return self._table(get_args(kind)[1], node, what)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(kind, node, what)
        return self._plain(kind, node, what)

    def row(self, node: Node, what: str) -> Any:
        """A row of a test: a table of any values, or a text."""
        if isinstance(node.value, dict | str):
            return node.plain()
        return self.error(node.at, f"{what} must be a table of columns, or a string, not {node.kind()}")

    def _plain(self, kind: Any, node: Node, what: str) -> Any:
        value = node.value
        if type(value) is not kind:
            return self.error(node.at, f"{what} must be {_WORDS[kind]}, not {node.kind()}", _remedy(kind, node.value))
        if kind is str and not value.strip():
            return self.error(node.at, f"{what} is empty")
        if kind is int and value < 1:
            return self.error(node.at, f"{what} must be at least 1, not {value}")
        return value

    def _quantity(self, written: str, node: Node, what: str) -> Any:
        parse, name, hint = _QUANTITIES[written]
        value = node.value
        if type(value) is int and written == "size" and value > 0:
            return value
        if not isinstance(value, str):
            return self.error(node.at, f"{what} must be {name}, not {node.kind()}", hint)
        try:
            found = parse(value)
        except ValueError as error:
            message, hint = error.args
            return self.error(node.at, f"{what}: {message}", hint)
        if written == "size" and found < 1:
            return self.error(node.at, f"{what} must be at least a byte, not {value}", hint)
        return found

    def _choice(self, choices: Sequence[str], node: Node, what: str) -> Any:
        if node.value in choices and isinstance(node.value, str):
            return node.value
        written = repr(node.value) if isinstance(node.value, str) else node.kind()
        return self.error(node.at, f"{what} must be {' or '.join(choices)}, not {written}", meant(node.value, choices))

    def _items(self, kind: Any, node: Node, what: str) -> Any:
        if not isinstance(node.value, list):
            hint = "write it in brackets" if not isinstance(node.value, dict) else ""
            return self.error(node.at, f"{what} must be a list, not {node.kind()}", hint)
        values = tuple(self.value(kind, each, f"an item of {what}") for each in node.value)
        return UNUSABLE if any(value is UNUSABLE for value in values) else values

    def _table(self, kind: Any, node: Node, what: str) -> Any:
        if not isinstance(node.value, dict):
            return self.error(node.at, f"{what} must be a table, not {node.kind()}")
        values = {key: self.value(kind, each, f"{key} of {what}") for key, each in node.value.items()}
        return UNUSABLE if any(value is UNUSABLE for value in values.values()) else values


def meant(word: Any, known: Sequence[str]) -> str:
    """A hint: the closest known word, or all known words if they are few."""
    close = get_close_matches(word, known, n=1) if isinstance(word, str) else []
    if close:
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(known)}" if 0 < len(known) <= 24 else ""


def _is_written(kind: Any) -> bool:
    """Whether a field stands in files: functions do not."""
    return not any(get_origin(each) is Callable or "Callable" in str(each) for each in (kind, *get_args(kind)))


def _remedy(kind: type, value: Any) -> str:
    if kind is str and not isinstance(value, dict | list):
        return "write it in quotation marks"
    if kind in (int, bool) and isinstance(value, str):
        return "write it without quotation marks"
    return ""
