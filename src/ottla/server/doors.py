"""The doors of the whole process to the world outside it."""

import asyncio

from msgspec import Struct

from ottla.runtime.clock import Clock
from ottla.runtime.rng import Rng
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer


class Doors(Struct, frozen=True):
    """Time, chance, tasks and the event loop that all parts of a broker belong to. A simulation passes its own."""

    clock: Clock
    rng: Rng
    timer: Timer
    tasks: Tasks
    loop: asyncio.AbstractEventLoop
