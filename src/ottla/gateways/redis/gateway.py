"""Redis clients at one broker: their connections, and the keys that they share."""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ottla.broker.access import ALLOW_ALL
from ottla.gateways.redis.command_statistics import CommandStatistics
from ottla.gateways.redis.command_table import command_table
from ottla.gateways.redis.config import RedisConfig
from ottla.gateways.redis.connection import KILLED, RedisConnection
from ottla.gateways.redis.fetched import Fetched
from ottla.gateways.redis.forwarding import Forwarding
from ottla.gateways.redis.keyspace import HeldError, Keyspace, TopicMissingError, UnwrittenError
from ottla.gateways.redis.logins import LoginMissingError, Logins
from ottla.gateways.redis.peer_commands import PeerCommands
from ottla.gateways.redis.remote_waits import RemoteWaits
from ottla.gateways.redis.session import Session
from ottla.gateways.redis.stream import NodeMissingError
from ottla.gateways.redis.stream_groups import StreamGroups
from ottla.gateways.redis.stream_log import are_lost
from ottla.gateways.redis.waiters import Waiters
from ottla.model.principal import Principal
from ottla.network.byte_budget import ByteBudget
from ottla.network.piece_reader import PieceReader
from ottla.network.wire_protocol import WireProtocol

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.network.config import NetworkConfig
    from ottla.network.connection import Connection
    from ottla.settings.broker_settings import BrokerSettings

logger = logging.getLogger(__name__)

