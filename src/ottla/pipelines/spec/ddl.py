"""Checks schemas in Spark's DDL without Spark: brackets, names and types.

flight string, delay_min int comment 'minutes', at: timestamp, legs array<struct<from: string, to: string>>
"""

import re

from ottla.pipelines.spec.convert import meant

_TOKEN = re.compile(r"\s*(?:(`(?:``|[^`])+`)|('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|(\w+)|(.))", re.DOTALL)
_TYPES = """
boolean tinyint byte smallint short int integer bigint long float real double date timestamp timestamp_ntz timestamp_ltz
string binary decimal dec numeric char varchar character variant void interval time
"""
_PLAIN = tuple(_TYPES.split())
_NESTED = ("array", "map", "struct")
_WITH_NUMBERS = ("decimal", "dec", "numeric", "char", "varchar", "character", "time")
_NESTING_MAX = 32


class DdlError(ValueError):
    """An invalid schema: message and hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def columns(ddl: str) -> tuple[str, ...]:
    """The names of the columns. Raises DdlError.

    >>> columns("flight string, `the delay` decimal(10, 2) not null, legs array<struct<from: string>>")
    ('flight', 'the delay', 'legs')
    """
    return _Ddl(ddl).table()


class _Ddl:
    def __init__(self, text: str) -> None:
        self._tokens = [next(part for part in found if part) for found in _TOKEN.findall(text.strip())]
        self._at = 0

    def table(self) -> tuple[str, ...]:
        names = self._fields(0, end="")
        again = next((name for index, name in enumerate(names) if name.lower() in map(str.lower, names[:index])), None)
        if again is not None:
            raise DdlError(f"the column {again} appears twice")
        return tuple(names)

    def _fields(self, depth: int, end: str) -> list[str]:
        names = []
        while True:
            names.append(self._name())
            if self._peek() == ":":
                self._at += 1
            self._type(depth, names[-1])
            self._rest_of_field()
            if self._peek() != ",":
                break
            self._at += 1
        if self._peek() != end:
            what = f"{self._peek()!r} after column {names[-1]}" if self._peek() else f"there is no {end} at the end"
            raise DdlError(what if not self._peek() else f"unexpected {what}", "columns are separated by commas")
        return names

    def _name(self) -> str:
        token = self._take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            where = f"not {token!r}" if token else "and the text ends"
            raise DdlError(f"a column must be named here, {where}", "write it like: flight string, delay_min int")
        return token

    def _type(self, depth: int, column: str) -> None:
        if depth > _NESTING_MAX:
            raise DdlError(f"types nest deeper than {_NESTING_MAX}")
        name = self._take().lower()
        if name in ("array", "map", "struct"):
            self._expect("<", column)
            if name == "struct":
                if self._peek() != ">":
                    self._fields(depth + 1, ">")
            else:
                self._type(depth + 1, column)
                if name == "map":
                    self._expect(",", column)
                    self._type(depth + 1, column)
            self._expect(">", column)
        elif name not in _PLAIN:
            written = f"unknown type {name} of column {column}" if name else f"column {column} has no type"
            raise DdlError(written, meant(name, (*_PLAIN, *_NESTED)) or "write it like: flight string, delay_min int")
        elif name == "interval":
            while re.fullmatch(r"year|month|day|hour|minute|second|to", self._peek().lower()):
                self._at += 1
        elif name in _WITH_NUMBERS and self._peek() == "(":
            while self._peek() not in (")", ""):
                self._at += 1
            self._expect(")", column)

    def _rest_of_field(self) -> None:
        if [token.lower() for token in self._tokens[self._at : self._at + 2]] == ["not", "null"]:
            self._at += 2
        if self._peek().lower() == "comment":
            self._at += 2

    def _expect(self, token: str, column: str) -> None:
        found = self._take()
        if found != token:
            raise DdlError(f"column {column}: {token} is missing" + (f" before {found}" if found else ""))

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""
