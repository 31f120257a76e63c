"""A client of the event loop, in a thread of its own, for blocking code."""

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from ottla.client.errors import ClientError
from ottla.runtime.event_loop_thread import EventLoopThread

P = ParamSpec("P")
T = TypeVar("T")


class LoopBound(Protocol):
    """A client that is started and closed on its loop."""

    async def start(self) -> None:
        """Reach the cluster."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


Client = TypeVar("Client", bound=LoopBound)


class LoopClient(Generic[Client]):
    """Opens a client, runs its calls, and closes it. Any thread but the loop's may call. It does not survive a fork."""

    def __init__(self, what: str, make: Callable[[], Client]) -> None:
        """Make and start the client; `what` names it in errors. Raises what `start` raises."""
        self._what = what
        self._thread = EventLoopThread(f"ottla-{what.replace(' ', '-')}")
        self._is_closed = False
        try:
            self.client = self._thread.call(_started(make))
        except BaseException:
            self._thread.close()
            raise

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. Raises ClientError after `close`."""
        if self._is_closed:
            coroutine.close()
            raise ClientError(f"the {self._what} is closed")
        return self._thread.call(coroutine)

    def invoke(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function on the loop, which does not wait, and return its result."""

        async def run() -> T:
            return function(*args, **kwargs)

        return self.call(run())

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop without waiting for it."""
        return self._thread.submit(coroutine)

    def close(self, coroutine: Coroutine[Any, Any, None] | None = None) -> None:
        """Close the client, or run this instead, and end the loop. Calling it again changes nothing."""
        if self._is_closed:
            if coroutine is not None:
                coroutine.close()
            return
        self._is_closed = True
        try:
            self._thread.call(self.client.close() if coroutine is None else coroutine)
        finally:
            self._thread.close()


async def _started(make: Callable[[], Client]) -> Client:
    client = make()
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client
