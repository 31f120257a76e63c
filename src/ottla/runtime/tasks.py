"""Tasks that somebody owns: never lost to the garbage collector, never failing in silence, gone after `close`."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from ottla.runtime.begun import Begun

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

OnFailure = Callable[[str, BaseException], None]
"""Called with the name of a task that crashed and what it raised."""


class Tasks:
    """The background work of one part: asyncio tasks, and blocking calls in a bounded pool of threads.

    Belongs to one event loop. The threads are started when the first call needs one.
    """

    __slots__ = ("_executor", "_name", "_on_failure", "_tasks", "_threads_max")

    def __init__(self, name: str = "ottla", *, threads_max: int = 4, on_failure: OnFailure | None = None) -> None:
        self._name = name
        self._threads_max = threads_max
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in the order in which they began
        self._executor: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        """How many tasks run."""
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run a coroutine beside the caller. A crash is logged and given to `on_failure`; nobody needs to await it."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def begin(self, coroutine: Coroutine[Any, Any, object], name: str) -> None:
        """As `spawn`, but its first step is done at once, and there is no task where that is all.

        It may not ask what task it runs in.
        """
        try:
            begun = Begun(coroutine)
        except Exception as error:
            self._on_crash(name, error)
            return
        if not begun.is_done:
            self.spawn(_rest(begun), name)

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in a thread; what it returns or raises comes back here.

        At most `threads_max` run at a time, others queue. Cancelling does not interrupt a call that has begun.
        """
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads_max, thread_name_prefix=self._name)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: function(*args, **kwargs))

    async def close(self) -> None:
        """Cancel the tasks and wait until each has ended, then wait for the threads."""
        current = asyncio.current_task()
        while pending := [task for task in self._tasks if task is not current]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)
            for task in pending:
                self._tasks.pop(task, None)
        if self._executor is not None:
            executor, self._executor = self._executor, None
            executor.shutdown(wait=False, cancel_futures=True)
            await asyncio.get_running_loop().run_in_executor(None, executor.shutdown)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self._on_crash(task.get_name(), error)

    def _on_crash(self, name: str, error: BaseException) -> None:
        logger.error("task %s of %s crashed", name, self._name, exc_info=error)
        if self._on_failure is not None:
            self._on_failure(name, error)


async def _rest(begun: Begun) -> None:
    await begun


async def run_together(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of coroutines that run beside each other, in order. The first that fails ends the others.

    `asyncio.TaskGroup` is not used: where one fails, Python 3.11 counts the caller as cancelled from then on.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    if not tasks:
        return []
    errors: list[BaseException] = []
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        errors = [error for task in tasks if task in done and (error := _error_of(task)) is not None]
    finally:
        running = [task for task in tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for task in tasks:
            _error_of(task)  # or Python complains that nobody has asked for it
    if errors:
        raise errors[0]
    return [task.result() for task in tasks]


def _error_of(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() or not task.done() else task.exception()


def run_main(main: Coroutine[Any, Any, T], *, debug: bool = False) -> T:
    """Run `main` on a new event loop, uvloop's where it is installed, and return its result."""
    with asyncio.Runner(debug=debug, loop_factory=new_event_loop) as runner:
        return runner.run(main)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's where it is installed, the standard library's elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
