"""Where a broker's listeners come from, and the limits they share. Which there are is for `ListenerSet` to say."""

from collections.abc import Callable
from typing import Protocol

from ottla.network.address import Address
from ottla.network.config import NetworkConfig
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.listener import HandlerFactory, Listener
from ottla.network.request_memory import RequestMemory
from ottla.network.together import Together
from ottla.runtime.cork import Cork
from ottla.runtime.sampled_rate import Windows
from ottla.server.doors import Doors
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint


class KafkaListener(Protocol):
    """An address and its connections: a `Listener`, or in a simulation one without sockets."""

    name: str

    @property
    def address(self) -> Address:
        """Where it listens, once it is bound."""
        ...

    async def bind(self) -> None:
        """Take the address; raises ListenError."""
        ...

    async def start(self) -> None:
        """Let clients in."""
        ...

    async def close(self, drain_ms: int = 0) -> None:
        """Let nobody in any more, and end the connections; also when it was never started."""
        ...


class Listeners(Protocol):
    """What the server needs of its network."""

    quotas: ConnectionQuotas
    """How many connections there may be, over all listeners."""
    connections_max: int
    """As many as the limit on open files leaves room for, whatever the settings allow."""

    def listener(self, endpoint: Endpoint, factory: HandlerFactory, together: Together) -> KafkaListener:
        """A listener for an endpoint that gives each connection a handler, and has requests served as one by `together`
        where it can; it is not bound yet.
        """
        ...


class SocketListeners:
    """Listeners on sockets of this host; they share the limit on connections and the memory for requests."""

    def __init__(
        self,
        settings: BrokerSettings,
        doors: Doors,
        cork: Cork,
        connections_max: int,
        *,
        make: Callable[..., Listener] = Listener,
    ) -> None:
        """`cork` is told of each run of requests. `make` is `Listener`, or has it know of other sockets."""
        self._config = config = NetworkConfig.from_settings(settings, connections_max)
        self._doors = doors
        self._cork = cork
        self._make = make
        self._memory = RequestMemory(
            config.queued_max_request_bytes,
            stalled_ms=config.stalled_request_ms,
            clock=doors.clock,
            timer=doors.timer,
            call_soon=doors.loop.call_soon,
        )
        self.connections_max = connections_max
        windows = Windows(settings.integer("quota.window.num"), settings.integer("quota.window.size.seconds") * 1_000)
        self.quotas = ConnectionQuotas(config.max_connections, config.max_connections_per_ip, windows=windows)

    def listener(self, endpoint: Endpoint, factory: HandlerFactory, together: Together) -> Listener:
        """A listener for an endpoint; it has taken no address yet."""
        return self._make(
            endpoint.host,
            endpoint.port,
            factory,
            config=self._config,
            clock=self._doors.clock,
            timer=self._doors.timer,
            name=endpoint.listener,
            cork=self._cork,
            quotas=self.quotas,
            memory=self._memory,
            together=together,
        )
