"""The doors of the whole process to the world outside it."""

import asyncio

from ottla.model.lazy_dataclass import dataclass
from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer


@dataclass(frozen=True, slots=True)
class Doors:
    """Time, chance, tasks and the event loop that all parts of a broker belong to. A simulation passes its own."""

    clock: Clock
    rng: Rng
    timer: Timer
    tasks: Tasks
    loop: asyncio.AbstractEventLoop
