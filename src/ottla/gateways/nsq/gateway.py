"""NSQ clients at one broker: their connections, and what these ask of it."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from msgspec.structs import replace

from ottla.broker.access import ALLOW_ALL
from ottla.gateways.nsq.administration import NsqAdministration
from ottla.gateways.nsq.auth_server import AuthServers, parse_auth_server
from ottla.gateways.nsq.channel_reader import ChannelReader, ReaderCounts
from ottla.gateways.nsq.channels import NsqChannels
from ottla.gateways.nsq.connection import NsqConnection
from ottla.gateways.nsq.ephemeral import EphemeralChannels
from ottla.gateways.nsq.limits import NsqLimits
from ottla.gateways.nsq.lookup.client import LookupUnavailableError, channels_of
from ottla.gateways.nsq.lookupd_peer import LookupdPeer, Registrations, identity
from ottla.gateways.nsq.names import is_ephemeral
from ottla.gateways.nsq.paused import is_paused
from ottla.gateways.nsq.statistics import NsqStatistics
from ottla.gateways.nsq.statsd import StatsdPusher
from ottla.gateways.nsq.tls import NsqTls
from ottla.gateways.nsq.topics import NsqTopics
from ottla.metadata.image.image import TopicImage
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, USER, Principal, broker_principal
from ottla.network.byte_budget import ByteBudget
from ottla.network.config import NetworkConfig
from ottla.network.piece_reader import PieceReader
from ottla.network.wire_protocol import WireProtocol
from ottla.settings.definition import InvalidSettingError
from ottla.settings.endpoint import parse_host_port

logger = logging.getLogger(__name__)

NEVER_MS: Final = (1 << 31) - 1
UNFINISHED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of commands that have not arrived to their end, of all connections; beyond it the one with most is closed."""
NS_PER_MS: Final = 1_000_000
LOOK_MS: Final = 5_000
"""So often it is looked which channels and topics other brokers emptied or deleted, and whether keys have changed."""

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.network.connection import Connection


def nsq_protocol(gateway: "NsqGateway") -> WireProtocol:
    """What a listener for NSQ clients speaks. Heartbeats, not idleness, say that a client is gone."""
    return WireProtocol("NSQ", gateway.connect, PieceReader, limits=_without_idleness)


def _without_idleness(config: NetworkConfig) -> NetworkConfig:
    return replace(config, connections_max_idle_ms=NEVER_MS)


def nsq_auth_servers(limits: NsqLimits, choose: Callable[[int], int]) -> AuthServers | None:
    """Where it is asked what clients may do, None where they need no AUTH. Raises InvalidSettingError."""
    if not limits.auth_servers:
        return None
    try:
        servers = [parse_auth_server(each) for each in limits.auth_servers]
    except InvalidSettingError as error:
        raise InvalidSettingError(f"nsq.auth.http.addresses: {error.message}") from error
    try:
        return AuthServers(servers, limits.tls_root_ca, choose)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidSettingError(f"nsq.tls.root.ca.file: not usable: {error}") from error


