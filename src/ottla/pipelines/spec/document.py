"""A TOML or YAML text as a tree of values that know where they stand.

Both formats give the same tree for the same content: what YAML would guess (`on` for true, a time for a timestamp) is
text here, as it is in TOML, where it is not one of JSON's values.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ottla.pipelines.spec.mistake import Position

NESTING_MAX = 32
"""How deep values may nest: a pipeline needs six, a parser's stack ends at some hundreds."""


class DocumentError(Exception):
    """A text is not what its format says: message, where, what to do."""

    def __init__(self, message: str, at: Position, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint


class Node(Struct, frozen=True):
    """A value: a dict or a list of nodes, or a plain one (text, number, true or false, None)."""

    value: Any
    at: Position
    keys: Mapping[str, Position] = field(default_factory=dict)
    """Where the keys stand, when the value is a dict."""

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def kind(self) -> str:
        """What this is, in words."""
        match self.value:
            case dict():
                return "a table"
            case list():
                return "a list"
            case bool():
                return "true" if self.value else "false"
            case None:
                return "nothing"
            case str():
                return "a string"
            case _:
                return f"the number {self.value}"


def too_deep(at: Position) -> DocumentError:
    """The error for a value below `NESTING_MAX` others."""
    return DocumentError(f"values nest deeper than {NESTING_MAX}", at, "no part of a pipeline needs that")
