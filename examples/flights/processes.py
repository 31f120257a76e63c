"""Nothing that the demo starts outlives it: the broker, Spark's JVM and the Python workers that the JVM starts."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# Looked up before there are children: between fork and exec there is no more than the call.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make processes whose parent ends our own children, so that `end_all_children` finds them. Linux only."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """For a child, between fork and exec: be terminated when the thread that forked it ends, even by SIGKILL."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def end_all_children() -> None:
    """Kill and reap every process below this one."""
    # A process that is killed may leave its own children to us: look again.
    while children := list(_children()):
        for pid in children:
            _kill(pid)
        for pid in children:
            _reap(pid)


def _children() -> Iterator[int]:
    for listing in Path("/proc/self/task").glob("*/children"):
        try:
            yield from map(int, listing.read_text().split())
        except OSError:
            # The thread ended while we looked; its children show up with another one.
            continue


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        # Its `Popen` object has waited for it already.
        return
