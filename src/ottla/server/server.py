"""One broker process, wired in stages: the only place that knows all the parts.

storage      the loaded logs, and what waits for them
metadata     the store, and the image read from it
cluster      alone or one of several: who decides, who copies; the partitions
services     coordinators, and everything a gateway calls
gateways     protocols and listeners
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.access import Authorizer
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.offsets import OffsetService
from ottla.gateways.kafka.apis import APIS
from ottla.metadata.store.interface import MetadataStore
from ottla.network.address import Address
from ottla.replication.batch_decompressor import THREADS_MAX as OPENER_THREADS_MAX
from ottla.replication.batch_decompressor import BatchDecompressor
from ottla.replication.leaderships import Leaderships
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.environment import Environment
from ottla.runtime.free_memory import FreeMemory, system_trim
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.tasks import Tasks
from ottla.server.cluster import Cluster, LoneCluster
from ottla.server.disk_watch import DiskWatches
from ottla.server.dynamic_broker_config import DRAIN_MS
from ottla.server.gateways import Gateways
from ottla.server.housekeeping import Housekeeping
from ottla.server.listeners import GatewayAt, Listeners
from ottla.server.memory_return import MemoryReturn
from ottla.server.metadata import Metadata
from ottla.server.module_preloader import ModulePreloader
from ottla.server.partition_manager import PartitionManager
from ottla.server.registration import registration_of
from ottla.server.security import Security
from ottla.server.services import Services
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.server.own_client_io import OwnClientIo

logger = logging.getLogger(__name__)

FETCH_WATCHES_MAX = 250_000
"""Partitions that all fetches which wait for records watch together; a fetch beyond is answered with what there is."""


def _nobody_asked() -> None:
    """For brokers whose owner does not care whether they are alone."""


class Server:
    """A broker that can be started once and stopped once. Belongs to one event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        logs: LogManager,
        environment: Environment,
        store: MetadataStore,
        listeners: Listeners,
        *,
        is_shared: bool = False,
        host_name: str | None = None,
        on_peers: Callable[[], object] = _nobody_asked,
        authorizer: Authorizer | None = None,
        gateways: Iterable[GatewayAt] = (),
    ) -> None:
        """`logs` have been loaded; `store` is not open yet. `ottla serve` makes the real ones, a simulation others.

        `is_shared` says that there may be other brokers on the store; `host_name` is what brokers of other hosts call
        this one, None when there are none. `on_peers` is called when a broker that is alone with its store hears of
        another one on it. `authorizer` says who may do what; without one it is what the settings
        name, and where they name none everybody may do everything. `gateways` are
        those beside Kafka's.
        """
        self._settings = settings
        self._environment = environment
        self._security = security = Security(settings, environment, authorizer)
        authorizer = security.authorizer
        self._host_name = host_name
        config = BrokerConfig.from_settings(settings)

        self._logs = logs
        self._opener = BatchDecompressor(Tasks("ottla-open", threads_max=OPENER_THREADS_MAX))
        self._fetch_purgatory = Purgatory(environment.timer, FETCH_WATCHES_MAX)
        self._housekeeping = Housekeeping(settings, logs, environment.timer, environment.tasks)

        self.metadata = Metadata(environment, store)
        current_image = self.metadata.current_image
        self.replicas = ReplicaManager(current_image)
        offsets = OffsetService(self.replicas, environment.clock, environment.timer, authorizer)
        view = ClusterView(config, current_image, authorizer, self.metadata.probe)

        self.cluster: Cluster
        if is_shared:
            from ottla.server.peer_cluster import PeerCluster  # 78 modules that a broker alone never reads

            self.cluster = PeerCluster(
                settings,
                environment,
                self.metadata,
                logs,
                self.replicas,
                fetch_purgatory=self._fetch_purgatory,
                opener=self._opener,
                offsets=offsets,
                view=view,
                tls=listeners.tls.between_brokers,
            )
        else:
            self.cluster = LoneCluster(settings, environment, self.metadata, logs, self.replicas, on_peers)
        configs = ConfigService(self.cluster.deciding.controller, settings, authorizer)
        configs.check_settings = listeners.tls.check
        leaderships = Leaderships()
        self._partitions = PartitionManager(
            settings=settings,
            configs=configs,
            logs=logs,
            replicas=self.replicas,
            leaderships=leaderships,
            fetch_purgatory=self._fetch_purgatory,
            environment=environment,
            opener=self._opener,
            places=self.cluster.places,
            roles=self.cluster.roles,
        )
        self._disk_watches = DiskWatches(environment, logs, self._partitions, self.cluster.disks_changed)

        self.services = Services(
            settings,
            environment,
            self.metadata,
            logs,
            self.replicas,
            self.cluster,
            fetch_purgatory=self._fetch_purgatory,
            leaderships=leaderships,
            configs=configs,
            offsets=offsets,
            view=view,
            config=config,
            authorizer=authorizer,
            own_client=self._own_client,
        )
        tokens = self.services.broker.delegation_tokens
        if tokens.is_enabled:
            interval_ms = settings.integer("delegation.token.expiry.check.interval.ms")
            self._housekeeping.add("remove delegation tokens that are over", interval_ms, tokens.remove_expired)

        self.gateways = Gateways(
            settings, environment, logs, self.cluster, self.services, listeners, gateways, security=security
        )
        security.attach(self.gateways.kafka, current_image)
        self._module_preloader = ModulePreloader(APIS, environment.timer, environment.tasks, is_shared=is_shared)
        quotas = self.gateways.quotas
        self._memory_return = MemoryReturn(environment.timer, lambda: quotas.open_count, FreeMemory(system_trim))

    def _own_client(self) -> "OwnClientIo":
        from ottla.server.own_client_io import OwnClientIo  # the client, which most brokers never need

        return OwnClientIo(
            self._settings.node_id,
            self._settings.listeners.between_brokers,
            self.metadata.current_image,
            self.gateways.connect_here,
            self.cluster,
            self._environment,
        )

    @property
    def address(self) -> Address:
        """Where the first Kafka listener listens."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> dict[str, Address]:
        """Where each Kafka listener listens, by its name."""
        return self.gateways.listeners.addresses

    @property
    def other_addresses(self) -> dict[str, Address]:
        """Where each listener of the other gateways listens, by its name."""
        return self.gateways.listeners.other_addresses

    @property
    def has_peers(self) -> bool:
        """Whether the metadata has other brokers, whether or not they run now."""
        return any(broker_id != self._settings.node_id for broker_id in self.metadata.current_image().brokers)

    @property
    def is_active(self) -> bool:
        """Whether the cluster counts on this broker: the controller hears it, and gives it partitions."""
        known = self.metadata.current_image().brokers.get(self._settings.node_id)
        return known is not None and known.is_active

    async def start(self) -> None:
        """Take the addresses, read the metadata, serve the partitions, let clients in.

        Raises InvalidSettingError, ListenError, StoreError and OSError, each with a line for the person who started the
        broker.
        """
        settings, logs, publisher = self._settings, self._logs, self.metadata.publisher
        lifecycle = self.cluster.deciding.lifecycle
        await self.gateways.tls.start()
        await self.gateways.listeners.bind()
        logs.attach(asyncio.get_running_loop())
        self._disk_watches.start()
        cluster_id = await lifecycle.open()
        logs.require_owner(cluster_id, settings.node_id)
        await self.cluster.identify(cluster_id)
        await self._security.learn(lifecycle.cluster_secret)
        registration = registration_of(
            settings, self.addresses, logs, self._environment.rng, self._host_name, self.other_addresses
        )
        lifecycle.on_registered.append(lambda session: logs.used_by(session.broker_epoch))
        image = await lifecycle.start(settings.node_id, registration)
        # A number that is refused is not kept.
        is_known = await logs.identify(cluster_id, settings.node_id)
        await self.gateways.apply(image)
        self.cluster.join(image)
        self.services.coordinators.load(image)
        await self._partitions.load(image, is_known=is_known)
        self._partitions.resume_moves()
        self._security.apply(image)
        publisher.subscribe(self._security.on_image)
        self.gateways.follow(publisher)
        publisher.subscribe(self.services.coordinators.on_image)
        publisher.subscribe(self._partitions.on_image)
        publisher.subscribe(self.services.delay_topics.on_image)
        lifecycle.follow()
        await self._security.add_first_users(self.cluster.deciding.controller, self.metadata.current_image())
        self._housekeeping.start()
        logs.cleaner.start()
        self._memory_return.start()
        await self.gateways.listeners.start()
        self.gateways.started()
        self.cluster.start(self._partitions)
        self.services.delay_topics.load(self.metadata.current_image())

    def module_preloader(self) -> None:
        """Have files that nobody needed by then be read in a while."""
        self.metadata.publisher.subscribe(self._module_preloader.on_image)
        self._module_preloader.start(self.metadata.current_image())

    async def stop(self) -> None:
        """Close the listeners, answer whoever waits, write the logs out and mark them clean.

        Whatever was started is closed, also when the start failed half-way, or when another part cannot be closed;
        raises the first error at the end.
        """
        services = self.services
        failure: Exception | None = None
        for close in (
            self.cluster.leave,
            self._housekeeping.stop,
            self._memory_return.stop,
            self.metadata.probe.close,
            services.delay_topics.close,
            services.gate.close,
            self._fetch_purgatory.close,
            services.transaction_coordinator.close,
            services.groups.close,
            services.shares.close,
            services.close_metrics,
            lambda: self.gateways.listeners.close(DRAIN_MS),
            services.share_history.close,
            self.gateways.close_own,
            self.cluster.close,
            self._opener.close,
            self.cluster.deciding.lifecycle.close,
            self._partitions.close,
            self._logs.close,
            self._environment.timer.close,
            self._environment.tasks.close,
        ):
            try:
                closing = close()
                if closing is not None:
                    await closing
            except Exception as error:
                logger.exception("could not close a component of the broker; the others are closed")
                failure = failure or error
        if failure is not None:
            raise failure
