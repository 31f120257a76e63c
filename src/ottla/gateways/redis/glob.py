"""Patterns of KEYS and SCAN: `*`, `?`, `[a-c]`, `[^a]` and backslash (`stringmatchlen` of Redis)."""

import re
from functools import lru_cache
from typing import Final

_STAR, _ANY, _SET, _BACKSLASH = b"*?[\\"
PATTERN_BYTES_MAX: Final = 4096


def matches(pattern: bytes, text: bytes) -> bool:
    """Whether a text is of a pattern.

    >>> matches(b"h[a-c]llo*", b"hallo you"), matches(b"h?llo", b"hllo")
    (True, False)
    """
    if pattern == b"*":
        return True
    if len(pattern) > PATTERN_BYTES_MAX:
        return pattern == text
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=64)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """The regular expression of a pattern. Each piece between two stars is matched at its first place, for good: there
    is nothing to gain from a later one, and nobody can have us try them all.
    """
    pieces: list[list[bytes]] = [[]]
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at]
        at += 1
        if byte == _STAR:
            pieces.append([])
        elif byte == _ANY:
            pieces[-1].append(b".")
        elif byte == _SET:
            part, at = _set(pattern, at)
            pieces[-1].append(part)
        else:
            if byte == _BACKSLASH and at < end:
                byte = pattern[at]
                at += 1
            pieces[-1].append(re.escape(bytes((byte,))))
    first, *rest = (b"".join(piece) for piece in pieces)
    if rest:
        middle = b"".join(b"(?>.*?" + piece + b")" for piece in rest[:-1] if piece)
        first += middle + b".*" + rest[-1]
    return re.compile(first, re.DOTALL)


def _set(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The bytes of `[...]` as a regular expression, and where the pattern goes on."""
    end = len(pattern)
    is_not = at < end and pattern[at] == ord("^")
    at += is_not
    allowed: set[int] = set()
    while at < end and pattern[at] != ord("]"):
        if pattern[at] == _BACKSLASH and at + 1 < end:
            allowed.add(pattern[at + 1])
            at += 2
        elif at + 2 < end and pattern[at + 1] == ord("-"):
            first, last = sorted((pattern[at], pattern[at + 2]))
            allowed.update(range(first, last + 1))
            at += 3
        else:
            allowed.add(pattern[at])
            at += 1
    chosen = set(range(256)) - allowed if is_not else allowed
    if not chosen:
        return b"(?!)", at + 1
    return b"[" + b"".join(re.escape(bytes((each,))) for each in sorted(chosen)) + b"]", at + 1
