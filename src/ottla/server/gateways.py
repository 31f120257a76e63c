"""The gateways stage of a broker: the protocols it speaks, the listeners they are spoken at, and their limits."""

import socket
from collections.abc import Iterable
from typing import Final

from ottla.gateways.kafka.apis import APIS
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.gateway import TELEMETRY, KafkaConnection
from ottla.gateways.kafka.request_batcher import RequestBatcher
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.model.principal import ANONYMOUS, broker_principal
from ottla.network.address import Address
from ottla.network.config import NetworkConfig
from ottla.network.connection import Connection
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.network.length_prefix import LengthPrefixReader
from ottla.network.listener import Listener
from ottla.network.wire_protocol import WireProtocol
from ottla.runtime.environment import Environment
from ottla.server.client_quota_keeper import ClientQuotaKeeper
from ottla.server.cluster import Cluster
from ottla.server.dynamic_broker_config import DynamicBrokerConfig
from ottla.server.listener_set import ListenerSet
from ottla.server.listeners import GatewayAt, Listeners
from ottla.server.security import Security
from ottla.server.services import Services
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager

FETCH_SESSION_EVICTION_MS = 120_000
"""A fetch session not used for so long makes room for another when there is none (Kafka's value)."""

OWN_CONNECTIONS_MAX: Final = 100_000
"""Connections of this broker to itself: some for each partition of delay topics that it leads."""


class Gateways:
    """Belongs to the event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
        logs: LogManager,
        cluster: Cluster,
        services: Services,
        listeners: Listeners,
        others: Iterable[GatewayAt] = (),
        *,
        security: Security,
    ) -> None:
        """`others` are the gateways beside Kafka's."""
        sessions = FetchSessionCache(
            environment.clock,
            environment.rng,
            slots_max=settings.integer("max.incremental.fetch.session.cache.slots"),
            eviction_ms=FETCH_SESSION_EVICTION_MS,
        )
        has_telemetry = settings.boolean("telemetry.receiver.enable")
        self.kafka = cluster.gateway(services.broker, APIS if has_telemetry else APIS.without(TELEMETRY), sessions)
        together = RequestBatcher(
            self.kafka,
            settings.integer("socket.request.max.bytes"),
            writes_here=None if settings.boolean("log.flush.before.ack") else logs.writes_here,
        )
        self._settings = settings
        self._environment = environment
        self._own: Listener | None = None
        self._protocol = kafka = WireProtocol("Kafka", self.connect, LengthPrefixReader, together)
        self._others = tuple(others)
        self.listeners = ListenerSet(
            settings.listeners.opened,
            lambda endpoint: listeners.listener(endpoint, kafka),
            environment.tasks,
            [listeners.listener(each.endpoint, each.protocol(services.broker)) for each in self._others],
        )
        self.quotas = listeners.quotas
        self.tls = listeners.tls
        self.dynamic_config = DynamicBrokerConfig(
            services.broker.configs,
            self.listeners,
            listeners.quotas,
            listeners.tls,
            logs.cleaner,
            logs.moves,
            services.gate,
            listeners.connections_max,
            [cluster.configure, security.configure],
        )
        self.client_quotas = ClientQuotaKeeper(services.broker.request_quotas, self.kafka, listeners.quotas)

    def connect(self, connection: Connection) -> KafkaConnection:
        """What handles a new connection of a Kafka client."""
        made = self.kafka.connect(connection)
        if connection.principal is not ANONYMOUS:
            made.is_shown(connection.principal)
        return made

    async def connect_here(self, local: Address) -> socket.socket:
        """A connection of this broker to itself, as if to its address `local`: its client's end. It has nothing to
        prove, and may do everything.
        """
        if self._own is None:
            self._own = own = Listener(
                local.host,
                local.port,
                self._protocol,
                config=NetworkConfig.from_settings(self._settings, OWN_CONNECTIONS_MAX),
                clock=self._environment.clock,
                timer=self._environment.timer,
                name=self._settings.listeners.between_brokers,
                quotas=ConnectionQuotas(OWN_CONNECTIONS_MAX, OWN_CONNECTIONS_MAX),
                bind_sockets=_no_sockets,
            )
            await own.start()
        ours, clients = socket.socketpair()
        try:
            self._own.adopt(ours, local, broker_principal(self._settings.node_id))
        except OSError:
            ours.close()
            clients.close()
            raise
        clients.setblocking(False)
        return clients

    async def close_own(self) -> None:
        """End the connections of this broker to itself."""
        if self._own is not None:
            await self._own.close()

    def started(self) -> None:
        """The listeners let clients in."""
        for each in self._others:
            each.on_started(self.listeners.other_addresses)

    async def apply(self, image: MetadataImage) -> None:
        """Have what the cluster agreed on hold, before the listeners let clients in."""
        await self.dynamic_config.apply(image)
        self.client_quotas.apply(image)
        self._set_telemetry_advertised(image)

    def follow(self, publisher: MetadataPublisher) -> None:
        """Act on each image from the next on."""
        publisher.subscribe(self.dynamic_config.on_image)
        publisher.subscribe(self.client_quotas.on_image)
        publisher.subscribe(self._on_subscriptions)

    def _on_subscriptions(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if any(resource.type == ConfigResourceType.CLIENT_METRICS for resource in delta.changed_configs):
            self._set_telemetry_advertised(image)

    def _set_telemetry_advertised(self, image: MetadataImage) -> None:
        """Clients are told that they may push metrics while any are asked for, if they are received at all."""
        self.kafka.set_telemetry_advertised(
            any(resource.type == ConfigResourceType.CLIENT_METRICS for resource in image.configs)
        )


async def _no_sockets(host: str, port: int, config: NetworkConfig) -> list[socket.socket]:
    """Nobody else can come."""
    del host, port, config
    return []
