"""The words of an expression, each with its position."""

import re
from enum import Enum
from typing import Final, NamedTuple

TEXT_CHARS_MAX: Final = 10_000
"""The maximum length of an expression."""

KEYWORDS: Final = frozenset({"and", "or", "not", "in", "like", "between", "is", "null", "true", "false", "contains"})
"""Names in any case, which no field has."""

DURATIONS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class WhereError(ValueError):
    """The expression is wrong. `at` is the index of the first character that is."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(f"character {at + 1}: {message}")
        self.at = at


class Kind(Enum):
    """What a token is."""

    NAME = "a name"
    KEYWORD = "a keyword"
    TEXT = "a text"
    NUMBER = "a number"
    DURATION = "a length of time"
    SIGN = "a sign"
    END = "the end"


class Token(NamedTuple):
    """A word. `value` is what it means: the text without quotes, a number, milliseconds."""

    kind: Kind
    value: str | int | float
    at: int
    written: str


_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<duration>\d{1,12}(?:ms|s|m|h|d)\b)
    | (?P<number>-?\d{1,19}(?:\.\d{1,19})?\b)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),.\[\]])
    """,
    re.VERBOSE | re.ASCII,
)


def tokens_of(text: str) -> list[Token]:
    """The tokens of an expression, END last. Raises WhereError."""
    if len(text) > TEXT_CHARS_MAX:
        raise WhereError(TEXT_CHARS_MAX, f"the expression is longer than {TEXT_CHARS_MAX} characters")
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise WhereError(at, _unreadable(text[at]))
        token = _token(match, at)
        if token is not None:
            found.append(token)
        at = match.end()
    found.append(Token(Kind.END, "", len(text), ""))
    return found


def _token(match: re.Match[str], at: int) -> Token | None:
    written = match[0]
    match match.lastgroup:
        case "space":
            return None
        case "text":
            return Token(Kind.TEXT, written[1:-1].replace("''", "'"), at, written)
        case "quoted":
            return Token(Kind.NAME, written[1:-1].replace('""', '"'), at, written)
        case "duration":
            digits = written.rstrip("mshd")
            return Token(Kind.DURATION, int(digits) * DURATIONS_MS[written[len(digits) :]], at, written)
        case "number":
            return Token(Kind.NUMBER, float(written) if "." in written else int(written), at, written)
        case "name" if written.lower() in KEYWORDS:
            return Token(Kind.KEYWORD, written.lower(), at, written)
        case "name":
            return Token(Kind.NAME, written, at, written)
        case _:
            return Token(Kind.SIGN, {"<>": "!=", "==": "="}.get(written, written), at, written)


def _unreadable(character: str) -> str:
    if character in {"'", '"'}:
        return f"the text that begins here has no closing {character}"
    if character.isdigit() or character == "-":
        return "this is no number, and no length of time such as 30s or 2h"
    return f"{character!r} is not part of an expression"
