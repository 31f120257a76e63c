"""What the connections of a listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ottla.network.config import NetworkConfig
    from ottla.network.flow_control import FlowControl
    from ottla.network.frame_reader import Framing
    from ottla.network.metrics import NetworkMetrics
    from ottla.network.request_memory import RequestMemory
    from ottla.network.sockets import Sockets
    from ottla.network.together import Together
    from ottla.runtime.clock import Clock
    from ottla.runtime.cork import Cork
    from ottla.runtime.file_slice import FileSlice
    from ottla.runtime.log_throttle import LogThrottle
    from ottla.runtime.timer import Timer


class ConnectionServices(Struct, kw_only=True, eq=False):
    """The limits and the counters, the ways to the system, and whom to tell of the end of a connection."""

    listener_name: str
    config: NetworkConfig
    loop: asyncio.AbstractEventLoop
    clock: Clock
    timer: Timer
    memory: RequestMemory
    metrics: NetworkMetrics
    throttle: LogThrottle
    on_closed: Callable[[Any], None]
    """Told of the `Connection` that has ended."""
    cork: Cork
    flow: FlowControl
    framing: Framing
    shed: Callable[[], None]
    """Closes those who do not read, when responses take more than `out_bytes_hard_max`."""
    sockets: Sockets
    """Watches their sockets, receives and sends many at a time where that can be."""
    together: Together | None
    """Serves requests of theirs as one, where the protocol has somebody who does."""
    wait_for_disk: Callable[[FileSlice, Callable[[OSError | None], None]], None]
    """Reads a slice into the page cache elsewhere, and calls back when that is done, or could not be."""
    on_found: Callable[[FileSlice], None]
    """Told of a slice that is in the page cache."""
