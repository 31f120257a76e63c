"""Standard input, output and error of the process: closed before it began, or by their reader on the way."""

import os
import select
import sys


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


def discard_unwritten() -> None:
    """Forget output that cannot be written. Python would try again at its exit, complain, and end with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
