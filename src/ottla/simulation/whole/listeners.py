"""Listeners of a simulated broker: the broker's own, with simulated sockets."""

import socket
from functools import partial
from typing import Final, cast

from ottla.network.config import NetworkConfig
from ottla.network.listener import Listener
from ottla.network.listening_socket import ListenError
from ottla.network.sockets import LoopSockets
from ottla.network.transport import Transport
from ottla.runtime.cork import Cork
from ottla.runtime.environment import Environment
from ottla.server.listeners import SocketListeners
from ottla.settings.broker_settings import BrokerSettings
from ottla.simulation.whole.network import Network

CONNECTIONS_MAX: Final = 1_000


def simulated_listeners(
    settings: BrokerSettings, environment: Environment, cork: Cork, network: Network
) -> SocketListeners:
    """Take addresses of a simulated network, and leave the sockets to the loop."""
    make = partial(Listener, transport=_accepted, bind_sockets=partial(_bind, network), sockets=LoopSockets)
    return SocketListeners(settings, environment, cork, CONNECTIONS_MAX, make=make)


async def _bind(network: Network, host: str, port: int, _config: NetworkConfig) -> list[socket.socket]:
    try:
        return [cast("socket.socket", network.bind(host, port))]
    except OSError as error:
        raise ListenError(error.errno or 0, host, port, "another process of the host listens there") from error


def _accepted(accepted: socket.socket) -> Transport:
    return cast("Transport", accepted)
