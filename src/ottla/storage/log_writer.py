"""The event loop's side of the log I/O thread.

What is asked for in one turn of the loop is submitted once, at its end; completions are handed to their tokens when the
thread's descriptor becomes readable, and then each log that got on is told once.

After a failure nothing is written any more. One that says that the disk is full, or may not be written now, can pass:
nothing was lost by it, and the directory can be resumed. Any other is for good; above all that of a sync, after which
the system may take pages for written that are not on disk.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC, EROFS
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.runtime.cork import Answers
from ottla.storage.log_io import SYNC, Completion, LogIo

if TYPE_CHECKING:
    from ottla.storage.log_io_trace import Histogram

logger = logging.getLogger(__name__)

_INLINE_BYTES_MAX: Final = 64 * 1024
"""What is written without the thread, when nothing of it is synced: the way there and back costs more than the copy."""

_PASSING: Final = {
    "open": frozenset({ENOSPC, EDQUOT, EROFS, EMFILE, ENFILE}),
    "write": frozenset({ENOSPC, EDQUOT, EROFS, EFBIG}),
}
"""What can pass: by the operation, the errors after which everything that was written before is as it was."""


class Progressing(Protocol):
    """Who wants to be told once per round of completions that something moved."""

    def report_progress(self) -> None:
        """Called from the event loop after all completions of the round have been handed out."""
        ...


class LogWriter:
    """Writes the files of one log directory; belongs to the event loop it is attached to.

    Before `attach` nothing is submitted or completed by itself: `submit` and `poll` do it by hand.
    """

    __slots__ = (
        "_answers",
        "_deferred",
        "_io",
        "_is_corked",
        "_is_hurried",
        "_is_wanted_by_cork",
        "_loop",
        "_on_failure",
        "_resuming",
        "_submit_is_due",
        "_wrote_here",
        "failure",
        "failure_can_pass",
        "progressed",
    )

    def __init__(self, io: LogIo, on_failure: Callable[[OSError], None]) -> None:
        """`on_failure` is called once a failure, from the event loop: the directory can no longer be written."""
        self._io = io
        self._on_failure = on_failure
        self._loop: asyncio.AbstractEventLoop | None = None
        self._submit_is_due = False
        self._is_corked = False
        self._is_hurried = False
        self._is_wanted_by_cork = False
        self._answers: list[Answers] = []
        self._deferred: list[Callable[[], None]] = []
        self._wrote_here = True
        self.progressed: dict[Progressing, None] = {}
        """Whoever is told at the end of this round of completions that something moved."""
        self.failure: OSError | None = None
        self.failure_can_pass = False
        self._resuming: OSError | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes accepted and not yet written: what a broker looks at to slow producers down."""
        return self._io.queued_bytes

    def io_trace(self) -> "dict[str, Histogram]":
        """Where the time of appends went so far, and how large groups were (`log_io_trace`)."""
        from ottla.storage.log_io_trace import histograms  # late: a start has no need of it

        return histograms(self._io.trace())

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let `loop` drive this writer from now on; called in the thread of the loop."""
        self._loop = loop
        loop.add_reader(self._io.fileno(), self.poll)
        self._schedule()

    def detach(self) -> None:
        """Leave the loop."""
        if self._loop is not None:
            self._loop.remove_reader(self._io.fileno())
            self._loop = None
            self._submit_is_due = False

    def create(self, path: str, preallocate_bytes: int = 0) -> int:
        """A handle for a file that exists or will, with room reserved for it when that is asked for."""
        self._schedule()
        return self._io.create(path, preallocate_bytes)

    def append(
        self, handle: int, position: int, data: bytes | bytearray | memoryview, token: Completion | None, flags: int
    ) -> None:
        """Queue a write; `data` must stay as it is until the first completion."""
        self._io.append(handle, position, data, token, flags)
        if self._is_hurried and flags & SYNC:
            self._is_hurried = self._is_wanted_by_cork = False
            self._io.submit()
        elif not self._submit_is_due:
            if self._is_corked:
                self._is_wanted_by_cork = True
            else:
                self._schedule()

    def writes_here(self) -> bool:
        """Whether `write_here` is worth a try: nothing was asked for in this turn, and the last group of a turn did not
        have to go to the thread.
        """
        return self._wrote_here and not self._is_wanted_by_cork

    def write_here(self, handle: int, position: int, data: bytes) -> bool:
        """Write a little before this returns, if that can be; nobody is told. False when it is to be appended.

        So nothing is known of why it could not be written: `append` tells, which fails in the same way.
        """
        self._wrote_here = self.failure is None and self._io.write_here(handle, position, data, _INLINE_BYTES_MAX)
        return self._wrote_here

    def sync(self, handle: int, token: Completion | None = None) -> None:
        """Queue making a file durable."""
        self._io.sync(handle, token)
        self._schedule()

    def close_handle(self, handle: int, token: Completion | None = None) -> None:
        """Queue forgetting a file."""
        self._io.close_handle(handle, token)
        self._schedule()

    def fail(self, operation: str, error: OSError) -> None:
        """Somebody besides the thread could not `open` or `write` a file: the directory fails if that can pass."""
        if self.failure is None and _can_pass(operation, error.errno):
            self.failure = error
            self.failure_can_pass = True
            self._on_failure(error)

    def resume(self, token: Completion) -> None:
        """Have the thread try again; `token` completes as CLOSED. `resumed` must follow when the logs are ready."""
        self._resuming = self.failure
        self._io.resume(token)
        self._schedule()

    def resumed(self) -> None:
        """The logs are as their files: let them write, unless there was another failure since."""
        if self.failure is self._resuming:
            self.failure = None
            self.failure_can_pass = False

    def moved(self, log: Progressing) -> None:
        """Something of `log` moved without a completion: it is told in a moment."""
        self.progressed[log] = None
        if self._loop is not None:
            self._loop.call_soon(self.poll)

    def submit(self) -> None:
        """Give the thread what has been asked for; a little that is only written is done here when it is idle."""
        self._submit_is_due = False
        if self._io.submit(_INLINE_BYTES_MAX):
            self.poll()

    def cork(self) -> None:
        """A run of requests is handled now: what they append goes out at its end, if that can be done at once."""
        self._is_corked = True
        self._is_hurried = False

    def flush_now(self) -> None:
        """All that this run wants synced comes with the next append: the thread begins with it at once, and what is
        left to be done about it is done meanwhile.
        """
        self._is_hurried = True

    def defer(self, call: Callable[[], None]) -> None:
        """Call it at the end of the run that is under way, and what it appends goes with the run; or, where there is
        none, at the end of the loop's turn.
        """
        if self._is_corked:
            self._deferred.append(call)
        else:
            asyncio.get_running_loop().call_soon(call)

    def _call_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            try:
                call()
            except Exception:
                logger.exception("what was left for the end of a run failed")
        again, self._deferred = self._deferred, []
        for call in again:
            asyncio.get_running_loop().call_soon(call)

    def uncork(self) -> None:
        """The run is over. What is only written is written and acknowledged before this returns, as far as `submit`
        does that; the rest waits for the end of the loop's turn, to share a sync with what others append."""
        if self._deferred:
            self._call_deferred()
        self._is_corked = self._is_hurried = False
        if self._is_wanted_by_cork:
            self._is_wanted_by_cork = False
            self._wrote_here = self._io.submit_here(_INLINE_BYTES_MAX)
            if self._wrote_here:
                self.poll()
            else:
                self._schedule()

    def uncork_now(self) -> None:
        """`uncork`; what cannot be done at once goes to the thread without waiting for the end of the loop's turn."""
        if self._deferred:
            self._call_deferred()
        self._is_corked = self._is_hurried = False
        if self._is_wanted_by_cork:
            self._is_wanted_by_cork = False
            self._wrote_here = self._io.submit(_INLINE_BYTES_MAX)
            if self._wrote_here:
                self.poll()

    def add_answers(self, answers: Answers) -> None:
        """Have what is answered because of completions gathered, and sent when all of them have been handed out."""
        self._answers.append(answers)

    def remove_answers(self, answers: Answers) -> None:
        """No more."""
        self._answers.remove(answers)

    def poll(self) -> None:
        """Hand out what has been completed. A token or log that raises is logged; the others hear of theirs."""
        for answers in self._answers:
            answers.gather()
        try:
            self._hand_out()
        finally:
            for answers in self._answers:
                answers.send()

    def _hand_out(self) -> None:
        failure: OSError | None = None
        token: Any  # a Completion: `append` takes no other, and a cast would be a call for each
        for token, stage, errno in self._io.completions():
            if token is None:
                failure = self._fail(errno)
            else:
                try:
                    token.completed(stage, errno)
                except Exception:
                    logger.exception("the callback of a write failed")
        progressed, self.progressed = self.progressed, {}
        for log in progressed:
            try:
                log.report_progress()
            except Exception:
                logger.exception("a listener of log progress failed")
        if failure is not None:
            self._on_failure(failure)

    def finish(self) -> None:
        """Do everything that is queued and end the thread; `poll` then hands out the last completions. BLOCKING."""
        self._io.close()

    def _schedule(self) -> None:
        if self._is_corked:
            self._is_wanted_by_cork = True
        elif self._loop is not None and not self._submit_is_due:
            self._submit_is_due = True
            self._loop.call_soon(self.submit)

    def _fail(self, errno: int) -> OSError:
        operation, path, _ = self._io.failure or ("write", "", errno)
        self.failure = OSError(errno, f"{operation} failed: {os.strerror(errno)}", str(path))
        self.failure_can_pass = _can_pass(operation, errno)
        return self.failure


def _can_pass(operation: str, errno: int | None) -> bool:
    return errno in _PASSING.get(operation, ())
