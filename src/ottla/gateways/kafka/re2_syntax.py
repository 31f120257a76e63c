"""Regular expressions in the syntax of RE2, written for the kernel, whose own syntax differs in a few places.

RE2                      here
[a&&b]  [x[y]  [--a]     [a\\&\\&b]  [x\\[y]  [\\--a]      no set operations
a{b  {                   a\\{b  \\{                       a brace that repeats nothing is itself
a++  a**  a{2}{3}        ValueError                      a repetition is not repeated
a{1001}  \\u0061  (?x)a   ValueError
"""

import re
from typing import Final

PATTERN_LENGTH_MAX: Final = 32 * 1024
REPETITIONS_MAX: Final = 1000

_REPETITION: Final = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_FLAGS: Final = re.compile(r"\(\?([A-Za-z-]+)[:)]")
_ESCAPE: Final = re.compile(r"\\(?:[xpP]\{[^}]*\}|.)?", re.DOTALL)
_QUOTED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)", re.DOTALL)
_CLASS_NAME: Final = re.compile(r"\[:\^?[a-z]+:\]")


def kernel_pattern(pattern: str) -> str:
    """The expression for `ottla.native.TopicPattern`. Raises ValueError for what RE2 refuses and the kernel takes."""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ValueError(f"the expression has more than {PATTERN_LENGTH_MAX} characters")
    written: list[str] = []
    at, repeats = 0, False
    while at < len(pattern):
        character = pattern[at]
        if character in "*+?{" and (repetition := _repetition(pattern, at)):
            if repeats:
                raise ValueError(f"{repetition} repeats a repetition")
            lazy = "?" if pattern.startswith("?", at + len(repetition)) else ""
            part, taken, repeats = repetition + lazy, len(repetition + lazy), True
        else:
            part, taken = _single(pattern, at)
            repeats = False
        written.append(part)
        at += taken
    return "".join(written)


def _repetition(pattern: str, at: int) -> str:
    """The repetition that begins here; empty for a brace that is none."""
    if pattern[at] != "{":
        return pattern[at]
    found = _REPETITION.match(pattern, at)
    if found is None:
        return ""
    if any(len(number) > 9 or int(number) > REPETITIONS_MAX for number in found.groups() if number):
        raise ValueError(f"{found[0]} repeats more than {REPETITIONS_MAX} times")
    return found[0]


def _single(pattern: str, at: int) -> tuple[str, int]:
    """What begins here and is no repetition, as it is written for the kernel, and its length in the pattern."""
    match pattern[at]:
        case "{":
            return "\\{", 1
        case "[":
            return _class(pattern, at)
        case "\\":
            quoted = _QUOTED.match(pattern, at)
            return (quoted[0], len(quoted[0])) if quoted else _escape(pattern, at)
        case "(" if pattern.startswith("(?", at):
            flags = _FLAGS.match(pattern, at)
            if flags is not None and (unknown := set(flags[1]) - set("imsU-")):
                raise ValueError(f"RE2 has no flag {min(unknown)}")
            return "(?", 2
    return pattern[at], 1


def _escape(pattern: str, at: int) -> tuple[str, int]:
    found = _ESCAPE.match(pattern, at)
    assert found is not None
    escape = found[0]
    if escape[1:] in ("u", "U"):
        raise ValueError(f"RE2 has no escape {escape}; a character by its number is \\x{{61}}")
    return (escape[1:] if escape[1:] in ("<", ">") else escape), len(escape)


def _class(pattern: str, begin: int) -> tuple[str, int]:
    """A class in brackets; what has no end is left for the kernel to refuse."""
    at = begin + 1 + pattern.startswith("^", begin + 1)
    first = at
    written = [pattern[begin:at]]
    while at < len(pattern) and (at == first or pattern[at] != "]"):
        name = _CLASS_NAME.match(pattern, at)
        if name is not None:
            part, taken = name[0], len(name[0])
        elif pattern[at] == "\\":
            part, taken = _escape(pattern, at)
        elif pattern.startswith("--", at):
            part, taken = ("\\-", 1) if at == first else ("-\\-", 2)
        else:
            part, taken = ("\\" if pattern[at] in "[&~]" else "") + pattern[at], 1
        written.append(part)
        at += taken
    return "".join(written) + pattern[at : at + 1], at + 1 - begin
