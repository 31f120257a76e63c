"""An event loop in a thread of its own, for blocking code that uses asynchronous parts.

blocking thread                     event loop thread
call(coroutine)  ---- submits --->  runs it as a task
waits            <--- result -----  heartbeats and senders go on meanwhile, and between two calls
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ottla.runtime.tasks import new_event_loop

T = TypeVar("T")


class EventLoopThread:
    """Runs coroutines for other threads. Any thread but its own may call it; `close` it once.

    The thread is a daemon: a program that ends without `close` is not held up. It does not survive a fork.
    """

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result, or raise its exception.

        When the waiting thread is interrupted (Ctrl-C), the coroutine is cancelled.
        """
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine without waiting for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Stop the loop and wait for its thread. Calling it again changes nothing."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
