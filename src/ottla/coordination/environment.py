"""What a coordinator needs of the broker it runs in."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ottla.runtime.clock import Clock
from ottla.runtime.tasks import Tasks
from ottla.runtime.timer import Timer

Defer = Callable[[Callable[[], None]], object]
"""Calls back once at the end of this turn of the event loop; `loop.call_soon` is one."""


class CoordinatorLimits(Struct, frozen=True):
    """Sizes that bound what a coordinator holds in memory at once."""

    load_chunk_bytes: int = 5 * 1024 * 1024
    """How much of a log is read at a time while a shard loads (`offsets.load.buffer.size`)."""
    batch_bytes_max: int = 1_048_588
    """No batch of records may be larger: the internal topic's `max.message.bytes`."""


def send_nothing(message: Any) -> None:
    """For coordinators that have nothing to say to others."""
    raise AssertionError(f"nobody takes the message {message!r}")


class Environment(Struct, frozen=True):
    """The doors to time, threads and the event loop, and the limits. All belong to one event loop."""

    clock: Clock
    timer: Timer
    tasks: Tasks
    defer: Defer
    limits: CoordinatorLimits = CoordinatorLimits()
    send: Callable[[Any], None] = send_nothing
    """Takes the messages of outcomes, each once what it rests on is committed."""