NEVER_MS: Final = (1 << 31) - 1
PIECES_MAX: Final = 16
"""Pieces of input that a connection may have here while a command of it waits."""
RELOAD_POLL_MS: Final = 10
UNFINISHED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of commands that have not arrived to their end, or wait for another one of their client, of all connections;
beyond it the one with most is closed.
"""


def redis_protocol(broker: Broker, settings: BrokerSettings) -> WireProtocol:
    """What a listener for Redis clients speaks. A client may be silent for as long as it likes, as with Redis."""
    gateway = redis_gateway(broker, settings)
    return WireProtocol("Redis", gateway.connect, PieceReader, limits=_limits)


def redis_gateway(broker: Broker, settings: BrokerSettings) -> RedisGateway:
    """A gateway that answers other brokers too. Of each broker there is one."""
    gateway = RedisGateway(broker, RedisConfig.from_settings(settings), Logins(broker, settings))
    broker.redis_exchange.answer = gateway.peer_commands.answer
    broker.redis_exchange.stream_groups = gateway.groups
    return gateway


def _limits(config: NetworkConfig) -> NetworkConfig:
    return replace(config, connections_max_idle_ms=NEVER_MS, in_flight_requests_max=PIECES_MAX)


class RedisGateway:
    """Belongs to the event loop."""

    def __init__(self, broker: Broker, config: RedisConfig, logins: Logins) -> None:
        self.broker = broker
        self.config = config
        self.held_bytes = 0
        """What transactions of all clients hold."""
        self.unwritten_bytes = 0
        """Of the input of clients whose answers wait for the disk."""
        self.unfinished = ByteBudget(UNFINISHED_BYTES_MAX)
        self.table = command_table()
        self.logins = logins
        self.has_rules = broker.authorizer is not ALLOW_ALL
        """Whether it is said what clients may do; else everybody may do everything."""
        self.keyspace = Keyspace(broker, config)
        self.waiters = Waiters(broker.timer, self._serve_more)
        self._serves_more = False
        self.keyspace.on_change = self._changed
        self.keyspace.serve_waiters = self.serve_waiters
        self.keyspace.until_free = self.until_free
        self.forwarding = Forwarding(self)
        if self.keyspace.placement.has_peers:
            self.keyspace.topics.until_known = self.forwarding.until_known
        self.peer_commands = PeerCommands(self)
        self.remote_waits = RemoteWaits(self)
        self.groups = StreamGroups(self)
        self.started_ms = broker.clock.now_ms()
        self.is_ready = False
        """Whether the streams that there are have been found."""
        self.connections_total = self.commands_total = 0
        self.statistics = CommandStatistics()
        self._connections: dict[int, RedisConnection] = {}
        self._numbers = count(1)
        self._loading: asyncio.Task[None] | None = None
        self._free: asyncio.Event = asyncio.Event()

    def connect(self, connection: Connection) -> RedisConnection:
        """A new connection of a client."""
        self.connections_total += 1
        shown = connection.principal
        session = Session(
            self,
            next(self._numbers),
            str(connection.peer),
            str(connection.local),
            self.broker.clock.now_ms(),
            Principal(shown.type, shown.name, connection.peer.host),
        )
        made = self._connections[session.identity] = RedisConnection(self, connection, session)
        self._begin()
        return made

    def _begin(self) -> None:
        if self._loading is None:
            self._loading = self.broker.tasks.spawn(self._load(), "redis-load")

    def _changed(self, database: int, key: bytes) -> None:
        self.waiters.changed(database, key)
        self.peer_commands.changed((database, key))

    def close_largest_unfinished(self) -> None:
        """Too much is held of input: close who holds most, so that those who hold a little go on."""
        largest = max(self._connections.values(), key=lambda each: each.held_bytes)
        largest.connection.close("it holds most of too many bytes of unfinished commands")

    def forget(self, connection: RedisConnection) -> None:
        """A connection is gone."""
        self._connections.pop(connection.session.identity, None)

    @property
    def sessions(self) -> list[Session]:
        """The clients that are connected."""
        return [each.session for each in self._connections.values()]

    @property
    def blocked_count(self) -> int:
        """How many clients wait."""
        return self.waiters.count

    @property
    def blocking_keys(self) -> int:
        """For how many keys they wait."""
        return self.waiters.key_count

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        self.connections_total = self.commands_total = 0
        self.statistics.reset()

    def unblock(self, identity: int, *, with_error: bool) -> bool:
        """CLIENT UNBLOCK; returns whether the client waited."""
        connection = self._connections.get(identity)
        return connection is not None and connection.unblock(with_error=with_error)

    def kill(self, identity: int) -> None:
        """CLIENT KILL of another client."""
        connection = self._connections.get(identity)
        if connection is not None:
            connection.connection.close(KILLED)

    # --- what commands wait for -------------------------------------------------------------------------------------

    async def _load(self) -> None:
        await self.keyspace.load()
        self.keyspace.free_later()
        self.is_ready = True
        self._free.set()

    def hold(self) -> None:
        """A transaction is not over: no other command runs, and nothing is written."""
        self.keyspace.is_holding = True
        self._free.clear()

    def release(self) -> None:
        """The transaction is over."""
        self.keyspace.is_holding = False
        self.keyspace.flush()
        self._free.set()
        if self.waiters.is_behind:
            self._serve_more()

    async def until_free(self) -> None:
        """Wait until commands may run; they do as long as the caller does not wait for something else."""
        self._begin()
        while not self._free.is_set():
            await self._free.wait()

    async def fetch(self, missing: Exception, fetched: Fetched, session: Session) -> None:
        """Have what a command needs, beside what was fetched for it before. Raises ApiError, RedisError."""
        if isinstance(missing, NodeMissingError):
            fetched.add(*await missing.stream.log.load_nodes(missing.index, fetched.next_bytes))
        elif isinstance(missing, HeldError):
            await missing.work.until_over()
        elif isinstance(missing, UnwrittenError):
            await are_lost(missing.flushes)
        elif isinstance(missing, TopicMissingError):
            await self.keyspace.opening.open(missing.place, session.principal)
        elif isinstance(missing, LoginMissingError):
            connection = self._connections.get(missing.session.identity)
            await self.logins.check(missing, None if connection is None else connection.connection)
        else:
            await self.broker.timer.sleep(RELOAD_POLL_MS)

    def serve_waiters(self) -> None:
        """Let clients look again that wait for what has changed."""
        if not self.keyspace.is_holding:
            self.waiters.serve()

    def _serve_more(self) -> None:
        if not self._serves_more:
            self._serves_more = True
            asyncio.get_running_loop().call_soon(self._serve_rest)

    def _serve_rest(self) -> None:
        self._serves_more = False
        self.serve_waiters()
