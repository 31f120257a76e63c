"""One broker process, wired: the only place that knows all the parts.

data directory -> logs loaded -> metadata read -> partitions -> coordinators -> doors open
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.access import ALLOW_ALL
from ottla.broker.active_producers import ActiveProducers
from ottla.broker.broker import Broker
from ottla.broker.client_quotas import ClientQuotaService
from ottla.broker.cluster import ClusterView
from ottla.broker.committed_offsets import CommittedOffsetService
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import ConfigService
from ottla.broker.coordinators import CoordinatorLookup
from ottla.broker.features import FeatureService
from ottla.broker.fetch import FetchService
from ottla.broker.groups import GroupService
from ottla.broker.internal_topic_creation import InternalTopicCreation
from ottla.broker.log_directories import LogDirectoryService
from ottla.broker.offsets import OffsetService
from ottla.broker.produce import ProduceService
from ottla.broker.quota_manager import ClientQuotaManager
from ottla.broker.record_deletion import RecordDeletion
from ottla.broker.streams_groups import StreamsGroupService
from ottla.broker.topics import TopicService
from ottla.broker.transaction_gate import GateConfig, TransactionGate
from ottla.broker.transaction_markers import TransactionMarkers
from ottla.broker.transactional_produce import TransactionalProduceService
from ottla.broker.transactions import TransactionService
from ottla.coordination.environment import Environment
from ottla.gateways.kafka.apis import APIS
from ottla.gateways.kafka.fetch_session import FetchSessionCache
from ottla.gateways.kafka.gateway import TELEMETRY, KafkaConnection, KafkaGateway
from ottla.gateways.kafka.requests_together import RequestsTogether
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.group_config import GroupConfig
from ottla.metadata.broker_lifecycle import BrokerLifecycle
from ottla.metadata.controller.controller import Controller
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.producer_ids import ProducerIdAllocator
from ottla.metadata.controller.replica_directories import ReplicaPlace
from ottla.metadata.features import TRANSACTION_VERSION
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.store.interface import MetadataStore
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.network.address import Address
from ottla.network.connection import Connection
from ottla.replication.batch_opener import THREADS_MAX as OPENER_THREADS_MAX
from ottla.replication.batch_opener import BatchOpener
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.deadlines import Deadlines
from ottla.runtime.free_memory import FreeMemory, system_trim
from ottla.runtime.purgatory import Purgatory
from ottla.runtime.sampled_rate import Windows
from ottla.runtime.tasks import Tasks
from ottla.server.client_quota_keeper import ClientQuotaKeeper
from ottla.server.disk_watch import DiskWatch
from ottla.server.doors import Doors
from ottla.server.dynamic_broker_config import DRAIN_MS, DynamicBrokerConfig
from ottla.server.housekeeping import Housekeeping
from ottla.server.listener_set import ListenerSet
from ottla.server.listeners import Listeners
from ottla.server.memory_return import MemoryReturn
from ottla.server.partition_keeper import PartitionKeeper
from ottla.server.read_later import ReadLater
from ottla.server.registration import reachable_here, registration_of
from ottla.server.replica_places import ReplicaPlaces
from ottla.settings.broker_settings import BrokerSettings
from ottla.storage.directory_logs import DirectoryLogs
from ottla.storage.log_manager import LogManager
from ottla.transactions.coordinator import TransactionCoordinator
from ottla.transactions.transaction_config import TransactionConfig

if TYPE_CHECKING:
    from ottla.broker.client_metrics import ClientMetricsService
    from ottla.peers.controller_channel import ControllerChannel
    from ottla.peers.heartbeats import Disks
    from ottla.server.client_metrics_topic import ClientMetricsTopic
    from ottla.server.membership import ClusterMembership
    from ottla.server.replication import Replication

logger = logging.getLogger(__name__)

FETCH_SESSION_EVICTION_MS = 120_000
"""A fetch session not used for so long makes room for another when there is none (Kafka's value)."""

FETCH_WATCHES_MAX = 250_000
"""Partitions that all fetches which wait for records watch together; a fetch beyond is answered with what there is."""


class Server:
    """A broker that can be started once and stopped once. Belongs to one event loop."""

    def __init__(
        self,
        settings: BrokerSettings,
        logs: LogManager,
        doors: Doors,
        store: MetadataStore,
        listeners: Listeners,
        *,
        is_shared: bool = False,
        host_name: str | None = None,
    ) -> None:
        """`logs` have been loaded; `store` is not open yet. `ottla serve` makes the real ones, a simulation others.

        `is_shared` says that there may be other brokers on the store; `host_name` is what brokers of other hosts call
        this one, None when there are none.
        """
        self._settings = settings
        self._host_name = host_name
        self._logs = logs
        self._doors = doors
        self.on_company: Callable[[], None] | None = None
        """Called when a broker that is alone with its store hears of another one on it."""
        self._membership: ClusterMembership | None = None
        self._replication: Replication | None = None
        self._client_metrics: ClientMetricsService | None = None
        self._metrics_topic: ClientMetricsTopic | None = None
        self._is_started = False
        self._wire(store, listeners, is_shared=is_shared)

    def _wire(self, store: MetadataStore, listeners: Listeners, *, is_shared: bool) -> None:
        settings, doors = self._settings, self._doors
        self._metadata = MetadataLoader(store, doors.tasks)
        self._controller = Controller(
            store, self._metadata, settings, doors.rng, doors.tasks, clock=doors.clock, timer=doors.timer
        )
        self._lifecycle = BrokerLifecycle(
            store, self._metadata, self._controller, rng=doors.rng, timer=doors.timer, tasks=doors.tasks
        )
        deciding: Controller | ControllerChannel = self._controller
        if is_shared:
            from ottla.server import membership

            self._membership = membership.ClusterMembership(
                settings, doors, self._lifecycle, self._controller, self._metadata.publisher, self._disks
            )
            deciding = self._membership.controller
        self._replicas = ReplicaManager(lambda: self._metadata.image)
        self._fetch_purgatory = Purgatory(doors.timer, FETCH_WATCHES_MAX)
        authorizer = ALLOW_ALL
        self._configs = ConfigService(self._controller, settings, authorizer)
        environment = Environment(doors.clock, doors.timer, doors.tasks, doors.loop.call_soon)
        self._groups = GroupCoordinator(GroupConfig.from_settings(settings, self._configs.group_settings), environment)
        deadlines = Deadlines(doors.clock, doors.timer)
        markers = TransactionMarkers(self._replicas, deadlines, authorizer)
        markers.completers[CONSUMER_OFFSETS_TOPIC] = self._groups.end_transaction
        producer_ids = ProducerIdAllocator(deciding.allocate_producer_ids)
        self._transactions = TransactionCoordinator(
            TransactionConfig.from_settings(settings),
            environment,
            markers if self._membership is None else self._membership.marker_channel(markers),
            producer_ids.next,
            cluster_version=lambda: self._metadata.image.feature_level(TRANSACTION_VERSION),
        )
        self._opener = BatchOpener(Tasks("ottla-open", threads_max=OPENER_THREADS_MAX))
        self._places = places = ReplicaPlaces(
            settings.node_id,
            self._logs,
            self._replicas,
            lambda: self._metadata.image,
            self._place_replicas,
            doors.timer,
            doors.tasks,
        )
        self._keeper = PartitionKeeper(
            settings=settings,
            configs=self._configs,
            logs=self._logs,
            replicas=self._replicas,
            groups=self._groups,
            transactions=self._transactions,
            fetch_purgatory=self._fetch_purgatory,
            clock=doors.clock,
            tasks=doors.tasks,
            call_soon=doors.loop.call_soon,
            opener=self._opener,
            places=places,
        )
        fetches = FetchService(self._replicas, self._fetch_purgatory, settings.integer("fetch.max.bytes"), authorizer)
        if self._membership is not None:
            from ottla.server import replication

            self._replication = replication.Replication(
                settings,
                doors,
                self._logs,
                self._fetch_purgatory,
                self._opener,
                self._membership.channels,
                self._membership.controller.alter_partition,
                lambda: self._lifecycle.session.broker_epoch,
            )
            self._keeper.roles = self._replication.roles
            fetches.follower_quota = self._replication.follower_quota
            fetches.selector = replication.selector_of(settings, lambda: self._metadata.image)
        config = BrokerConfig.from_settings(settings)
        produce = ProduceService(self._replicas, deadlines, authorizer)
        transactions = TransactionService(
            self._transactions, authorizer, lambda: self._metadata.image, self._groups.partition_of
        )
        self._gate = TransactionGate(
            transactions
            if self._membership is None
            else self._membership.coordinator_channel(transactions, self._transactions.partition_of),
            GateConfig.from_settings(settings),
            clock=doors.clock,
            timer=doors.timer,
            defer=doors.loop.call_soon,
        )
        topics = TopicService(self._controller, config, authorizer, self._require_writable, deciding)
        self._broker = Broker(
            config=config,
            clock=doors.clock,
            rng=doors.rng,
            timer=doors.timer,
            tasks=doors.tasks,
            authorizer=authorizer,
            replicas=self._replicas,
            produce=produce,
            fetches=fetches,
            offsets=OffsetService(self._replicas, doors.clock, doors.timer, authorizer),
            topics=topics,
            configs=self._configs,
            groups=GroupService(self._groups, authorizer, doors.rng),
            streams_groups=StreamsGroupService(
                self._groups, InternalTopicCreation(topics, authorizer, doors.clock, doors.tasks), authorizer
            ),
            committed_offsets=CommittedOffsetService(
                self._groups, authorizer, lambda: self._metadata.image, self._gate, self._replicas
            ),
            coordinators=CoordinatorLookup(
                topics, self._groups.partition_of, self._transactions.partition_of, authorizer
            ),
            transactions=transactions,
            cluster=ClusterView(config, lambda: self._metadata.image, authorizer),
            producer_ids=producer_ids,
            record_deletion=RecordDeletion(self._replicas, self._logs.checkpoint_log_starts, doors.timer, authorizer),
            log_directories=LogDirectoryService(self._logs, self._replicas, authorizer),
            active_producers=ActiveProducers(self._replicas, authorizer),
            features=FeatureService(self._controller, authorizer),
            client_quotas=ClientQuotaService(self._controller, authorizer),
            client_metrics=self._receive_metrics,
            controller=self._controller,
            transaction_gate=self._gate,
            transactional_produce=TransactionalProduceService(produce, self._gate, authorizer),
            transaction_markers=markers,
        )
        sessions = FetchSessionCache(
            doors.clock,
            doors.rng,
            slots_max=settings.integer("max.incremental.fetch.session.cache.slots"),
            eviction_ms=FETCH_SESSION_EVICTION_MS,
        )
        has_telemetry = settings.boolean("telemetry.receiver.enable")
        self._gateway = KafkaGateway(self._broker, APIS if has_telemetry else APIS.without(TELEMETRY), sessions)
        together = RequestsTogether(
            self._gateway,
            settings.integer("socket.request.max.bytes"),
            writes_here=None if settings.boolean("log.flush.before.ack") else self._logs.writes_here,
        )
        self._listeners = ListenerSet(
            settings.listeners.opened,
            lambda endpoint: listeners.listener(endpoint, self._connect, together),
            doors.tasks,
        )
        quotas = listeners.quotas
        self._dynamic_config = DynamicBrokerConfig(
            self._configs,
            self._listeners,
            quotas,
            self._logs.cleaner,
            self._logs.moves,
            self._gate,
            listeners.connections_max,
        )
        self._dynamic_config.replication = self._replication
        windows = Windows(settings.integer("quota.window.num"), settings.integer("quota.window.size.seconds") * 1_000)
        change_windows = Windows(
            settings.integer("controller.quota.window.num"),
            settings.integer("controller.quota.window.size.seconds") * 1_000,
        )
        clients_max = settings.integer("quota.clients.max")
        self._client_quotas = ClientQuotaKeeper(
            ClientQuotaManager(doors.clock, windows, change_windows, clients_max), self._gateway, quotas
        )
        self._disk_watches = {directory: self._watch_over(directory) for directory in self._logs.directories}
        self._housekeeping = Housekeeping(settings, self._logs, doors.timer, doors.tasks)
        self._read_later = ReadLater(APIS, doors.timer, doors.tasks, is_shared=is_shared)
        self._memory_return = MemoryReturn(doors.timer, lambda: quotas.open_count, FreeMemory(system_trim))

    def _connect(self, connection: Connection) -> KafkaConnection:
        return self._gateway.connect(connection)

    def _on_subscriptions(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if any(resource.type == ConfigResourceType.CLIENT_METRICS for resource in delta.changed_configs):
            self._tell_of_telemetry(image)

    def _tell_of_telemetry(self, image: MetadataImage) -> None:
        """Clients are told that they may push metrics while any are asked for, if they are received at all."""
        self._gateway.tell_of_telemetry(
            any(resource.type == ConfigResourceType.CLIENT_METRICS for resource in image.configs)
        )

    def _receive_metrics(self) -> "ClientMetricsService":
        """What takes the metrics that clients push; of many brokers it is never asked for."""
        if self._client_metrics is None:
            from ottla.broker.client_metrics import ClientMetricsService
            from ottla.server.client_metrics_topic import ClientMetricsTopic

            settings, doors = self._settings, self._doors
            push_bytes_max = settings.integer("telemetry.max.bytes")
            topic = self._metrics_topic = ClientMetricsTopic(
                lambda: str(reachable_here(self.address)), settings.node_id, push_bytes_max, doors.clock, doors.tasks
            )
            self._client_metrics = ClientMetricsService(
                lambda: self._metadata.image, doors.clock, doors.rng, topic, push_bytes_max
            )
        return self._client_metrics

    @property
    def address(self) -> Address:
        """Where the first listener of the Kafka door listens."""
        return next(iter(self.addresses.values()))

    @property
    def addresses(self) -> dict[str, Address]:
        """Where each listener of the Kafka door listens, by its name."""
        return self._listeners.addresses

    @property
    def has_company(self) -> bool:
        """Whether the metadata has other brokers, whether or not they run now."""
        return any(broker_id != self._settings.node_id for broker_id in self._metadata.image.brokers)

    def _look_for_company(self, _image: MetadataImage, delta: MetadataDelta) -> None:
        if self.on_company is not None and delta.changed_brokers - {self._settings.node_id}:
            self.on_company()

    @property
    def is_active(self) -> bool:
        """Whether the cluster counts on this broker: the controller hears it, and gives it partitions."""
        known = self._metadata.image.brokers.get(self._settings.node_id)
        return known is not None and known.is_active

    async def start(self) -> None:
        """Take the addresses, read the metadata, serve the partitions, open the doors.

        Raises ListenError, StoreError and OSError, each with a line for the person who started the broker.
        """
        await self._listeners.bind()
        self._logs.attach(self._doors.loop)
        for directory, watch in self._disk_watches.items():
            directory.on_failure = partial(self._on_directory_failure, directory)
            watch.start()
        cluster_id = await self._lifecycle.open()
        self._logs.require_owner(cluster_id, self._settings.node_id)
        if self._membership is not None:
            await self._membership.identify(cluster_id, self._gateway)
        registration = registration_of(self._settings, self.addresses, self._logs, self._doors.rng, self._host_name)
        self._lifecycle.on_registered.append(lambda session: self._logs.used_by(session.broker_epoch))
        image = await self._lifecycle.start(self._settings.node_id, registration)
        # A number that is refused is not kept.
        is_known = await self._logs.identify(cluster_id, self._settings.node_id)
        await self._dynamic_config.apply(image)
        self._client_quotas.apply(image)
        self._tell_of_telemetry(image)
        if self._membership is not None:
            self._membership.join(image)
        if self._replication is not None:
            self._replication.start(image)
            self._metadata.publisher.subscribe(self._replication.roles.on_image)
        await self._keeper.load(image, is_known=is_known)
        self._keeper.resume_moves()
        self._metadata.publisher.subscribe(self._dynamic_config.on_image)
        self._metadata.publisher.subscribe(self._client_quotas.on_image)
        self._metadata.publisher.subscribe(self._on_subscriptions)
        self._metadata.publisher.subscribe(self._keeper.on_image)
        if self._membership is None:
            self._metadata.publisher.subscribe(self._look_for_company)
        self._lifecycle.follow()
        self._housekeeping.start()
        self._logs.cleaner.start()
        self._memory_return.start()
        await self._listeners.start()
        if self._membership is not None:
            self._membership.start()
        self._is_started = True

    def read_later(self) -> None:
        """Have files that nobody needed by then be read in a while."""
        self._metadata.publisher.subscribe(self._read_later.on_image)
        self._read_later.start(self._metadata.image)

    async def stop(self) -> None:
        """Close the doors, answer whoever waits, write the logs out and mark them clean.

        Whatever was started is closed, also when the start failed half-way, or when another part cannot be closed;
        raises the first error at the end.
        """
        failure: Exception | None = None
        for close in (
            *([self._membership.leave] if self._membership is not None and self._is_started else []),
            self._housekeeping.stop,
            self._memory_return.stop,
            self._gate.close,
            self._fetch_purgatory.close,
            self._transactions.close,
            self._groups.close,
            *([self._metrics_topic.close] if self._metrics_topic is not None else []),
            lambda: self._listeners.close(DRAIN_MS),
            *([self._replication.close] if self._replication is not None else []),
            *([self._membership.close] if self._membership is not None else []),
            self._opener.close,
            self._lifecycle.close,
            self._keeper.close,
            self._logs.close,
            self._doors.timer.close,
            self._doors.tasks.close,
        ):
            try:
                closing = close()
                if closing is not None:
                    await closing
            except Exception as error:
                logger.exception("a part of the broker could not be closed; the others are")
                failure = failure or error
        if failure is not None:
            raise failure

    def _watch_over(self, directory: DirectoryLogs) -> DiskWatch:
        doors = self._doors
        is_only = len(self._logs.directories) == 1
        name = "the data directory" if is_only else f"the data directory {directory.path}"
        return DiskWatch(
            directory,
            doors.clock,
            doors.timer,
            doors.tasks,
            lambda: self._keeper.directory_is_back(directory),
            name=name,
        )

    async def _place_replicas(self, places: Sequence[ReplicaPlace]) -> list[Outcome[None]]:
        if self._membership is not None:
            return await self._membership.controller.place_replicas(places)
        session = self._lifecycle.session
        return await self._controller.place_replicas(session.broker_id, session.broker_epoch, places)

    def _on_directory_failure(self, directory: DirectoryLogs, error: OSError) -> None:
        self._keeper.fail_all(self._disk_watches[directory].failed(error), directory)
        if self._membership is not None:
            self._membership.heartbeats.beat_soon()

    def _require_writable(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR while no new partition could be written anywhere."""
        others = self._metadata.image.active_brokers() - {self._settings.node_id}
        if self._membership is None or not others:
            self._logs.require_online()

    def _disks(self) -> "Disks":
        from ottla.peers.heartbeats import Disks

        if self._logs.failure is not None:
            return Disks(has_none=True)
        failed = [each.directory_id for each in self._logs.directories if each.failure is not None]
        return Disks(frozenset(each for each in failed if each is not None) | self._places.missing())
