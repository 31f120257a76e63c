"""Listeners of a simulated broker: the broker's own, with simulated sockets."""

import asyncio
import socket
from functools import partial
from typing import Final, cast

from ottla.network.config import NetworkConfig
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.listener import HandlerFactory, Listener
from ottla.network.listening_socket import ListenError
from ottla.network.reactor import LoopSockets
from ottla.network.request_memory import RequestMemory
from ottla.network.together import Together
from ottla.network.transport import Transport
from ottla.runtime.cork import Cork
from ottla.server.doors import Doors
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint
from ottla.simulation.whole.network import Network

CONNECTIONS_MAX: Final = 1_000


class SimulatedListeners:
    """Satisfies `ottla.server.listeners.Listeners`."""

    def __init__(self, settings: BrokerSettings, doors: Doors, cork: Cork, network: Network) -> None:
        self._config = config = NetworkConfig.from_settings(settings, CONNECTIONS_MAX)
        self._doors = doors
        self._cork = cork
        self._network = network
        self._memory = RequestMemory(
            config.queued_max_request_bytes,
            stalled_ms=config.stalled_request_ms,
            clock=doors.clock,
            timer=doors.timer,
            call_soon=doors.loop.call_soon,
        )
        self.connections_max = CONNECTIONS_MAX
        self.quotas = ConnectionQuotas(config.max_connections, config.max_connections_per_ip)

    def listener(self, endpoint: Endpoint, factory: HandlerFactory, together: Together) -> Listener:
        """A listener for an endpoint; it has taken no address yet."""
        return Listener(
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
            transport=_accepted,
            bind_sockets=partial(_bind, self._network),
            sockets=_sockets,
        )


async def _bind(network: Network, host: str, port: int, _config: NetworkConfig) -> list[socket.socket]:
    try:
        return [cast("socket.socket", network.bind(host, port))]
    except OSError as error:
        raise ListenError(error.errno or 0, host, port, "another process of the host listens there") from error


def _accepted(accepted: socket.socket) -> Transport:
    return cast("Transport", accepted)


def _sockets(loop: asyncio.AbstractEventLoop) -> LoopSockets:
    return LoopSockets(loop)
