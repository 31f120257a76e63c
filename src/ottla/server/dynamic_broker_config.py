"""Applies what is set on brokers while they run to the parts that run (KIP-226).

Defaults of topics reach the logs through the `PartitionManager`; here are the settings of the broker itself. The
precedence is Kafka's: this broker's own, then those of all brokers, then those it was started with, then the defaults.
"""

import logging
from collections.abc import Callable, Iterable

from ottla.broker.configs import ConfigService
from ottla.broker.transaction_gate import GateConfig, TransactionGate
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.network.config import NetworkConfig
from ottla.network.connection_quotas import ConnectionQuotas
from ottla.server.listener_set import ListenerSet
from ottla.server.listener_tls import BrokerTls
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.compaction.log_cleaner import CleanerConfig, LogCleaner
from ottla.storage.log_moves import LogMoves

logger = logging.getLogger(__name__)

DRAIN_MS = 2_000
"""How long a listener that is closed waits for answered requests to leave."""


class DynamicBrokerConfig:
    """A subscriber of the metadata. Belongs to the event loop."""

    def __init__(
        self,
        configs: ConfigService,
        listeners: ListenerSet,
        quotas: ConnectionQuotas,
        tls: BrokerTls,
        cleaner: LogCleaner,
        moves: LogMoves,
        gate: TransactionGate,
        connections_max: int,
        configure_others: Iterable[Callable[[BrokerSettings], None]],
    ) -> None:
        """`connections_max` is how many connections the limit on open files leaves room for."""
        self._configs = configs
        self._listeners = listeners
        self._quotas = quotas
        self._tls = tls
        self._cleaner = cleaner
        self._moves = moves
        self._gate = gate
        self._connections_max = connections_max
        self._configure_others = tuple(configure_others)

    async def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        if any(resource.type == ConfigResourceType.BROKER for resource in delta.changed_configs):
            await self.apply(image)

    async def apply(self, image: MetadataImage) -> None:
        """Have what is set hold: also for the start, before the listeners open."""
        settings = self._configs.broker_settings(image)
        for warning in settings.warnings:
            logger.warning("%s", warning)
        self._cleaner.configure(CleanerConfig.from_settings(settings))
        self._moves.configure(max(1, settings.integer("replica.alter.log.dirs.io.max.bytes.per.second")))
        self._gate.config = GateConfig.from_settings(settings)
        for configure in self._configure_others:
            configure(settings)
        config = NetworkConfig.from_settings(settings, self._connections_max)
        self._quotas.creation_rate_max = settings.integer("max.connection.creation.rate")
        self._quotas.max_connections = config.max_connections
        self._quotas.max_connections_per_ip = config.max_connections_per_ip
        self._quotas.per_ip_overrides = config.max_connections_per_ip_overrides
        await self._tls.configure(settings)
        await self._listeners.change(settings.listeners.opened, DRAIN_MS)
