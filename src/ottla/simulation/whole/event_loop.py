"""An event loop in virtual time: nothing waits, and what may happen in any order happens in the order of a seed.

    processes   A: callbacks that are ready, in order   B: ...   the world: ...
                one of those with something to do is drawn, and has one turn: what is ready when it begins
    timers      one heap; when nobody has anything to do the clock jumps to the first of them

Each process sees the same as with its own loop: callbacks in the order in which they were requested, timers in the
order of their time, descriptors as long as they are ready. The next process and the length of a turn are random. There
are no threads: the work of a thread is done at once, some time later.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from ottla.runtime.rng import Rng
from ottla.simulation.whole.process import Life, Process, current_process, process_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURN_S_MAX: Final = 0.000_2
"""The maximum duration of a process's turn, in virtual seconds."""

THREAD_S_MAX: Final = 0.004
"""The maximum duration of a thread's work on an idle host, in virtual seconds."""

TURNS_MAX: Final = 400_000
"""How many turns processes have at most, several times as many as long schedules take: two that ask each other for the
same again and again would never come to rest."""

_FIRST_DESCRIPTOR: Final = 1_000_000
"""Far above those of the operating system: a mix-up fails."""


class Descriptor(Protocol):
    """The object behind a simulated file descriptor."""

    @property
    def is_readable(self) -> bool:
        """Whether there is something to take."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether there is room."""
        ...


class StuckError(Exception):
    """The simulation cannot go on: all wait and no timer is set, or callbacks never end."""


class _Watch:
    """One process watches a descriptor for one thing."""

    __slots__ = ("callback", "context", "is_due")

    def __init__(self, callback: Callable[[], object], context: Context) -> None:
        self.callback = callback
        self.context = context
        self.is_due = False


