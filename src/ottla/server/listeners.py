"""Where a broker's listeners come from, and the limits they share. Which there are is for `ListenerSet` to say."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ottla.network.address import Address
from ottla.network.config import NetworkConfig
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.listener import Listener
from ottla.network.request_memory import RequestMemory
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.cork import Cork
from ottla.runtime.environment import Environment
from ottla.runtime.sampled_rate import Windows
from ottla.server.listener_tls import BrokerTls
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class OpenListener(Protocol):
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
    tls: BrokerTls
    """How those that speak TLS do."""
    connections_max: int
    """As many as the limit on open files leaves room for, whatever the settings allow."""

    def listener(self, endpoint: Endpoint, protocol: WireProtocol) -> OpenListener:
        """A listener for an endpoint at which a protocol is spoken; it is not bound yet."""
        ...


class GatewayAt(Struct, frozen=True):
    """A gateway beside Kafka's, and where it listens."""

    endpoint: Endpoint
    protocol: "Callable[[Broker], WireProtocol]"
    """Makes what is spoken there, over the services of a broker."""
    on_started: Callable[[Mapping[str, Address]], None] = lambda addresses: None
    """Called once the listeners of all these gateways let clients in, with where each listens, by its name."""


class SocketListeners:
    """Listeners on sockets of this host; they share the limit on connections and the memory for requests."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        cork: Cork,
        connections_max: int,
        *,
        make: Callable[..., Listener] = Listener,
    ) -> None:
        """`cork` is told of each run of requests. `make` is `Listener`, or has it know of other sockets."""
        self._config = config = NetworkConfig.from_settings(settings, connections_max)
        self._environment = environment
        self._cork = cork
        self._make = make
        self._memory = RequestMemory(
            config.queued_max_request_bytes,
            stalled_ms=config.stalled_request_ms,
            clock=environment.clock,
            timer=environment.timer,
            call_soon=environment.defer,
        )
        self.tls = BrokerTls(settings, environment)
        self.connections_max = connections_max
        windows = Windows(settings.integer("quota.window.num"), settings.integer("quota.window.size.seconds") * 1_000)
        self.quotas = ConnectionQuotas(config.max_connections, config.max_connections_per_ip, windows=windows)

    def listener(self, endpoint: Endpoint, protocol: WireProtocol) -> Listener:
        """A listener for an endpoint; it has taken no address yet."""
        return self._make(
            endpoint.host,
            endpoint.port,
            protocol,
            config=self._config,
            clock=self._environment.clock,
            timer=self._environment.timer,
            name=endpoint.listener,
            cork=self._cork,
            quotas=self.quotas,
            memory=self._memory,
            tls=self.tls.acceptor(endpoint.listener),
        )
