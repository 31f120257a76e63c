r"""Text from strangers, safe to show: on a terminal, in a log, on one line.

    caf\u00e9 ESC[2J     ->     caf\u00e9 \u001b[2J

A name, a key or an error message that repeats one may hold what moves a cursor, changes colours or begins a new line
that looks like one of ours.
"""

import json
from typing import Final

_CUT: Final = "..."


def printable(text: str, length_max: int | None = None) -> str:
    """The text with everything that is not a character to look at escaped as JSON has it, cut to `length_max`."""
    if length_max is not None:
        text = _cut(text, length_max)
    if not text.isprintable():
        text = "".join(map(_shown, text))
    return text if length_max is None else _cut(text, length_max)


def _cut(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else text[: length_max - len(_CUT)] + _CUT


def _shown(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]
