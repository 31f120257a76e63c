"""A server as `ottla serve` wires it, over real files, with the gateways of the test."""

from collections.abc import Sequence
from pathlib import Path

from ottla.broker.access import Authorizer
from ottla.metadata.store.embedded import EmbeddedStore
from ottla.metadata.store.interface import MetadataStore
from ottla.runtime.environment import Environment
from ottla.server.listeners import GatewayAt, SocketListeners
from ottla.server.open_files import CONNECTIONS_MAX
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager


def new_server(
    settings: BrokerSettings, logs: LogManager, environment: Environment, gateways: Sequence[GatewayAt] = ()
) -> Server:
    """Not started; `logs` have been loaded."""
    return server_on(EmbeddedStore(Path(logs.path)), settings, logs, environment, gateways=gateways)


def server_on(
    store: MetadataStore,
    settings: BrokerSettings,
    logs: LogManager,
    environment: Environment,
    authorizer: Authorizer | None = None,
    gateways: Sequence[GatewayAt] = (),
) -> Server:
    """The same over a store of the test's own."""
    listeners = SocketListeners(settings, environment, logs.cork, CONNECTIONS_MAX)
    return Server(settings, logs, environment, store, listeners, authorizer=authorizer, gateways=gateways)
