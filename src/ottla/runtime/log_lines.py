"""Log lines that say what a stranger sent and still are one line each.

Group, member and client ids, topic names and reasons come from peers and end up in messages. A line break in one would
make a second line that looks like the broker's own, an escape sequence would be carried out by the terminal that shows
the log, and 32 KiB of it would fill the disk.
"""

import logging
from typing import Any, Final

LINE_CHARACTERS_MAX: Final = 2_000
"""How much of one line is shown; no line of our own is as long."""


def printable(text: str, characters_max: int = LINE_CHARACTERS_MAX) -> str:
    r"""One line of characters that can be seen: others are escaped as in Python's literals, what is too long is cut.

    >>> printable("group a\nottla: all is well\x1b[2J\u202e")
    'group a\\nottla: all is well\\x1b[2J\\u202e'
    """
    cut = len(text) - characters_max
    if cut > 0:
        text = text[:characters_max]
    if not text.isprintable():
        text = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
            for character in text
        )
    return f"{text}... ({cut} more characters)" if cut > 0 else text


class LineFormatter(logging.Formatter):
    """Makes each message one printable line; the lines of a traceback follow it, indented and printable too."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name of the base class)
        """The line of a record."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 (the name of the base class)
        """The traceback; what a peer sent may stand in its last lines."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 (the name of the base class)
        """The stack, when a record carries one."""
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"    {printable(line)}" for line in text.split("\n"))
