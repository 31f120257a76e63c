"""Patterns of LIKE: `%` stands for any characters, `_` for one. Matching takes no more than text times pattern."""

import re
from collections.abc import Callable


def text_pattern(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches the pattern as a whole.

    The pieces between `%` are looked for one after the other, each as early as possible: nothing is tried twice.
    """
    first, *rest = pattern.split("%")
    begin = _piece(first)
    if not rest:
        return lambda text: begin.fullmatch(text) is not None
    middle = [_piece(piece) for piece in rest[:-1] if piece]
    end, end_length = _piece(rest[-1]), len(rest[-1])

    def matches(text: str) -> bool:
        found = begin.match(text)
        for piece in middle:
            if found is None:
                return False
            found = piece.search(text, found.end())
        if found is None or len(text) - end_length < found.end():
            return False
        return end.match(text, len(text) - end_length) is not None

    return matches


def _piece(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if each == "_" else re.escape(each) for each in text), re.DOTALL)