class NsqGateway:
    """Belongs to the event loop."""

    def __init__(self, broker: "Broker", limits: NsqLimits) -> None:
        self.broker = broker
        self.limits = limits
        self.topics = NsqTopics(broker, limits, self._make_known_channels)
        self.channels = NsqChannels(broker)
        self._tls = NsqTls(limits)
        self.auth_servers = nsq_auth_servers(limits, broker.rng.randbelow)
        """None where clients need no AUTH."""
        self.unfinished = ByteBudget(UNFINISHED_BYTES_MAX)
        self.connections: set[NsqConnection] = set()
        """Those that are open."""
        self.administration = NsqAdministration(
            broker, self.topics, self.channels, lambda: [each for each in self.connections if each.reader is not None]
        )
        self.statistics = NsqStatistics(self)
        self._ephemeral = EphemeralChannels(self)
        broker.share_readers.readers_here = self.readers_here
        self._gone_counts: dict[tuple[str, str], ReaderCounts] = {}
        self._numbers = count(1)
        self.tcp_port = 0
        self.http_port = 0
        self.https_port = 0
        """Where it is served; 0 for HTTP, without TLS and with it, where it is not."""
        self.lookupd_addresses: tuple[str, ...] = ()
        """Where it registers."""
        self._lookupds: dict[str, tuple[LookupdPeer, asyncio.Task[None]]] = {}

    def start(self, tcp_port: int, http_port: int, https_port: int) -> None:
        """Clients are let in, at these ports."""
        self.tcp_port, self.http_port, self.https_port = tcp_port, http_port, https_port
        self.set_lookupd_addresses(self.limits.lookupd_addresses)
        self.broker.tasks.spawn(self._look_again(), "nsq-look")
        self.broker.tasks.spawn(self._ephemeral.run(), "nsq-ephemeral")
        statsd = self.limits.statsd
        if statsd.address:
            told = self._identity()
            prefix = statsd.prefix_at(told["broadcast_address"], told["http_port"])
            pusher = StatsdPusher(statsd, prefix, self._collect_for_statsd, self.broker.timer)
            self.broker.tasks.spawn(pusher.run(), "nsq-statsd")

    @property
    def tls_context(self) -> ssl.SSLContext | None:
        """What the next handshake is made by; None where TLS is not offered."""
        return self._tls.context

    async def _look_again(self) -> None:
        """Leaders are not told what another broker was asked to delete or empty, and idle clients would not notice."""
        while True:
            await self.broker.timer.sleep(LOOK_MS)
            if self._tls.context is not None:
                await self.broker.tasks.in_thread(self._tls.look_at_files)
            looked: set[tuple[UUID, str]] = set()
            for connection in tuple(self.connections):
                reader = connection.reader
                if reader is None:
                    continue
                channel = reader.topic_id, reader.channel
                if self.broker.image.topic_by_id(reader.topic_id) is None:
                    connection.connection.close("the topic was deleted")
                elif channel not in looked:
                    looked.add(channel)
                    reader.look_again()

    async def _collect_for_statsd(self) -> tuple[list[dict[str, Any]], frozenset[str]]:
        own = broker_principal(self.broker.config.node_id)
        topics = await self.statistics.topics(with_clients=False, principal=own)
        return topics, frozenset(name for name, _ in self.administration.topics(own))

    def set_lookupd_addresses(self, addresses: Sequence[str]) -> None:
        """Register at these lookup services, and no longer at others. Raises InvalidSettingError."""
        for each in addresses:
            parse_host_port(each)
        self.lookupd_addresses = tuple(addresses)
        for address in self._lookupds.keys() - set(addresses):
            self._lookupds.pop(address)[1].cancel()
        for address in addresses:
            if address not in self._lookupds:
                broker = self.broker
                peer = LookupdPeer(address, self._identity, self._registrations, broker.clock, broker.timer)
                self._lookupds[address] = peer, self.broker.tasks.spawn(peer.run(), "nsq-lookupd")

    @property
    def known_to(self) -> Principal:
        """By whose rights topics are told of where clients look them up: where they may be others than ANONYMOUS, all
        are.
        """
        return ANONYMOUS if self.auth_servers is None else broker_principal(self.broker.config.node_id)

    def _identity(self) -> dict[str, Any]:
        return identity(self.limits.broadcast_address, self.tcp_port, self.http_port)

    async def _registrations(self) -> Registrations:
        """The topics of which this broker has a replica in sync, and their channels: what lookup services are told."""
        own_id = self.broker.config.node_id
        served: set[tuple[str, str]] = set()
        for name, topic in self.administration.topics(self.known_to):
            if any(own_id in (partition.leader, *partition.isr) for partition in topic.partitions):
                served.add((name, ""))
                with contextlib.suppress(ApiError):  # the groups are being loaded: their channels come later
                    served.update((name, channel) for channel in await self.channels.coordinated_here(topic))
        subscribed = {each.subscription for each in self.connections if each.subscription is not None}
        served.update(each for each in subscribed if (each[0], "") in served)
        return frozenset(served)

    async def _make_known_channels(self, name: str, topic: TopicImage) -> None:
        """Make the channels that other servers have of a topic that is new here: they get its first message too."""
        addresses = {peer.http_address for peer, _ in self._lookupds.values()} - {None}
        channels: set[str] = set()
        for address in addresses:
            assert address is not None
            try:
                channels.update(await channels_of(*address, name))
            except LookupUnavailableError as error:
                logger.warning("lookup service %s:%d does not say which channels %s has: %s", *address, name, error)
        for channel in sorted(channels):
            try:
                await self.channels.ensure(ANONYMOUS, topic, channel)
            except ApiError as error:
                logger.warning("channel %s of topic %s could not be made: %s", channel, name, error.message)
        self.changed()

    def changed(self) -> None:
        """A topic or channel is new, or gone."""
        for peer, _ in self._lookupds.values():
            peer.changed()

    def options(self) -> dict[str, object]:
        """What nsqd's flags would be, by the names that its HTTP API has for them."""
        limits = self.limits
        return {
            "broadcast_address": limits.broadcast_address,
            "max_body_size": limits.body_bytes_max,
            "max_msg_size": limits.message_bytes_max,
            "max_rdy_count": limits.ready_count_max,
            "msg_timeout": limits.message_timeout_ms * NS_PER_MS,
            "max_msg_timeout": limits.message_timeout_max_ms * NS_PER_MS,
            "max_req_timeout": limits.requeue_delay_max_ms * NS_PER_MS,
            "max_heartbeat_interval": limits.heartbeat_interval_max_ms * NS_PER_MS,
            "max_output_buffer_size": limits.output_buffer_bytes_max,
            "max_output_buffer_timeout": limits.output_buffer_timeout_max_ms * NS_PER_MS,
            "max_deflate_level": limits.deflate_level_max,
            "nsqlookupd_tcp_addresses": list(self.lookupd_addresses),
        }

    def connect(self, connection: "Connection") -> NsqConnection:
        """A new connection of a client."""
        made = NsqConnection(self, connection)
        self.connections.add(made)
        return made

    def close_largest_unfinished(self) -> None:
        """Too much is held of unfinished commands: close who holds most, so that those who hold a little go on."""
        largest = max(self.connections, key=lambda each: each.unfinished_bytes)
        largest.connection.close("it holds most of too many bytes of unfinished commands")

    def forget(self, connection: NsqConnection) -> None:
        """A connection is gone. An ephemeral channel goes with its last client, and a topic with its last channel."""
        self.connections.discard(connection)
        reader, subscription = connection.reader, connection.subscription
        if reader is None or subscription is None:
            return
        gone = self._gone_counts.setdefault(subscription, ReaderCounts())
        gone.requeue_count += reader.counts.requeue_count
        gone.timeout_count += reader.counts.timeout_count
        if is_ephemeral(subscription[1]) and all(each.subscription != subscription for each in self.connections):
            self.broker.tasks.spawn(self._ephemeral.left(*subscription), "nsq-ephemeral")

    def readers_here(self, channel: str, topic_id: UUID) -> int:
        readers = (each.reader for each in self.connections if each.reader is not None)
        return sum(1 for each in readers if each.channel == channel and each.topic_id == topic_id)

    def counts_of(self, topic: str, channel: str, clients: Sequence[NsqConnection]) -> ReaderCounts:
        """What has happened to messages of a channel while clients of this broker had them: those that are gone, and
        these, as far as they are not.
        """
        total = replace(self._gone_counts.get((topic, channel), ReaderCounts()))
        for connection in clients:
            if connection.reader is not None and connection in self.connections:
                total.requeue_count += connection.reader.counts.requeue_count
                total.timeout_count += connection.reader.counts.timeout_count
        return total

    def principal(self, name: str, connection: "Connection") -> Principal:
        """Who a client is that goes by a name."""
        keeps_hosts = self.broker.authorizer is not ALLOW_ALL
        return Principal(USER, name, connection.peer.host if keeps_hosts else "")

    async def append(self, principal: Principal, topic: str, bodies: list[bytes], delay_ms: int = 0) -> None:
        """Append messages to a topic, to be delivered after a time. Raises ApiError."""
        await self.topics.publish(principal, topic, bodies, delay_ms)

    async def subscribe(self, connection: NsqConnection, topic: str, channel: str) -> ChannelReader:
        """A reader of a channel, which is made if need be. Raises ApiError."""
        principal = connection.principal
        found = await self.topics.ensure(principal, topic)
        places = await self.channels.ensure(principal, found, channel)
        self.changed()
        broker, options = self.broker, connection.options
        return ChannelReader(
            f"nsq-{next(self._numbers)}",
            channel,
            places,
            broker.share_fetches.partitions,
            principal,
            message_timeout_ms=options.message_timeout_ms,
            message_timeout_max_ms=self.limits.message_timeout_max_ms,
            send=connection.push_messages,
            may_send=lambda: connection.may_push,
            is_paused=lambda: is_paused(broker.image, found.name, channel),
            clock=broker.clock,
            on_failed=connection.push_error,
            elsewhere=broker.remote_shares,
            samples=None if not options.sample_rate else lambda: broker.rng.randbelow(100) <= options.sample_rate,
        )
