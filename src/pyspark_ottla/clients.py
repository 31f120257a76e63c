"""One client per cluster and process, kept from task to task.

Spark reuses its Python workers and makes a new reader or writer object in each task, so what should live longer than a
task, an open connection, lives in the module.
"""

import os
import threading

from ottla.client.blocking import BlockingClient
from pyspark_ottla.connection import Connection


class _Cache(threading.local):
    """The clients of one thread, as a client serves one thread at a time."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.clients: dict[Connection, BlockingClient] = {}


_cache = _Cache()


def client_for(connection: Connection) -> BlockingClient:
    """The client of this thread for that cluster, made on first use. Never closed: it ends with the worker process."""
    if _cache.process != os.getpid():
        # After a fork the sockets are shared with the parent: leave them to it.
        _cache.process, _cache.clients = os.getpid(), {}
    client = _cache.clients.get(connection)
    if client is None:
        client = _cache.clients[connection] = BlockingClient(connection.bootstrap, **dict(connection.settings))
    return client
