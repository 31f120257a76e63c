"""Time, chance, tasks and turns of the event loop: what a part of a broker gets from outside, as one value."""

from collections.abc import Callable

from msgspec import Struct

from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

Defer = Callable[[Callable[[], None]], object]
"""Calls back once at the end of this turn of the event loop; `loop.call_soon` is one."""


class Environment(Struct, frozen=True):
    """All of it belongs to one event loop. A broker has the real one, a simulation and tests pass their own."""

    clock: Clock
    rng: Rng
    timer: Timer
    tasks: Tasks
    defer: Defer
