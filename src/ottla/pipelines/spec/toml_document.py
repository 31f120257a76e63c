"""TOML with positions: `tomllib` parses the values, and a second pass over the text finds their positions.

The walk is only done over a text that tomllib took, so it need not judge, only step from key to value:

    [sources.events]          path (sources, events)
    topics = ["a", "b"]       paths (sources, events, topics), (sources, events, topics, 0), ...
    [[steps]]                 path (steps, 0), then (steps, 1), ...
"""

import re
import tomllib
from datetime import date, datetime, time
from typing import Any, TypeAlias

from ottla.pipelines.spec.document import NESTING_MAX, DocumentError, Node, too_deep
from ottla.pipelines.spec.mistake import Position

_Path: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_STRING = re.compile(
    r"""
    \"{3} (?:\\.|[^\\])*? \"{3}(?!\") | '{3} .*? '{3}(?!') | \"(?:\\.|[^\"\\\n])*\" | '[^'\n]*'
    """,
    re.DOTALL | re.VERBOSE,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]+")
_TWICE = re.compile(r"Cannot (overwrite|declare|mutate|redefine)|Duplicate")
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str) -> Node:
    """The document. Raises DocumentError for a text that is not TOML or nests too deep."""
    text = text.replace("\r\n", "\n")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text) from None
    except RecursionError:
        raise too_deep(Position()) from None
    walk = _Walk(text)
    walk.document()
    return _node(values, (), walk, Position())


def _syntax_error(message: str, text: str) -> DocumentError:
    place = _TOML_PLACE.search(message)
    if place is not None and place[1] is not None:
        at = Position(int(place[1]), int(place[2]))
    else:
        lines = text.splitlines() or [""]
        at = Position(len(lines), len(lines[-1]) + 1)
    said = _TOML_PLACE.sub("", message)
    hint = "this key or table is already defined above" if _TWICE.match(said) else "strings need quotation marks"
    return DocumentError(f"this is not TOML: {said}", at, hint)


def _node(value: Any, path: _Path, walk: "_Walk", above: Position) -> Node:
    at = walk.values.get(path) or walk.keys.get(path) or above
    if len(path) > NESTING_MAX:
        raise too_deep(at)
    if isinstance(value, dict):
        keys = {key: walk.keys.get((*path, key), at) for key in value}
        return Node({key: _node(each, (*path, key), walk, keys[key]) for key, each in value.items()}, at, keys)
    if isinstance(value, list):
        return Node([_node(each, (*path, index), walk, at) for index, each in enumerate(value)], at)
    if isinstance(value, datetime | date | time):
        return Node(value.isoformat().replace("+00:00", "Z"), at)
    return Node(value, at)


class _Walk:
    """Where each key and each value of a valid text stands, by path."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self._line, self._line_start = 1, 0
        self._counted = 0
        self._last: dict[_Path, int] = {}
        self.keys: dict[_Path, Position] = {}
        self.values: dict[_Path, Position] = {}

    def document(self) -> None:
        """Walk to the end."""
        table: _Path = ()
        self._skip_blank()
        while self._next < len(self._text):
            if self._text.startswith("[[", self._next):
                table = self._array_header()
            elif self._text[self._next] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()

    def _header(self) -> _Path:
        at = self._here()
        self._next += 1
        path = self._key((), at)
        self._next += 1
        self.values[path] = at
        return path

    def _array_header(self) -> _Path:
        at = self._here()
        self._next += 2
        path = self._key((), at, whole=False)
        self._next += 2
        self._last[path] = self._last.get(path, -1) + 1
        self.values.setdefault(path, at)
        self.values[(*path, self._last[path])] = at
        return (*path, self._last[path])

    def _key(self, table: _Path, at: Position | None = None, *, whole: bool = True) -> _Path:
        """The path that a dotted key names in `table`, the last array of tables standing for its last element."""
        path = table
        while True:
            self._skip_blank()
            here = self._here()
            found = _STRING.match(self._text, self._next) or _BARE_KEY.match(self._text, self._next)
            assert found is not None, "tomllib took a key that is none"
            self._next = found.end()
            part = found[0]
            path = (*path, _unquoted(part))
            self.keys.setdefault(path, at or here)
            self._skip_blank()
            more = self._text[self._next] == "."
            if path in self._last and (more or whole):
                path = (*path, self._last[path])
            if not more:
                return path
            self._next += 1

    def _pair(self, table: _Path) -> None:
        path = self._key(table)
        self._next += 1  # the equals sign
        self._value(path)

    def _value(self, path: _Path) -> None:
        self._skip_blank()
        self.values[path] = self._here()
        match self._text[self._next]:
            case "[":
                self._items(path, "]")
            case "{":
                self._items(path, "}")
            case _:
                found = _STRING.match(self._text, self._next) or _BARE_VALUE.match(self._text, self._next)
                assert found is not None, "tomllib took a value that is none"
                self._next = found.end()

    def _items(self, path: _Path, end: str) -> None:
        self._next += 1
        index = 0
        self._skip_blank()
        while self._text[self._next] != end:
            if end == "]":
                self._value((*path, index))
                index += 1
            else:
                self._pair(path)
            self._skip_blank()
            if self._text[self._next] == ",":
                self._next += 1
                self._skip_blank()
        self._next += 1

    def _skip_blank(self) -> None:
        found = _BLANK.match(self._text, self._next)
        assert found is not None
        self._next = found.end()

    def _here(self) -> Position:
        newline = self._text.find("\n", self._counted, self._next)
        while newline >= 0:
            self._line += 1
            self._line_start = self._counted = newline + 1
            newline = self._text.find("\n", self._counted, self._next)
        self._counted = self._next
        return Position(self._line, self._next - self._line_start + 1)


def _unquoted(key: str) -> str:
    return key if key[0] not in "\"'" else next(iter(tomllib.loads(f"{key} = 0")))
