"""Says on stderr what a command waits for while it gets no further, so that nobody looks at a silent terminal."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.client.errors import BrokerError
from ottla.model.printable import printable
from ottla.runtime.tasks import Tasks

if TYPE_CHECKING:
    from ottla.client.io.client_io import ClientIo
    from ottla.client.io.troubles import Trouble, Troubles

NOTICE_MS = 2_000
"""A trouble that lasts so long is told; most are over before."""

_LOOK_MS = 250
_AGAIN_MS = 30_000


@asynccontextmanager
async def saying_what_is_waited_for(troubles: "Troubles", io: "ClientIo", limit_ms: int = 0) -> AsyncIterator[None]:
    """Within this block a lasting trouble is told once, again when its reason changes, and every 30 seconds.

    With a limit the block is cancelled when a trouble has lasted that long, wherever it waits, and ends with
    CommandError.
    """
    inside = asyncio.current_task()
    assert inside is not None
    tasks = Tasks("waiting")
    watch = _Watch(troubles, io, limit_ms, inside)
    tasks.spawn(watch.run(), "say what is waited for")
    try:
        yield
    except asyncio.CancelledError:
        if watch.gave_up is None or inside.uncancel():  # somebody else has cancelled it as well
            raise
        raise watch.gave_up from None
    finally:
        await tasks.close()


class _Watch:
    """Looks at the troubles of a client while a task works with it."""

    def __init__(self, troubles: "Troubles", io: "ClientIo", limit_ms: int, inside: "asyncio.Task[object]") -> None:
        self._troubles = troubles
        self._io = io
        self._limit_ms = limit_ms
        self._inside = inside
        self.gave_up: CommandError | None = None
        """Why the task was cancelled."""

    async def run(self) -> None:
        said, said_ms = "", 0
        while self.gave_up is None:
            await self._io.pause(_LOOK_MS)
            longest = self._troubles.longest()
            if longest is None or longest[0] < NOTICE_MS:
                continue
            lasted_ms, trouble = longest
            now_ms = self._io.clock.monotonic_ms()
            if trouble.what != said or now_ms - said_ms >= _AGAIN_MS:
                said, said_ms = trouble.what, now_ms
                with suppress(OSError):
                    print(f"ottla: waiting: {printable(trouble.what)}", file=sys.stderr, flush=True)
            if 0 < self._limit_ms <= lasted_ms:
                self._give_up(lasted_ms, trouble)

    def _give_up(self, lasted_ms: int, trouble: "Trouble") -> None:
        # A wait that has not ended yet has no error: nobody has answered.
        code = ExitCode.FAILED if isinstance(trouble.error, BrokerError) else ExitCode.UNREACHABLE
        self.gave_up = CommandError(f"gave up after {lasted_ms // 1000} s: {trouble.what}", code)
        self._inside.cancel()
