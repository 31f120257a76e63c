"""Mistakes in pipeline files: message, position, hint."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct


class Position(Struct, frozen=True, order=True):
    """A position in a text: line and column, in characters from 1."""

    line: int = 1
    column: int = 1


class Mistake(Struct, frozen=True, order=True):
    """A mistake or warning. Mistakes sort by position; their text is in the form that editors turn into links.

    >>> str(Mistake(file="a.toml", line=3, column=1, message="unknown key stepz", hint="did you mean steps?"))
    'a.toml:3:1: unknown key stepz (did you mean steps?)'
    """

    file: str
    line: int
    column: int
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        warning = "warning: " if self.severity == "warning" else ""
        return f"{self.file}:{self.line}:{self.column}: {warning}{self.message}{hint}"


class SpecErrors(ValueError):  # noqa: N818  # it is one error about several mistakes
    """A pipeline is invalid: all its mistakes and warnings, in the order of the file."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = sorted(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))
