"""Standard input, output and error of the process: closed before it began, or by their reader on the way."""

import io
import os
import select
import stat
import sys
from collections.abc import Callable
from typing import Final

_LOOK_MS: Final = 100
"""How often is looked whether to go on, while a reader takes nothing."""


def open_missing() -> None:
    """Take the places of standard streams that the process was started without (`>&-`).

    Else the next file or socket that is opened gets the number and is written to as if it were the stream. What stands
    there instead refuses to be read, or written, with EBADF; only messages to standard error are dropped.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def write_whole() -> None:
    """Have `sys.stdout` write all that it is given, also where Python was told not to buffer (`PYTHONUNBUFFERED`).

    Text then goes straight to a file that may take a part of it, as a pipe does whose reader is slow; Python drops the
    rest and says nothing. Commands flush what is to be seen at once.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        stream = sys.stdout
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=stream.isatty()
        )


def reader_is_gone() -> bool:
    """Whether the other end of our output pipe is closed, so that nothing more can be written (`| head`)."""
    if not hasattr(select, "poll"):
        return False
    watch = select.poll()
    try:
        watch.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def write_out(data: bytes, is_stopped: Callable[[], bool]) -> None:
    """Write all of it to standard output, past the buffer of `sys.stdout`. BLOCKING, for a thread.

    Ends early, with a part written, once `is_stopped`: also while the reader of a pipe takes nothing, which no signal
    to this process would end. Raises OSError.
    """
    descriptor, rest = sys.stdout.fileno(), memoryview(data)
    if stat.S_ISREG(os.fstat(descriptor).st_mode) or not hasattr(select, "poll"):
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        return
    watch = select.poll()
    watch.register(descriptor, select.POLLOUT)
    while rest and not is_stopped():
        if watch.poll(_LOOK_MS):
            # A pipe that says it can be written takes so much without waiting.
            rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]


def discard_unwritten() -> None:
    """Forget output that cannot be written. Python would try again at its exit, complain, and end with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
