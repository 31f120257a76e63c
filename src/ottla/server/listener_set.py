"""The listeners of a broker: those it starts with, and those that come and go while it runs.

`listeners` may be changed on a broker that runs, as in Kafka: a listener that is new is opened, one that is named no
more is closed when its clients have their answers, one with another address is opened there and then closed here.
Listeners of other gateways than Kafka's stay for as long as the broker runs.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from ottla.network.address import Address
from ottla.runtime.tasks import Tasks
from ottla.server.listeners import OpenListener
from ottla.settings.endpoint import Endpoint

logger = logging.getLogger(__name__)


class ListenerSet:
    """Belongs to the event loop."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        make: Callable[[Endpoint], OpenListener],
        tasks: Tasks,
        others: Iterable[OpenListener] = (),
    ) -> None:
        """`make` gives a listener that takes no address yet; those of one set share their limits. `others` are the
        listeners of other gateways, which take none yet either.
        """
        self._make = make
        self._tasks = tasks
        self._others = tuple(others)
        self._open = {endpoint: make(endpoint) for endpoint in endpoints}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_started = False
        self._is_closed = False

    @property
    def addresses(self) -> dict[str, Address]:
        """Where each of Kafka's listens, by its name."""
        return {listener.name: listener.address for listener in self._open.values()}

    @property
    def other_addresses(self) -> dict[str, Address]:
        """Where each of the others listens, by its name."""
        return {listener.name: listener.address for listener in self._others}

    async def bind(self) -> None:
        """Take the addresses; clients that come before `start` are refused. Raises ListenError."""
        for listener in self._all():
            await listener.bind()

    async def start(self) -> None:
        """Accept connections. Raises ListenError."""
        self._is_started = True
        for listener in self._all():
            await listener.start()

    async def change(self, endpoints: Iterable[Endpoint], drain_ms: int) -> None:
        """Open what is new and close what is gone, in the background. An address that cannot be had is said in the log.

        A name whose new address cannot be had keeps its old one.
        """
        wanted = {endpoint.listener: endpoint for endpoint in endpoints}
        kept: dict[Endpoint, OpenListener] = {}
        for endpoint in wanted.values():
            listener = self._open.get(endpoint) or await self._opened(endpoint)
            if listener is not None:
                kept[endpoint] = listener
        opened = {endpoint.listener for endpoint in kept}
        for endpoint, listener in self._open.items():
            if endpoint in kept:
                continue
            if endpoint.listener in wanted and endpoint.listener not in opened:
                kept[endpoint] = listener
            else:
                closing = self._tasks.spawn(listener.close(drain_ms), f"closing {endpoint}")
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        self._open = kept

    async def _opened(self, endpoint: Endpoint) -> OpenListener | None:
        listener = self._make(endpoint)
        try:
            await listener.bind()
            if self._is_started:
                await listener.start()
        except OSError as error:
            logger.error("could not open the listener %s: %s", endpoint, error)
            await listener.close(0)
            return None
        if self._is_closed:  # meanwhile
            await listener.close(0)
            return None
        return listener

    async def close(self, drain_ms: int) -> None:
        """Accept no more, and close all connections once they have their answers, at the latest after `drain_ms`.

        All are closed, whichever cannot be; raises the first error at the end.
        """
        self._is_closed = True
        closing = (listener.close(drain_ms) for listener in self._all())
        results = await asyncio.gather(*closing, *self._closing, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _all(self) -> tuple[OpenListener, ...]:
        return (*self._open.values(), *self._others)