class _Handle(asyncio.Handle):
    """As asyncio's, which asks its loop each time whether it is being debugged."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _TimerHandle(asyncio.TimerHandle):
    """The same for a time."""

    __slots__ = ()

    def __init__(
        self, when_s: float, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Context | None
    ) -> None:
        _Handle.__init__(self, callback, args, loop, context)  # type: ignore[arg-type]
        self._when = when_s
        self._scheduled = False


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs everything there is in a simulation."""

    def __init__(self, rng: Rng) -> None:
        super().__init__()
        self._rng = rng
        self.world = Process("world", "")
        """Networks, disks, the store and whoever makes things go wrong: it never stops."""
        self._now_s = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0
        self._runnable: list[Process] = []
        self._descriptors: dict[int, Descriptor] = {}
        self._readers: dict[int, _Watch] = {}
        self._writers: dict[int, _Watch] = {}
        self._next_descriptor = _FIRST_DESCRIPTOR
        self.turns = 0
        """How many turns processes have had."""
        self.connect: Callable[..., Any] | None = None
        """What `create_connection` does: the network's."""
        self.set_task_factory(_new_task)

    # Time.

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now_s

    # What is to be called.

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in the next turn of the process that asks."""
        return self._call_soon(callback, args, context)

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._make_ready(handle)
        return handle

    def _make_ready(self, handle: asyncio.Handle) -> None:
        process = process_of(handle._context) or self.world  # type: ignore[attr-defined]
        if process.life is Life.DEAD:
            if not self.is_closed():
                process.kept.append(handle)
            return
        process.ready.append(handle)
        if not process.is_queued and process.life is Life.RUNNING:
            self._queue(process)

    def _queue(self, process: Process) -> None:
        process.is_queued = True
        self._runnable.append(process)

    def _unqueue(self, process: Process) -> None:
        if process.is_queued:
            process.is_queued = False
            self._runnable.remove(process)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """There are no other threads."""
        return self._call_soon(callback, args, context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a virtual time."""
        return self._at(when, callback, args, context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back after some virtual seconds."""
        return self._at(self._now_s + delay, callback, args, context)

    def _at(self, when_s: float, callback: Any, args: Any, context: Context | None) -> asyncio.TimerHandle:
        handle = _TimerHandle(when_s, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when_s, self._number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def in_world(self, delay_s: float, callback: Callable[[*Ts], object], *args: *Ts) -> asyncio.TimerHandle:
        """Call back after a delay, outside of all processes."""
        return self._at(self._now_s + delay_s, callback, args, self.world.context)

    def after(self, delay_s: float, callback: Callable[[*Ts], object], *args: *Ts) -> asyncio.TimerHandle:
        """Call back after a delay in the current process, unless it has ended by then."""
        return self._at(self._now_s + delay_s, callback, args, None)

    def as_process(self, process: Process, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """Schedules a call as the given process."""
        self._call_soon(callback, args, process.context)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> "asyncio.Future[T]":
        """Runs the function later in this thread, unless the process has ended."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                settle_error(future, error)
            else:
                settle(future, result)

        self.after(self._rng.uniform(0.0, THREAD_S_MAX), work)
        return future

    # Processes.

    def spawn(self, process: Process, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Starts a task in a process."""
        return process.run(_new_task, self, coroutine)

    def pause(self, process: Process) -> None:
        """Pauses the process."""
        if process.life is Life.RUNNING:
            process.life = Life.PAUSED
            self._unqueue(process)

    def resume(self, process: Process) -> None:
        """Resumes the process; its clock has advanced meanwhile."""
        if process.life is Life.PAUSED:
            process.life = Life.RUNNING
            if process.ready:
                self._queue(process)

    def kill(self, process: Process) -> None:
        """Kills the process: nothing of it runs any more, no cleanup either. Called by the world."""
        if process.life is Life.DEAD:
            return
        self._unqueue(process)
        process.life = Life.DEAD
        process.kept.extend((*process.ready, *process.tasks))
        process.ready.clear()
        for end in process.on_death:
            end()

    # Descriptors.

    def new_descriptor(self, descriptor: Descriptor) -> int:
        """A new descriptor number."""
        self._next_descriptor += 1
        self._descriptors[self._next_descriptor] = descriptor
        return self._next_descriptor

    def changed(self, fd: int) -> None:
        """A descriptor may have become readable or writable."""
        descriptor = self._descriptors.get(fd)
        if descriptor is None:
            return
        reader, writer = self._readers.get(fd), self._writers.get(fd)
        if reader is not None and not reader.is_due and descriptor.is_readable:
            self._tell(self._readers, fd, reader)
        if writer is not None and not writer.is_due and descriptor.is_writable:
            self._tell(self._writers, fd, writer)

    def _tell(self, watches: dict[int, _Watch], fd: int, watch: _Watch) -> None:
        watch.is_due = True

        def tell() -> None:
            watch.is_due = False
            if watches.get(fd) is watch:
                descriptor = self._descriptors.get(fd)
                is_reader = watches is self._readers
                if descriptor is not None and (descriptor.is_readable if is_reader else descriptor.is_writable):
                    watch.callback()
                    self.changed(fd)

        self._call_soon(tell, (), watch.context)

    def add_reader(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        """Calls back while the descriptor is readable."""
        self._readers[fd] = _Watch(lambda: callback(*args), copy_context())
        self.changed(fd)

    def remove_reader(self, fd: Any) -> bool:
        """Stops watching the descriptor."""
        return self._readers.pop(fd, None) is not None

    def add_writer(self, fd: Any, callback: Callable[[*Ts], Any], *args: *Ts) -> None:
        """Calls back while the descriptor is writable."""
        self._writers[fd] = _Watch(lambda: callback(*args), copy_context())
        self.changed(fd)

    def remove_writer(self, fd: Any) -> bool:
        """Stops watching the descriptor."""
        return self._writers.pop(fd, None) is not None

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        """A connection over the simulated network."""
        assert self.connect is not None, "there is no network"
        return await self.connect(protocol_factory, host, port)

    # The loop.

    def _run_once(self) -> None:
        """Turn after turn, until the loop is to stop."""
        runnable, timers, world, rng = self._runnable, self._timers, self.world, self._rng
        while not self._stopping:  # type: ignore[attr-defined]
            if timers and timers[0][0] <= self._now_s:
                self._wake()
            while not runnable:
                if not timers:
                    raise StuckError("nothing is left to happen")
                self._now_s = max(self._now_s, timers[0][0])
                self._wake()
            process = runnable[rng.randbelow(len(runnable)) if len(runnable) > 1 else 0]
            self.turns += 1
            if self.turns > TURNS_MAX:
                raise StuckError(f"nothing comes to rest: {self.turns:,} turns in {self._now_s:.1f} s")
            ready = process.ready
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            if not ready:
                self._unqueue(process)
            if process is not world:
                self._now_s += rng.random() * TURN_S_MAX

    def _wake(self) -> None:
        timers, now_s = self._timers, self._now_s
        while timers and timers[0][0] <= now_s:
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                self._make_ready(handle)

    def _check_closed(self) -> None:
        """Those who are collected after the end still clean up; nothing comes of it."""

    def _process_events(self, _event_list: Any) -> None:
        """There are none from outside."""


def _new_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **arguments: Any) -> "asyncio.Task[Any]":
    """A task that is known to its process until it is done: whoever is dead must not be collected."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **arguments)
    process = current_process()
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
    return task


def settle(future: "asyncio.Future[T]", result: T) -> None:
    """Set a result, unless nobody waits for it any more."""
    if not future.done():
        future.set_result(result)


def settle_error(future: "asyncio.Future[Any]", error: BaseException) -> None:
    """The same with an error."""
    if not future.done():
        future.set_exception(error)
