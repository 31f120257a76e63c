"""A TOML or YAML document as a tree of values with positions.

Both formats give the same tree for the same content: what YAML would guess (`on` for true, a time for a timestamp) is
text here, as it is in TOML, where it is not one of JSON's values.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ottla.pipelines.spec.mistake import Position

NESTING_MAX = 32
"""The maximum depth of values: a pipeline needs six."""


class DocumentError(Exception):
    """Invalid TOML or YAML: message, position, hint."""

    def __init__(self, message: str, at: Position, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.hint = hint


class Node(Struct, frozen=True):
    """A value with its position: a dict or list of nodes, or a text, number, boolean or None."""

    value: Any
    at: Position
    keys: Mapping[str, Position] = field(default_factory=dict)
    """The positions of the keys, if the value is a dict."""

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def kind(self) -> str:
        """The kind of value, for messages."""
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
