"""Processes of simulated hosts: what runs of them runs in a context that names them.

A task, a timer or a callback belongs to the process that created it, because contexts are inherited. So a process can
stop between any two steps and continue, or end and never run again, as after SIGSTOP or SIGKILL.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from enum import Enum, auto
from typing import Any, TypeVar

T = TypeVar("T")

_CURRENT: ContextVar["Process"] = ContextVar("process")


class Life(Enum):
    """Whether a process runs."""

    RUNNING = auto()
    PAUSED = auto()
    DEAD = auto()


class Process:
    """One process on a host. `ready` is what it has to do, in order."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        """The address of its host."""
        self.life = Life.RUNNING
        self.ready: deque[asyncio.Handle] = deque()
        self.is_queued = False
        """Whether it stands among those with something to do."""
        self.tasks: set[asyncio.Task[Any]] = set()
        """Those that are not done."""
        self.kept: list[object] = []
        """What is not to be collected before the run is over: finalizers would run on behalf of the dead."""
        self.on_death: list[Callable[[], None]] = []
        """What the operating system does when it ends: it closes sockets, and lets go of locks."""
        self._context = Context()
        self._context.run(_CURRENT.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}, {self.life.name.lower()}>"

    @property
    def is_dead(self) -> bool:
        """Whether it has ended."""
        return self.life is Life.DEAD

    def run(self, function: Callable[..., T], *args: object) -> T:
        """Call a function as this process."""
        return self._context.copy().run(function, *args)

    @property
    def context(self) -> Context:
        """A context of this process for something to be called in later."""
        return self._context.copy()


def current_process() -> Process | None:
    """The running process; None for the world around the processes."""
    return _CURRENT.get(None)


def process_of(context: Context) -> Process | None:
    """The process of a context; None for the world around the processes."""
    return context.get(_CURRENT)
