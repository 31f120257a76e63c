"""Log lines that say what a stranger sent and still are one line each.

Group, member and client ids, topic names and reasons come from peers and end up in messages. A line break in one would
make a second line that looks like the broker's own, an escape sequence would be carried out by the terminal that shows
the log, and 32 KiB of it would fill the disk.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Final

from ottla.runtime.exhaustion import advice

LINE_CHARACTERS_MAX: Final = 2_000
"""How much of one line is shown; no line of our own is as long."""

_FRAMES_MAX: Final = 6
"""So many of the innermost calls say where an error came from."""


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


class TextLines(logging.Formatter):
    """The log of a broker for people and for `grep`: time in UTC, level, part of the broker and message.

        2026-11-27T08:15:04.123Z WARNING storage.log_cleaner: partition t-0 cannot be compacted (OSError: ...)

    Each record is one line, an error with its type and where it came from; with `tracebacks` those follow, indented.
    Where several brokers write to one stream the message begins with the one that wrote it: `broker 2: ...`.
    """

    broker_id: int | None = None
    """The broker that writes; None when it is the only one, or has no number yet."""

    def __init__(self, *, tracebacks: bool = False) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        whose = "" if self.broker_id is None else f"broker {self.broker_id}: "
        text = f"{_time(record)} {record.levelname} {_part(record)}: {whose}{record.getMessage()}"
        error = _error(record)
        if error is not None:
            text += f" ({_summary(error)})"
        line = printable(text)
        if error is not None and self._tracebacks:
            line += "\n" + _indented("".join(traceback.format_exception(error)).rstrip("\n"))
        return line


class JsonLines(logging.Formatter):
    """The log of a broker for programs: one JSON object a line with `time`, `level`, `part` and `message`.

    A record about an error has `error` too, its type and text, and `traceback`. Where several brokers write to one
    stream it has `broker`, the number of the one that wrote it.
    """

    broker_id: int | None = None
    """The broker that writes; None when it is the only one, or has no number yet."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "part": _part(record),
            "message": printable(record.getMessage()),
        }
        if self.broker_id is not None:
            fields["broker"] = self.broker_id
        error = _error(record)
        if error is not None:
            fields["error"] = printable(_summary(error))
            fields["traceback"] = "".join(traceback.format_exception(error))
        return json.dumps(fields)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _part(record: logging.LogRecord) -> str:
    return record.name.removeprefix("ottla.")


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _summary(error: BaseException) -> str:
    """An error in one line: what it is, what to do when something has run out, and the calls it came through.

    OSError: [Errno 24] Too many open files; this process may open no more files; ...; at disk.py:180, log.py:52
    """
    calls = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    places = ", ".join(f"{PurePath(call.filename).name}:{call.lineno}" for call in reversed(calls))
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return "; ".join(filter(None, [said, advice(error), places and f"at {places}"]))
