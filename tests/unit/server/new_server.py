"""A server as `ottla serve` wires it, over real files, with the doors of the test."""

from pathlib import Path

from ottla.metadata.store.embedded import EmbeddedStore
from ottla.metadata.store.interface import MetadataStore
from ottla.server.doors import Doors
from ottla.server.listeners import SocketListeners
from ottla.server.open_files import CONNECTIONS_MAX
from ottla.server.server import Server
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager


def new_server(settings: BrokerSettings, logs: LogManager, doors: Doors) -> Server:
    """Not started; `logs` have been loaded."""
    return server_on(EmbeddedStore(Path(logs.path)), settings, logs, doors)


def server_on(store: MetadataStore, settings: BrokerSettings, logs: LogManager, doors: Doors) -> Server:
    """The same over a store of the test's own."""
    listeners = SocketListeners(settings, doors, logs.cork, CONNECTIONS_MAX)
    return Server(settings, logs, doors, store, listeners)
